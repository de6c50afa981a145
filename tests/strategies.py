"""Random problems shared by all tests: plain functions of a numpy Generator, and hypothesis strategies on top of them.

A strategy draws the sizes, which shrink, and one integer seed, from which a Generator makes every array: examples are
fast, and a failure is reported as a few numbers.
"""

import os
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from hypothesis import strategies as st
from numpy.random import Generator
from scipy import sparse

from tutelage.arrays import Indices, SparseRows, Vector
from tutelage.chains.resolvent import chain
from tutelage.environments.object_world import ObjectWorld
from tutelage.environments.placement import OBJECT_TYPES
from tutelage.model.mdp import MDP, Domain

SEEDS = st.integers(0, 2**32 - 1)


def some_of(every: Iterable, some: Iterable) -> list:
    """The cases of a long test: `some` of them, or `every` one with TUTELAGE_EVERY_CELL=1 (`make test-all`)."""
    return list(every if os.environ.get("TUTELAGE_EVERY_CELL") else some)


def random_rows(rng: Generator, n_rows: int, n_states: int, *, max_successors: int = 4) -> SparseRows:
    """(n_rows, n_states), each row a distribution over 1 .. max_successors different states."""
    lengths = rng.integers(1, min(max_successors, n_states) + 1, size=n_rows)
    columns = [rng.choice(n_states, size=length, replace=False) for length in lengths]
    weights = [rng.dirichlet(np.ones(length)) for length in lengths]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return sparse.csr_array((np.concatenate(weights), np.concatenate(columns), offsets), shape=(n_rows, n_states))


def build_mdp(rng: Generator, choices_per_state: Indices, discount: float | Vector) -> MDP:
    """A random MDP of the given ragged shape, with every state a possible start."""
    first_choice = np.concatenate([[0], np.cumsum(choices_per_state)])
    n_states = len(choices_per_state)
    rows = random_rows(rng, int(first_choice[-1]), n_states)
    return MDP.from_choices(rows, first_choice, rng.dirichlet(np.ones(n_states)), discount)


def random_discounts(rng: Generator, n_choices: int) -> Vector:
    """(n_choices,), different discounts in [0.5, 0.999], or nearly the same ones."""
    if rng.random() < 0.2:
        return np.nextafter(0.99, rng.integers(2, size=n_choices))
    return 1 - 0.5 * 0.002 ** rng.random(n_choices)


def random_mdp(rng: Generator, *, max_states: int = 60, max_choices: int = 6) -> MDP:
    """A ragged MDP of 2 .. max_states states with sparse rows; one discount in [0.5, 0.999], or one per choice."""
    choices_per_state = rng.integers(1, max_choices + 1, size=rng.integers(2, max_states + 1))
    mdp = build_mdp(rng, choices_per_state, float(1 - 0.5 * 0.002 ** rng.random()))
    # A generator of its own: what `rng` draws next is the same for both kinds of discount.
    own = np.random.default_rng(int(2**53 * mdp.initial[0]))
    return replace(mdp, discount=random_discounts(own, mdp.n_choices)) if own.random() < 0.5 else mdp


def random_policy(rng: Generator, mdp: MDP) -> Vector:
    """A policy that gives every choice some probability."""
    weights = rng.exponential(size=mdp.n_choices)
    return weights / np.repeat(np.add.reduceat(weights, mdp.first_choice[:-1]), mdp.choices_per_state)


def random_deterministic_policy(rng: Generator, mdp: MDP) -> Vector:
    """A policy that takes one choice in each state."""
    policy = np.zeros(mdp.n_choices)
    policy[mdp.first_choice[:-1] + rng.integers(mdp.choices_per_state)] = 1.0
    return policy


def add_features(
    rng: Generator, mdp: MDP, *, n_reward: int, n_preference: int, reward_on_choices: bool, preference_on_choices: bool
) -> Domain:
    """The MDP with features in [0, 1], about a third of them zero as they would be on a grid."""

    def columns(count: int, on_choices: bool) -> Vector:
        shape = (mdp.n_choices if on_choices else mdp.n_states, count)
        return rng.random(shape) * (rng.random(shape) < 0.67)

    reward, preference = columns(n_reward, reward_on_choices), columns(n_preference, preference_on_choices)
    # Without names, as many features as choices would be ambiguous.
    names = ([f"{kind} {i}" for i in range(n)] for kind, n in (("reward", n_reward), ("preference", n_preference)))
    return Domain(mdp, reward, preference, *names)


def random_domain(
    rng: Generator,
    *,
    max_states: int = 60,
    max_choices: int = 6,
    n_reward: int = 3,
    n_preference: int = 2,
    on_choices: bool = False,
) -> Domain:
    """A random MDP with features on states, or on choices."""
    return add_features(
        rng,
        random_mdp(rng, max_states=max_states, max_choices=max_choices),
        n_reward=n_reward,
        n_preference=n_preference,
        reward_on_choices=on_choices,
        preference_on_choices=on_choices,
    )


@st.composite
def mdps(draw: st.DrawFn, min_states: int = 2, max_states: int = 12, max_choices: int = 4) -> MDP:
    """Small ragged MDPs with a discount in [0.5, 0.99], or one per choice in [0.5, 0.999]."""
    choices_per_state = draw(st.lists(st.integers(1, max_choices), min_size=min_states, max_size=max_states))
    discount = draw(st.floats(0.5, 0.99))
    rng = np.random.default_rng(draw(SEEDS))
    if draw(st.booleans()):
        discount = random_discounts(rng, sum(choices_per_state))
    return build_mdp(rng, np.array(choices_per_state), discount)


@st.composite
def domains(
    draw: st.DrawFn,
    min_states: int = 2,
    max_states: int = 12,
    max_choices: int = 4,
    max_reward: int = 3,
    max_preference: int = 3,
) -> Domain:
    """Small domains, either kind of feature on states or on choices; there may be no preference features."""
    return add_features(
        np.random.default_rng(draw(SEEDS)),
        draw(mdps(min_states, max_states, max_choices)),
        n_reward=draw(st.integers(1, max_reward)),
        n_preference=draw(st.integers(0, max_preference)),
        reward_on_choices=draw(st.booleans()),
        preference_on_choices=draw(st.booleans()),
    )


@st.composite
def policies(draw: st.DrawFn, mdp: MDP) -> Vector:
    """Policies of one MDP, stochastic or deterministic."""
    make = draw(st.sampled_from([random_deterministic_policy, random_policy]))
    return make(np.random.default_rng(draw(SEEDS)), mdp)


@st.composite
def mdps_with_policy(draw: st.DrawFn, min_states: int = 2, max_states: int = 12) -> tuple[MDP, Vector]:
    """An MDP and one of its policies."""
    mdp = draw(mdps(min_states, max_states))
    return mdp, draw(policies(mdp))


@st.composite
def domains_with_policy(draw: st.DrawFn, min_states: int = 2, max_states: int = 12) -> tuple[Domain, Vector]:
    """A domain and one of its policies."""
    domain = draw(domains(min_states, max_states))
    return domain, draw(policies(domain.mdp))


@st.composite
def hand_worlds(draw: st.DrawFn) -> ObjectWorld:
    """Object worlds of 1x1 to 6x6 cells, with any number of objects and distractors in any cells."""
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


# Chains that are hard for iterations.
CHAIN_STATES, CHAIN_DISCOUNT = 2_000, 0.99


def ragged(rng):
    """One to three choices per state, to up to four states anywhere."""
    mdp = build_mdp(rng, rng.integers(1, 4, size=CHAIN_STATES), CHAIN_DISCOUNT)
    return chain(mdp, random_policy(rng, mdp))


def periodic(rng):
    """Cycles of 200 states in shuffled order: the chain does not mix, and no order of sweeps helps."""
    order = rng.permutation(CHAIN_STATES)
    after = np.roll(order.reshape(-1, 200), 1, axis=1).ravel()
    return sparse.csr_array((np.ones(CHAIN_STATES), (order, after)), (CHAIN_STATES, CHAIN_STATES))


def bipartite(rng):
    """A chain that alternates between two halves: -1 is an eigenvalue as well as 1."""
    there, half = random_rows(rng, CHAIN_STATES, CHAIN_STATES // 2), CHAIN_STATES // 2
    return sparse.csr_array(sparse.block_array([[None, there[:half]], [there[half:], None]]))


def nearly_uncoupled(rng):
    """Twenty communities, left once in ten million steps."""
    size = CHAIN_STATES // 20
    inside = sparse.block_diag([random_rows(rng, size, size) for _ in range(20)], format="csr")
    return sparse.csr_array((1 - 1e-7) * inside + 1e-7 * random_rows(rng, CHAIN_STATES, CHAIN_STATES))


def absorbing_walk(rng):
    """A walk along a line; a third of its states are left with probability 1e-9 only."""
    keep = np.where(rng.random(CHAIN_STATES) < 1 / 3, 1 - 1e-9, 0.0)
    on = sparse.diags_array([np.ones(CHAIN_STATES - 1)], offsets=[-1], shape=(CHAIN_STATES, CHAIN_STATES)).tolil()
    on[0, CHAIN_STATES - 1] = 1.0
    return sparse.csr_array(sparse.diags_array(keep) + sparse.diags_array(1 - keep) @ on.tocsr())


CHAINS = (ragged, periodic, bipartite, nearly_uncoupled, absorbing_walk)
