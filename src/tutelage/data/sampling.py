"""Sampling demonstrations from a policy."""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy import sparse

from tutelage.arrays import ArrayLike, Flags, Indices, SparseRows, Vector, generator, whole_number
from tutelage.chains.resolvent import policy_resolvent
from tutelage.data.demonstrations import Demonstrations
from tutelage.data.empirical import has_known_tail
from tutelage.model.mdp import MDP, Domain, absorbing_states
from tutelage.model.policy import check_policy
from tutelage.outcomes import InvalidInput


def horizon(discount: float, truncation_bias: float) -> int:
    """The least T >= 1 with discount^T / (1 - discount) <= truncation_bias.

    The left side bounds the discounted count of a feature in [0, 1] from step T on. So it does for episodes that end,
    with 1 - 1 / H in place of the discount: if no state has more than H expected steps, h, then K h = h - 1 <=
    (1 - 1 / H) h.
    """
    if not 0 < truncation_bias < math.inf:
        raise InvalidInput(f"truncation_bias must be a positive number, got {truncation_bias}")
    steps = max(1, math.ceil(math.log(truncation_bias * (1 - discount)) / math.log(discount)))
    return steps if discount**steps / (1 - discount) <= truncation_bias else steps + 1


def ends(domain: Domain | MDP) -> Flags:
    """(S,), the absorbing states whose choices are alike in every feature and in the discount: the rest is known.

    Without the features of a domain, those with one choice.
    """
    if isinstance(domain, MDP):
        is_last = absorbing_states(domain) & (domain.choices_per_state == 1)
        is_last[domain.ends] = True
        return np.asarray(is_last)
    reward, preference = (
        has_known_tail(domain.mdp, features).all(axis=1)
        for features in (domain.reward_features, domain.preference_features)
    )
    return np.asarray(reward & preference)


def sample_demonstrations(
    domain: Domain | MDP,
    policy: ArrayLike,
    n: int,
    *,
    rng: int | np.random.Generator,
    truncation_bias: float = 1e-3,
    max_steps: int | None = None,
) -> Demonstrations:
    """n trajectories of a policy, with all choices known.

    A trajectory ends where the discounted count of a feature in [0, 1] from there on is at most `truncation_bias`, and
    in an absorbing state whose choices are alike in features and discount. An MDP has no features, so there it ends
    only in an end, or in an absorbing state with one choice: give the domain for shorter trajectories. rng: a seed or a
    generator. max_steps: a trajectory is cut after so many visits, and `empirical_expectation` counts the rest as bias;
    without it, a trajectory longer than 200,000 is refused.
    """
    mdp = domain.mdp if isinstance(domain, Domain) else domain
    count = whole_number(n, "the number of demonstrations", least=1)
    most = None if max_steps is None else whole_number(max_steps, "max_steps", least=1)
    chosen = check_policy(mdp, policy)
    trajectory, states, choices = _walk(mdp, chosen, ends(domain), count, truncation_bias, most, generator(rng))
    order = np.argsort(trajectory, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(trajectory, minlength=count))])
    return Demonstrations(states[order], offsets, choices[order], mdp)


def _walk(
    mdp: MDP,
    policy: Vector,
    is_last: Flags,
    n: int,
    truncation_bias: float,
    max_steps: int | None,
    rng: np.random.Generator,
    longest: int = 200_000,
) -> tuple[Indices, Indices, Indices]:
    """For each step of all trajectories, ordered by time: the trajectory, its state and its choice."""
    expected, factor = mdp.steps, mdp.contraction
    if np.isinf(mdp.horizon):
        expected = float(policy_resolvent(mdp, policy).values(np.ones(mdp.n_states)).max())
        factor = 1 - 1 / expected
    n_steps = horizon(factor, truncation_bias)
    choose = RowSampler.of(sparse.csr_array((policy, np.arange(mdp.n_choices), mdp.first_choice)))
    move = RowSampler.of(mdp.transition)
    state = RowSampler.of(sparse.csr_array(mdp.initial[None, :])).draw(np.zeros(n, dtype=np.int64), rng)
    # With one discount the number of steps is enough.
    discount = np.ones(mdp.n_choices) if isinstance(mdp.discount, float) else mdp.discount
    weight, live, steps = np.full(n, expected), np.arange(n), []
    for n_taken in range(min(n_steps, max_steps or n_steps)):
        if max_steps is None and n_taken == longest:
            raise InvalidInput(
                f"{len(live)} of {n} trajectories are longer than {longest} visits, and may have {n_steps}; "
                "give max_steps, or raise truncation_bias"
            )
        choice = choose.draw(state, rng)
        steps.append((live, state, choice))
        weight = weight * discount[choice]
        goes_on = ~is_last[state] & (weight > truncation_bias)
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
        entries = np.searchsorted(self.cumulative, rows + rng.random(len(rows)), side="right")
        # By rounding the last sum of a row may be slightly below the draw.
        return self.columns[np.minimum(entries, self.ends[rows])]
