"""A few trajectories of a policy: sampled, all of its routes, or selected to be close to a lesson.

Let x_i be the discounted reward feature counts of trajectory i minus the expectation of the lesson. The distance of n
trajectories from the lesson is norm_2(sum of x_i) / n. The best n of a pool solve a subset-sum problem. A heuristic:
from several random selections, replace i by the j with the least norm_2(sum - x_i + x_j) as long as the norm falls.
"""

import heapq
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from tutelage import arrays
from tutelage.arrays import ArrayLike, Flags, Indices, Matrix, Readable, SparseRows, Vector
from tutelage.chains.resolvent import policy_resolvent
from tutelage.data.demonstrations import Demonstrations
from tutelage.data.empirical import counts_of, has_known_tail
from tutelage.model.inputs import choice_of_entry
from tutelage.model.mdp import MDP, Domain, absorbing_states, combined_features
from tutelage.model.names import AT_GOAL
from tutelage.model.policy import check_policy
from tutelage.outcomes import InvalidInput

# The largest truncation error of the count of a feature in [0, 1].
TRUNCATION_BIAS = 1e-3
# The most visits of one trajectory, and of all beginnings of routes.
LONGEST = 200_000


def horizon(discount: float, truncation_bias: float) -> int:
    """The least T >= 1 with discount^T / (1 - discount) <= truncation_bias; the left side bounds the count of
    a feature in [0, 1] from step T on. So it does for episodes that end, with 1 - 1 / H in place of the discount: if no
    state has more than H expected steps, h, then K h = h - 1 <= (1 - 1 / H) h."""
    if not 0 < truncation_bias < math.inf:
        raise InvalidInput(f"truncation_bias must be a positive number, got {truncation_bias}")
    steps = max(1, math.ceil(math.log(truncation_bias * (1 - discount)) / math.log(discount)))
    return steps if discount**steps / (1 - discount) <= truncation_bias else steps + 1


def ends(domain: Domain | MDP) -> Flags:
    """(S,), the absorbing states whose choices are alike in every feature and in the discount: the rest is known."""
    if isinstance(domain, MDP):
        is_last = absorbing_states(domain) & (domain.choices_per_state == 1)
        is_last[domain.ends] = True
        return np.asarray(is_last)
    return np.asarray(has_known_tail(domain.mdp, combined_features(domain)).all(axis=1))


def sample_demonstrations(
    domain: Domain | MDP,
    policy: ArrayLike,
    n: int,
    *,
    rng: int | np.random.Generator,
    truncation_bias: float = TRUNCATION_BIAS,
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
    count = arrays.whole_number(n, "the number of demonstrations", least=1)
    most = None if max_steps is None else arrays.whole_number(max_steps, "max_steps", least=1)
    return _walk(mdp, check_policy(mdp, policy), ends(domain), count, truncation_bias, most, arrays.generator(rng))


def _walk(
    mdp: MDP, policy: Vector, is_last: Flags, n: int, truncation_bias: float, most: int | None, rng: np.random.Generator
) -> Demonstrations:
    """n trajectories, all of which take a step at the same time."""
    expected, factor = mdp.steps, mdp.contraction
    if np.isinf(mdp.horizon):
        expected = float(policy_resolvent(mdp, policy).values(np.ones(mdp.n_states)).max())
        factor = 1 - 1 / expected
    n_steps = horizon(factor, truncation_bias)
    choose = row_sampler(sparse.csr_array((policy, np.arange(mdp.n_choices), mdp.first_choice)))
    move = row_sampler(mdp.transition)
    state = row_sampler(sparse.csr_array(mdp.initial[None, :]))(np.zeros(n, dtype=np.int64), rng)
    # With one discount the number of steps is enough.
    discount = np.ones(mdp.n_choices) if isinstance(mdp.discount, float) else mdp.discount
    weight, live = np.full(n, expected), np.arange(n)
    steps = []
    for n_taken in range(min(n_steps, most or n_steps)):
        if most is None and n_taken == LONGEST:
            raise InvalidInput(
                f"{len(live)} of {n} trajectories are longer than {LONGEST} visits, and may have {n_steps}; "
                "give max_steps, or raise truncation_bias"
            )
        choice = choose(state, rng)
        steps.append((live, state, choice))
        weight = weight * discount[choice]
        goes_on = ~is_last[state] & (weight > truncation_bias)
        live, weight = live[goes_on], weight[goes_on]
        if not len(live):
            break
        state = move(choice[goes_on], rng)
    trajectory, states, choices = map(np.concatenate, zip(*steps, strict=True))
    order = np.argsort(trajectory, kind="stable")
    offsets = np.cumsum([0, *np.bincount(trajectory)])
    return Demonstrations(states[order], offsets, choices[order], mdp)


def row_sampler(rows: SparseRows) -> Callable[[Indices, np.random.Generator], Indices]:
    """A function that draws a column for each of some rows of a stochastic matrix, by inversion: a positive entry.
    For R rows the error of a probability is R * 2**-52, far below the sampling error."""
    positive = rows.copy()
    positive.eliminate_zeros()
    columns, ends = positive.indices.astype(np.int64), positive.indptr[1:]
    total = np.append(0, positive.data).cumsum()
    before = total[positive.indptr[:-1]]
    sums = np.diff(total[positive.indptr])

    def draw(given: Indices, rng: np.random.Generator) -> Indices:
        entries = np.searchsorted(total, before[given] + sums[given] * rng.random(len(given)), side="right") - 1
        # By rounding the draw may be the last sum of its row.
        return np.asarray(columns[np.minimum(entries, ends[given] - 1)])

    return draw


def routes(domain: Domain, policy: Vector, n: int) -> tuple[Demonstrations, Vector] | None:
    """All trajectories of a policy and their probabilities, the likeliest first; None if there are more than n.
    A choice of probability 1e-9 is rounding, and routes with a millionth of the probability may be missing."""
    mdp, is_last = domain.mdp, ends(domain)
    rows, of_entry = mdp.transition, choice_of_entry(mdp.transition)
    longest = horizon(mdp.contraction, TRUNCATION_BIAS)
    chances = np.where(policy > 1e-9, policy, 0.0)[of_entry] * rows.data
    begins = rows.indptr[mdp.first_choice]
    # Of each beginning its negative probability, its number, its last state, the last visit with those before it, and
    # its length. Copies of long paths would take quadratic time.
    starts = enumerate(np.flatnonzero(mdp.initial)[::-1].tolist())
    live: list[tuple[float, int, int, Any, int]] = [(-float(mdp.initial[at]), k, at, None, 1) for k, at in starts]
    heapq.heapify(live)
    paths, shares = list[Indices](), list[float]()
    n_visits, missing = len(live), 1.0
    while live and missing > 1e-6:
        if len(paths) >= n or len(live) > 20 * n or n_visits > LONGEST:
            return None
        negative, _, state, before, length = heapq.heappop(live)
        entries = begins[state] + np.flatnonzero(chances[begins[state] : begins[state + 1]])
        if is_last[state] or length >= longest:
            likeliest = max(entries, key=lambda entry: (chances[entry], of_entry[entry]))
            path = [(state, of_entry[likeliest])]
            while before is not None:
                visit, before = before
                path.append(visit)
            paths.append(np.array(path[::-1]))
            shares.append(-negative)
            missing += negative
            continue
        for entry in entries.tolist():
            visits = (state, of_entry[entry]), before
            chance = negative * float(chances[entry])
            heapq.heappush(live, (chance, n_visits, int(rows.indices[entry]), visits, length + 1))
            n_visits += 1
    states, choices = np.concatenate(paths).T
    return Demonstrations(states, np.cumsum([0, *map(len, paths)]), choices, mdp), np.array(shares) / sum(shares)


@dataclass(frozen=True, slots=True, eq=False)
class SelectedDemonstrations(Readable):
    """The demonstrations selected for a lesson.

    demonstrations: n trajectories. expectation: (d_r,), their empirical reward expectation, mu_hat_r(Xi).
    distance: 2-norm of its difference from the lesson's expectation. random_distance: the mean distance of 400 random
    selections of n trajectories from the same pool. pool_size: the number of trajectories in the pool.
    """

    demonstrations: Demonstrations
    expectation: Vector
    distance: float
    random_distance: float
    pool_size: int


def select(
    domain: Domain, lesson: Any, n: int, *, limits: Mapping[str, float], rng: int | np.random.Generator
) -> SelectedDemonstrations:
    """As `roles.select_demonstrations`; of a pool with n trajectories that arrive and keep the limits, these alone."""
    n, source = arrays.whole_number(n, "the number of demonstrations", least=1), arrays.generator(rng)
    pool, wanted = lesson.recorded, lesson.expectation
    if pool is not None and pool.n < n:
        raise InvalidInput(f"the lesson has only {pool.n} demonstrations, so n must not be {n}; give a smaller n")
    if pool is None:
        # 2,000 trajectories, or fewer where they are long, but five for each.
        size = max(5 * n, min(2_000, 3_000_000 // horizon(domain.mdp.contraction, TRUNCATION_BIAS)))
        policy = lesson.policy
        if policy is None:
            # Imported here, because `roles` imports this module and must not load the solvers.
            from tutelage.constrained.occupancy_polytope import nearest_policy
            from tutelage.constrained.problem import no_limits

            policy = nearest_policy(domain, wanted, no_limits(domain)).policy
        pool = sample_demonstrations(domain, policy, size, rng=source)
    followed = is_followed(domain, pool, limits)
    if n <= followed.sum() < pool.n:
        pool = pool.take(np.flatnonzero(followed))
    counts, _ = counts_of(domain, pool, "reward")
    offsets = (counts - wanted)[:, compared(domain)]

    def distance(chosen: Indices) -> float:
        return float(np.linalg.norm(offsets[chosen].mean(axis=0)))

    drawn = [source.choice(pool.n, size=n, replace=False) for _ in range(400)]
    # More than 16 restarts gain little, and each of a large selection takes long.
    optima = [np.sort(_exchange(offsets, start)) for start in drawn[: min(16, 1 + 1_000 // n)]]
    chosen = min(optima, key=distance)
    mean = arrays.freeze(counts[chosen].mean(axis=0))
    at_random = float(np.mean([distance(some) for some in drawn]))
    return SelectedDemonstrations(pool.take(chosen), mean, distance(chosen), at_random, pool.n)


def compared(domain: Domain) -> Flags:
    """(d_r,), the reward features that distances compare: the time at a goal would dwarf all others."""
    is_other = np.array([name != AT_GOAL for name in domain.reward_names])
    return is_other if is_other.any() else ~is_other


def is_followed(domain: Domain, shown: Demonstrations, limits: Mapping[str, float]) -> Flags:
    """(n,), whether a person would follow each demonstration: to a goal, where there are goals, within the limits."""
    kept = np.ones(shown.n, dtype=np.bool_)
    if len(domain.mdp.goals):
        kept &= np.isin(shown.last_states, domain.mdp.goals)
    if limits:
        columns = [domain.preference_names.index(name) for name in limits]
        kept &= (counts_of(domain, shown, "preference")[0][:, columns] <= list(limits.values())).all(axis=1)
    return kept


def _exchange(offsets: Matrix, chosen: Indices) -> Indices:
    """(n,), the local optimum that exchanges of one trajectory at a time reach from a selection."""
    chosen, total = chosen.copy(), offsets[chosen].sum(axis=0)
    is_free = np.ones(len(offsets), dtype=np.bool_)
    is_free[chosen] = False
    # A smaller sum is rounding, and so is a relative gain of less than a millionth.
    least = 1e-12 * len(chosen) * float(np.abs(offsets).max())
    is_better = bool(is_free.any())
    while is_better:
        is_better = False
        for place, left in enumerate(chosen):
            without, norm = total - offsets[left], np.linalg.norm(total)
            norms = np.where(is_free, np.linalg.norm(offsets + without, axis=1), np.inf)
            best = int(norms.argmin())
            if norm > least and norms[best] < (1 - 1e-6) * norm:
                is_free[[best, left]] = False, True
                chosen[place] = best
                total = without + offsets[best]
                is_better = True
    return chosen
