"""Sampling demonstrations from a policy."""

import math
from dataclasses import dataclass
from typing import Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from tutelage.arrays import Flags, Indices, SparseRows, Vector, generator, whole_number
from tutelage.data.demonstrations import Demonstrations
from tutelage.model.mdp import MDP, absorbing_states
from tutelage.model.policy import check_policy
from tutelage.outcomes import InvalidInput

# For each step of all trajectories, ordered by time: the trajectory, its state and its choice.
Steps: TypeAlias = tuple[Indices, Indices, Indices]
# From this many steps on, a compiled loop saves more time than it takes to load.
COMPILED_ABOVE = 20_000


def horizon(discount: float, truncation_bias: float) -> int:
    """The least T >= 1 with discount^T / (1 - discount) <= truncation_bias.

    The left side bounds the discounted count of a feature in [0, 1] from step T on.
    """
    if not 0 < truncation_bias < math.inf:
        raise InvalidInput(f"truncation_bias must be a positive number, got {truncation_bias}")
    steps = max(1, math.ceil(math.log(truncation_bias * (1 - discount)) / math.log(discount)))
    return steps if discount**steps / (1 - discount) <= truncation_bias else steps + 1


def sample_demonstrations(
    mdp: MDP, policy: ArrayLike, n: int, *, rng: int | np.random.Generator, truncation_bias: float = 1e-3
) -> Demonstrations:
    """n trajectories of a policy, with all choices known.

    A trajectory ends in its first absorbing state, or where the discounted count of a feature in [0, 1] from there on
    is at most `truncation_bias`. rng: a seed or a generator.

    The end in an absorbing state truncates only features that differ between the choices of this state. The bias in
    `empirical_expectation` includes this truncation.
    """
    count = whole_number(n, "the number of demonstrations", least=1)
    chosen = check_policy(mdp, policy)
    trajectory, states, choices = _walk(mdp, chosen, count, truncation_bias, generator(rng))
    order = np.argsort(trajectory, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(trajectory, minlength=count))])
    return Demonstrations(states[order], offsets, choices[order], mdp)


def _walk(mdp: MDP, policy: Vector, n: int, truncation_bias: float, rng: np.random.Generator) -> Steps:
    n_steps = horizon(mdp.largest_discount, truncation_bias)
    choose = RowSampler.of(sparse.csr_array((policy, np.arange(mdp.n_choices), mdp.first_choice)))
    move = RowSampler.of(mdp.transition)
    state = RowSampler.of(sparse.csr_array(mdp.initial[None, :])).draw(np.zeros(n, dtype=np.int64), rng)
    is_last = absorbing_states(mdp)
    # With one discount the number of steps is enough.
    discount = np.ones(mdp.n_choices) if isinstance(mdp.discount, float) else mdp.discount
    bounds = mdp.horizon, truncation_bias
    if n_steps <= COMPILED_ABOVE:
        return _walk_together(state, (choose, move), is_last, n_steps, discount, bounds, rng)
    from tutelage.data import walks

    return walks.walk(state, (choose.arrays, move.arrays), is_last, n_steps, discount, bounds, rng)


def _walk_together(
    state: Indices,
    samplers: tuple["RowSampler", "RowSampler"],
    is_last: Flags,
    n_steps: int,
    discount: Vector,
    bounds: tuple[float, float],
    rng: np.random.Generator,
) -> Steps:
    """The same as `walks.walk`, draw for draw, with one array operation for all trajectories of a step."""
    choose, move = samplers
    weight, least = np.full(len(state), bounds[0]), bounds[1]
    live, steps = np.arange(len(state)), []
    for _ in range(n_steps):
        choice = choose.draw(state, rng)
        steps.append((live, state, choice))
        weight = weight * discount[choice]
        goes_on = ~is_last[state] & (weight > least)
        live, weight = live[goes_on], weight[goes_on]
        if not len(live):
            break
        state = move.draw(choice[goes_on], rng)
    trajectory, states, choices = map(np.concatenate, zip(*steps, strict=True))
    return trajectory, states, choices


@dataclass(frozen=True, slots=True, eq=False)
class RowSampler:
    """Draws a column from given rows of a stochastic matrix, by inversion of their distribution functions.

    cumulative: (nnz,), increases from r to r + 1 within row r, so that one sorted array serves all rows. For R rows the
        error of a probability is R * 2**-52, far below the sampling error.
    columns: (nnz,). ends: (R,), the last entry of each row.
    """

    cumulative: Vector
    columns: Indices
    ends: Indices

    @property
    def arrays(self) -> tuple[Vector, Indices, Indices]:
        """All three, for a compiled loop."""
        return self.cumulative, self.columns, self.ends

    @classmethod
    def of(cls, rows: SparseRows) -> Self:
        """A sampler that draws only positive entries of the rows."""
        positive = rows.copy()
        positive.eliminate_zeros()
        row = np.repeat(np.arange(positive.shape[0]), np.diff(positive.indptr))
        total = np.cumsum(positive.data)
        before = total[positive.indptr[:-1]] - positive.data[positive.indptr[:-1]]
        # Rounding must not carry a row beyond its end, or the array would not be sorted.
        within = np.minimum(total - before[row], 1.0)
        return cls(row + within, positive.indices.astype(np.int64), positive.indptr[1:] - 1)

    def draw(self, rows: Indices, rng: np.random.Generator) -> Indices:
        """One column for each of the given rows."""
        found = np.searchsorted(self.cumulative, rows + rng.random(len(rows)), side="right")
        # By rounding the last sum of a row may be slightly below the draw.
        return self.columns[np.minimum(found, self.ends[rows])]
