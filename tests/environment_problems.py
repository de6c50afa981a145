"""What the tests of several environments share: worlds written by hand, and optima computed by plain iteration."""

import numpy as np
from hypothesis import strategies as st

from tutelage.environments.object_world import ObjectWorld
from tutelage.environments.placement import OBJECT_TYPES
from tutelage.mdp.model import MDP, Domain, choice_reward
from tutelage.mdp.policy import max_by_state


def distance(one: int, other: int, size: int) -> int:
    """How many steps of a king lie between two cells."""
    return max(abs(one // size - other // size), abs(one % size - other % size))


@st.composite
def hand_worlds(draw: st.DrawFn) -> ObjectWorld:
    """Worlds of any size from one cell on, with any number of things in any cells."""
    size = draw(st.integers(1, 6))
    cells = st.integers(0, size * size - 1)
    type_of = draw(st.dictionaries(cells, st.sampled_from(OBJECT_TYPES)))
    colour_of = draw(st.dictionaries(cells, st.sampled_from(("green", "yellow"))))
    return ObjectWorld(
        size=size,
        start=draw(cells),
        objects={kind: [cell for cell in type_of if type_of[cell] == kind] for kind in OBJECT_TYPES},
        distractors={kind: [cell for cell in colour_of if colour_of[cell] == kind] for kind in ("green", "yellow")},
        discount=draw(st.floats(0.01, 0.99)),
        end_probability=draw(st.floats(0, 1)),
        weights=tuple(draw(st.lists(st.floats(-10, 10), min_size=3, max_size=3))),
    )


def optimal_value(domain: Domain, weights) -> float:
    """P0 @ V of the best policy, by value iteration to the last digits."""
    mdp = domain.mdp
    reward = choice_reward(mdp, domain.reward_features @ np.asarray(weights))
    value, change = np.zeros(mdp.n_states), np.inf
    while change > 1e-13 * max(1.0, np.abs(value).max()):
        new = max_by_state(mdp, reward + mdp.discount * (mdp.transition @ value))
        value, change = new, np.abs(new - value).max()
    return float(mdp.initial @ value)


def ragged_domain() -> Domain:
    """Three states with 2, 1 and 3 choices; the last is absorbing and goes on paying."""
    rows = np.array([[0, 1, 0], [0.5, 0, 0.5], [1, 0, 0], [0, 0, 1], [0, 0, 1], [0, 0, 1]])
    mdp = MDP.from_choices(rows, [0, 2, 3, 6], [1, 0, 0], 0.9)
    return Domain(mdp, np.array([[0.0], [-1.0], [0.5], [1.0], [0.0], [0.0]]))
