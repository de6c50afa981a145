"""Sampling demonstrations from a policy."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from tutelage.arrays import Indices, SparseRows, Vector, generator, whole_number
from tutelage.mdp.demonstrations import Demonstrations, absorbing_states
from tutelage.mdp.model import MDP
from tutelage.mdp.policy import check_policy
from tutelage.outcomes import InvalidInput

Step = tuple[Indices, Indices, Indices]


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
    return _assemble(mdp, count, list(_walk(mdp, check_policy(mdp, policy), count, truncation_bias, generator(rng))))


def _walk(mdp: MDP, policy: Vector, n: int, truncation_bias: float, rng: np.random.Generator) -> Iterator[Step]:
    """For each time: the trajectories that have not ended, their states and their choices."""
    n_steps = horizon(mdp.largest_discount, truncation_bias)
    choose = RowSampler.of(sparse.csr_array((policy, np.arange(mdp.n_choices), mdp.first_choice)))
    move = RowSampler.of(mdp.transition)
    is_absorbing = absorbing_states(mdp)
    live, weight = np.arange(n), np.full(n, mdp.horizon)
    state = RowSampler.of(sparse.csr_array(mdp.initial[None, :])).draw(np.zeros(n, dtype=np.int64), rng)
    for _ in range(n_steps):
        choice = choose.draw(state, rng)
        yield live, state, choice
        goes_on = ~is_absorbing[state]
        if not isinstance(mdp.discount, float):
            weight = weight * mdp.discount[choice]
            goes_on &= weight > truncation_bias
        live, weight = live[goes_on], weight[goes_on]
        if not len(live):
            return
        state = move.draw(choice[goes_on], rng)


def _assemble(mdp: MDP, n: int, steps: Sequence[Step]) -> Demonstrations:
    """The demonstrations from the steps of all trajectories, which are ordered by time."""
    lengths = np.bincount(np.concatenate([live for live, _, _ in steps]), minlength=n)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    states, choices = np.empty((2, offsets[-1]), dtype=np.int64)
    for time, (live, state, choice) in enumerate(steps):
        states[offsets[live] + time] = state
        choices[offsets[live] + time] = choice
    return Demonstrations(states, offsets, choices, mdp)


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
