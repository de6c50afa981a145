"""Which few demonstrations to show: n trajectories that together come as close as possible to a lesson's expectation.

With x_i the discounted reward feature counts of trajectory i less the expectation to be shown, n trajectories miss it
by norm_2(sum of x_i) / n. Drawn at random they miss it by about sqrt(trace Cov(x) / n). The best n of a pool are a
subset-sum problem, hard to solve exactly and easy to solve well:

    greedy     n times, add the trajectory j that makes norm_2(sum + x_j) least (herding)
    exchange   give up trajectory i of the chosen for the j that makes norm_2(sum - x_i + x_j) least, as long as any
               such exchange helps

A choice of n has n times the size of the pool as neighbours, and few dimensions to miss in, so that some exchange
almost always helps. Each comes closer and there are finitely many choices, so the search ends; where it ends no single
exchange helps. It starts from the greedy choice and from random ones, and the best end counts: a greedy choice, made of
counts that are all alike, often has less to exchange.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tutelage.arrays import Flags, Indices, Matrix, Vector, freeze, generator, whole_number
from tutelage.mdp.demonstrations import Demonstrations
from tutelage.mdp.empirical import reward_counts
from tutelage.mdp.model import Domain
from tutelage.mdp.sampling import horizon, sample_demonstrations
from tutelage.outcomes import InvalidInput
from tutelage.roles import Lesson, check_lesson
from tutelage.solvers.half_spaces import no_limits
from tutelage.solvers.occupancy_polytope import nearest_policy

# A pool is this large, or smaller where its trajectories are so long that they would visit more states than this; but
# for each trajectory that is wanted it has a few.
POOL_SIZE = 2_000
POOL_VISITS = 3_000_000
POOL_PER_DEMONSTRATION = 5
# What may be missing from a feature in [0, 1] when a trajectory is cut off.
TRUNCATION_BIAS = 1e-3
# How many random choices of n trajectories stand for what random choice gives.
N_DRAWS = 400
# Searches from random choices: at most so many, and fewer where each is long.
MOST_RESTARTS = 16
RESTARTED_DEMONSTRATIONS = 1_000
# An exchange must gain this much of what is left, or rounding would pass for progress.
LEAST_GAIN = 1e-6
# Nearer than this, relative to the largest count, sums of counts are not known.
ROUNDING = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class SelectedDemonstrations:
    """The demonstrations chosen for a lesson.

    demonstrations: n trajectories. expectation: (d_r,), their empirical reward expectation, mu_hat_r(Xi).
    distance: norm_2 between it and the lesson's. random_distance: the mean of that distance over 400 random choices of
    n trajectories from the same pool, which is what sampling n would give. pool_size: how many trajectories there were
    to choose from.
    """

    demonstrations: Demonstrations
    expectation: Vector
    distance: float
    random_distance: float
    pool_size: int


def select_demonstrations(
    domain: Domain, lesson: Lesson, n: int, *, rng: int | np.random.Generator = 0
) -> SelectedDemonstrations:
    """n trajectories whose empirical reward expectation is as close to the lesson's as greedy choice and exchange get.

    They are taken from the demonstrations that the lesson was recorded from, each at most once; or else from a pool
    sampled from its policy; or, where it is an expectation alone, from the policy that comes nearest to it. Being
    chosen, they are no random sample, and the standard error that `empirical_expectation` states for them means
    nothing.

    rng: where the pool and the random choices to compare with come from; left out, a generator of seed 0, so that the
    same call chooses the same demonstrations.
    """
    check_lesson(domain, lesson)
    n, source = whole_number(n, "the number of demonstrations", least=1), generator(rng)
    pool = _pool(domain, lesson, n, source)
    counts = reward_counts(domain, pool)
    offsets = counts - lesson.expectation
    drawn = [source.choice(pool.n, size=n, replace=False) for _ in range(N_DRAWS)]
    chosen = _best_choice(offsets, [_greedy(offsets, n), *drawn[: _n_restarts(n)]])
    return SelectedDemonstrations(
        demonstrations=pool.take(chosen),
        expectation=freeze(counts[chosen].mean(axis=0)),
        distance=_distance(offsets, chosen),
        random_distance=float(np.mean([_distance(offsets, choice) for choice in drawn])),
        pool_size=pool.n,
    )


def _pool(domain: Domain, lesson: Lesson, n: int, rng: np.random.Generator) -> Demonstrations:
    """The trajectories to choose from."""
    if lesson.recorded is not None:
        if lesson.recorded.n < n:
            raise InvalidInput(f"{n} demonstrations are wanted, but this lesson has only {lesson.recorded.n}")
        return lesson.recorded
    policy = lesson.policy
    if policy is None:
        policy = nearest_policy(domain, lesson.expectation, no_limits(domain)).policy
    usual = min(POOL_SIZE, POOL_VISITS // horizon(domain.mdp.discount, TRUNCATION_BIAS))
    size = max(usual, POOL_PER_DEMONSTRATION * n)
    return sample_demonstrations(domain.mdp, policy, size, rng=rng, truncation_bias=TRUNCATION_BIAS)


def _n_restarts(n: int) -> int:
    """How many random choices of n to search from."""
    return min(MOST_RESTARTS, 1 + RESTARTED_DEMONSTRATIONS // n)


def _best_choice(offsets: Matrix, starts: Sequence[Indices]) -> Indices:
    """(n,), in order, the nearest of what exchanges make of the starts."""
    ends = [np.sort(_exchange(offsets, start)) for start in starts]
    return min(ends, key=lambda end: _distance(offsets, end))


def _greedy(offsets: Matrix, n: int) -> Indices:
    """(n,), trajectories taken one by one, each the one that brings the sum of the offsets closest to zero."""
    chosen, total = np.zeros(n, dtype=np.int64), np.zeros(offsets.shape[1])
    is_free = np.ones(len(offsets), dtype=np.bool_)
    for place in range(n):
        chosen[place] = best = _nearest(offsets, total, is_free)[0]
        is_free[best] = False
        total = total + offsets[best]
    return chosen


def _exchange(offsets: Matrix, chosen: Indices) -> Indices:
    """(n,), the chosen after every exchange of one of them for another that brings the sum closer to zero."""
    chosen, total = chosen.copy(), offsets[chosen].sum(axis=0)
    is_free = np.ones(len(offsets), dtype=np.bool_)
    is_free[chosen] = False
    least = ROUNDING * len(chosen) * float(np.abs(offsets).max())
    n_idle, place = 0, 0
    # Once round without an exchange, and none is left that helps.
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
    """The free trajectory that makes norm_2(total + offset) least, and that norm."""
    sums = np.where(is_free, ((offsets + total) ** 2).sum(axis=1), np.inf)
    best = int(sums.argmin())
    return best, float(np.sqrt(sums[best]))


def _distance(offsets: Matrix, chosen: Indices) -> float:
    """norm_2(mu_hat_r(Xi) - mu_hat_r), the mean of the chosen offsets."""
    return float(np.linalg.norm(offsets[chosen].mean(axis=0)))
