"""Selection of demonstrations: n trajectories whose mean feature counts are as close as possible to a lesson.

Let x_i be the discounted reward feature counts of trajectory i minus the expectation of the lesson. The distance of n
trajectories from the lesson is norm_2(sum of x_i) / n. For a random sample it is about sqrt(trace Cov(x) / n). The best
n trajectories of a pool solve a subset-sum problem, which is hard to solve exactly. Two heuristics solve it well:

    greedy     n times, add the trajectory j that minimises norm_2(sum + x_j) (herding)
    exchange   replace a selected trajectory i by the j that minimises norm_2(sum - x_i + x_j), until no replacement
               reduces the norm

Each exchange reduces the distance and there are finitely many selections, so the search ends in a local optimum. A
selection of n has n times the pool size as neighbours in a space of few dimensions, so a local optimum is close to the
lesson. The search starts from the greedy selection and from random ones, and the best local optimum is returned.
"""

from dataclasses import dataclass

import numpy as np

from tutelage.arrays import Flags, Indices, Matrix, Vector, freeze, generator, whole_number
from tutelage.constrained.occupancy_polytope import nearest_policy
from tutelage.constrained.problem import no_limits
from tutelage.data.demonstrations import Demonstrations
from tutelage.data.empirical import reward_counts
from tutelage.data.sampling import horizon, sample_demonstrations
from tutelage.model.mdp import Domain
from tutelage.outcomes import InvalidInput

# The pool has POOL_SIZE trajectories, fewer where they would have more than POOL_VISITS visits in total, but at least
# POOL_PER_DEMONSTRATION for each trajectory to select.
POOL_SIZE = 2_000
POOL_VISITS = 3_000_000
POOL_PER_DEMONSTRATION = 5
# The largest truncation error of the count of a feature in [0, 1].
TRUNCATION_BIAS = 1e-3
# The number of random selections whose mean distance is reported for comparison.
N_DRAWS = 400
# The largest number of searches from random selections, and of demonstrations in all of them after the first.
MOST_RESTARTS, RESTARTED_DEMONSTRATIONS = 16, 1_000
# The least relative reduction of the norm by an exchange; smaller reductions may be rounding errors.
LEAST_GAIN = 1e-6
# The rounding error of a sum of counts, relative to the largest count.
ROUNDING = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """As `SelectedDemonstrations` in `teachers.selection`, which describes the fields."""

    demonstrations: Demonstrations
    expectation: Vector
    distance: float
    random_distance: float
    pool_size: int


def select(
    domain: Domain,
    wanted: Vector,
    n: int,
    *,
    policy: Vector | None,
    recorded: Demonstrations | None,
    rng: int | np.random.Generator,
) -> Selection:
    """n trajectories whose mean reward feature counts are close to `wanted` (d_r,).

    The pool consists of the recorded demonstrations, or of samples from the policy, or from the policy nearest to
    `wanted`.
    """
    n, source = whole_number(n, "the number of demonstrations", least=1), generator(rng)
    pool = _pool(domain, wanted, policy, recorded, n, source)
    counts = reward_counts(domain, pool)
    offsets = counts - wanted
    drawn = [source.choice(pool.n, size=n, replace=False) for _ in range(N_DRAWS)]
    starts = [_greedy(offsets, n), *drawn[: min(MOST_RESTARTS, 1 + RESTARTED_DEMONSTRATIONS // n)]]
    optima = [np.sort(_exchange(offsets, start)) for start in starts]
    chosen = min(optima, key=lambda optimum: _distance(offsets, optimum))
    return Selection(
        demonstrations=pool.take(chosen),
        expectation=freeze(counts[chosen].mean(axis=0)),
        distance=_distance(offsets, chosen),
        random_distance=float(np.mean([_distance(offsets, choice) for choice in drawn])),
        pool_size=pool.n,
    )


def _pool(
    domain: Domain,
    wanted: Vector,
    policy: Vector | None,
    recorded: Demonstrations | None,
    n: int,
    rng: np.random.Generator,
) -> Demonstrations:
    """The trajectories to select from."""
    if recorded is not None:
        if recorded.n < n:
            raise InvalidInput(
                f"the lesson has only {recorded.n} demonstrations, so n must not be {n}; give a smaller n"
            )
        return recorded
    if policy is None:
        policy = nearest_policy(domain, wanted, no_limits(domain)).policy
    usual = min(POOL_SIZE, POOL_VISITS // horizon(domain.mdp.largest_discount, TRUNCATION_BIAS))
    size = max(usual, POOL_PER_DEMONSTRATION * n)
    return sample_demonstrations(domain.mdp, policy, size, rng=rng, truncation_bias=TRUNCATION_BIAS)


def _greedy(offsets: Matrix, n: int) -> Indices:
    """(n,), trajectories selected one by one; each brings the sum of the offsets closest to zero."""
    chosen, total = np.zeros(n, dtype=np.int64), np.zeros(offsets.shape[1])
    is_free = np.ones(len(offsets), dtype=np.bool_)
    for place in range(n):
        chosen[place] = best = _nearest(offsets, total, is_free)[0]
        is_free[best] = False
        total = total + offsets[best]
    return chosen


def _exchange(offsets: Matrix, chosen: Indices) -> Indices:
    """(n,), the local optimum that exchanges of one trajectory at a time reach from a selection."""
    chosen, total = chosen.copy(), offsets[chosen].sum(axis=0)
    is_free = np.ones(len(offsets), dtype=np.bool_)
    is_free[chosen] = False
    least = ROUNDING * len(chosen) * float(np.abs(offsets).max())
    n_idle, place = 0, 0
    # After n positions in a row without an exchange the selection is a local optimum.
    while n_idle < len(chosen) and is_free.any() and np.linalg.norm(total) > least:
        without = total - offsets[chosen[place]]
        best, reached = _nearest(offsets, without, is_free)
        if reached < (1 - LEAST_GAIN) * np.linalg.norm(total):
            is_free[[best, chosen[place]]] = False, True
            chosen[place], total, n_idle = best, without + offsets[best], 0
        else:
            n_idle += 1
        place = (place + 1) % len(chosen)
    return chosen


def _nearest(offsets: Matrix, total: Vector, is_free: Flags) -> tuple[int, float]:
    """The free trajectory that minimises norm_2(total + offset), and this norm."""
    sums = np.where(is_free, ((offsets + total) ** 2).sum(axis=1), np.inf)
    best = int(sums.argmin())
    return best, float(np.sqrt(sums[best]))


def _distance(offsets: Matrix, chosen: Indices) -> float:
    """norm_2(mu_hat_r(Xi) - mu_hat_r), the norm of the mean of the chosen offsets."""
    return float(np.linalg.norm(offsets[chosen].mean(axis=0)))
