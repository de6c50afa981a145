"""`python -m benchmarks teachers`: Aware-CMDP against HiGHS, and exact bi-level teaching against Appendix G as printed.

Both bi-level methods teach the same learner on the same published worlds with the same soft Bellman solver, so that
the ratio compares the methods. The bound is timed separately, because the printed method has none. A plan must achieve
the reward that it predicts, and the exact plan must never achieve less than the printed one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from benchmarks.learners import LEARNERS
from benchmarks.measure import Figure, Step, check, compared, duel, fastest, timed
from benchmarks.problems import Problem, problem
from tutelage.chains.expectations import expectation
from tutelage.constrained.occupancy_polytope import best_policy
from tutelage.constrained.problem import ConstrainedOptimum
from tutelage.experiments.tables import printed_known
from tutelage.learners.dual import Reduction
from tutelage.learners.exact import SoftLearner
from tutelage.learners.penalties import Preference
from tutelage.teachers.bilevel import BilevelTeacher

HIGHS, PRINTED = "HiGHS, the whole program", "Appendix G as printed"
PENALTIES = ((5, 10), (10, 10), (10, 5), (5, 5), (10, 1), (1, 10))
CMDP_SIZES, BOUNDED_SIZES, N_GRADIENT_WORLDS = (50, 100), (10, 50), 5
CMDP_AT_LEAST = {100: 50.0}


class Case(NamedTuple):
    """A cell of Appendix B.1 and one of its worlds."""

    mismatch_penalty: int
    violation_penalty: int
    learner: str
    seed: int


def cases(*, large: bool) -> list[Case]:
    """Ten problems at (5, 10), or all 300 of Appendix B.1."""
    if not large:
        return [Case(5, 10, name, seed) for name in LEARNERS for seed in range(2)]
    return [Case(*pair, name, seed) for pair in PENALTIES for name in LEARNERS for seed in range(10)]


def steps(*, large: bool) -> list[Step]:
    """All steps. large: bi-level plans for all 300 problems of Appendix B.1 instead of ten."""
    found = [Step(f"Aware-CMDP, {size}x{size}", partial(aware_cmdp, size, 5)) for size in CMDP_SIZES]
    found += [Step("gradient", partial(gradient, 10, N_GRADIENT_WORLDS))]
    found += [Step("bi-level plans", partial(multi_start, 10, cases(large=large)))]
    return found + [Step(f"plan and bound, {size}x{size}", partial(bounded, size)) for size in BOUNDED_SIZES]


def aware_cmdp(size: int, repeats: int) -> Iterator[Figure]:
    """The best policy within L5's six limits."""
    asked = problem(size, "L5")
    ours = partial(best_policy, asked.domain, asked.weights, asked.limits)
    ours()  # Loads compiled code.
    met = duel(ours, partial(ours, route="direct"), repeats)
    check_aware(asked, met.ours)
    apart = abs(met.ours.value - met.theirs.value)
    check(apart <= 1e-6 * (1 + abs(met.theirs.value)), f"two constrained optima are {apart:.3g} apart")
    yield compared("Aware-CMDP, L5", size, HIGHS, met.times).at_least(CMDP_AT_LEAST.get(size))


def check_aware(asked: Problem, found: ConstrainedOptimum) -> None:
    """The policy, evaluated again, is within the limits and achieves the upper bound."""
    again = expectation(asked.domain, found.policy)
    excess = float(asked.limits.excess(again.both).max())
    check(excess <= 1e-6 * asked.allowance, f"a constrained policy exceeds its limits by {excess:.3g}")
    short = abs(found.bound - float(again.reward @ asked.weights))
    check(short <= 1e-6 * (1 + abs(found.bound)), f"a constrained policy is {short:.3g} short of the bound")


def gradient(size: int, n_worlds: int) -> Iterator[Figure]:
    """The exact gradient of the learner's reward against central differences, from the same warm start."""
    times = []
    for seed in range(n_worlds):
        for name in LEARNERS:
            asked = problem(size, name, seed)
            reduction = Reduction(Preference(norm=1, penalty=10, allowance=0.5).on(asked.domain))
            rng = np.random.default_rng(seed)
            near = reduction.settle(rng.uniform(-5, 5, 3))
            a = near.weights + 0.1 * rng.normal(size=3)
            around = [a + sign * 1e-5 * e for e in np.eye(3) for sign in (1, -1)]
            settle = partial(reduction.settle, near=near)
            exact, rough = settle(a).jacobian, _differences([settle(b).expectation.reward for b in around])
            off = float(np.abs(exact - rough).max())
            check(off <= 1e-4 * (1 + np.abs(exact).max()), f"a gradient is {off:.3g} from central differences")
            times.append(
                (fastest(partial(settle, a)), fastest(lambda s=settle, w=around: [s(b) for b in w]))  # type: ignore[misc]
            )
    yield compared("gradient of the reward, L1 to L5", size, "central differences", times)


def _differences(around: Sequence[np.ndarray]) -> np.ndarray:
    return np.column_stack([(up - down) / 2e-5 for up, down in zip(around[::2], around[1::2], strict=True)])


def multi_start(size: int, some: Sequence[Case]) -> Iterator[Figure]:
    """The whole multi-start against the whole printed method, problem by problem."""
    times, ahead, behind = [], 0, 0
    achieved: dict[tuple[int, int, str], list[float]] = {}
    for case in some:
        asked = problem(size, case.learner, case.seed)
        learner = SoftLearner(
            asked.domain, mismatch_penalty=case.mismatch_penalty, violation_penalty=case.violation_penalty
        )
        exact, printed = (
            BilevelTeacher(asked.domain, asked.weights, learner, method=method, max_cells=0)
            for method in ("exact", "frank-wolfe")
        )
        met = duel(exact.plan, printed.plan, 1)
        off = abs(met.ours.predicted - met.ours.achieved)
        check(off < 1e-6, f"a plan achieves {met.ours.achieved}, not the {met.ours.predicted} that it predicts")
        times += met.times
        achieved.setdefault(case[:3], []).append(met.ours.achieved)
        behind += met.ours.achieved < met.theirs.achieved - 1e-6
        ahead += met.ours.achieved > met.theirs.achieved + 1e-3
    note = f"of {len(some)} problems it achieves more in {ahead}, less in {behind}" + against_print(achieved)
    row = compared("whole plan, soft learner", size, PRINTED, times, note)
    yield replace(row, must_hold="less in none", holds=behind == 0)


def against_print(achieved: dict[tuple[int, int, str], list[float]]) -> str:
    """The number of printed cells, ten worlds each, whose mean is at least the printed mean less 0.02."""
    whole = {cell: np.mean(rewards) for cell, rewards in achieved.items() if len(rewards) == 10}
    if not whole:
        return ""
    reached = sum(mean >= printed_known(*cell[:2], "bilevel", cell[2]).mean - 0.02 for cell, mean in whole.items())
    return f"; the printed mean in {reached} of {len(whole)} cells"


def bounded(size: int) -> Iterator[Figure]:
    """The plan with its bound, L3."""
    asked = problem(size, "L3")
    teacher = BilevelTeacher(
        asked.domain, asked.weights, SoftLearner(asked.domain, mismatch_penalty=5, violation_penalty=10)
    )
    seconds, plan = timed(teacher.plan)
    check(plan.achieved <= plan.bound + 1e-6, f"a plan achieves {plan.achieved}, more than its bound {plan.bound}")
    note = f"achieves {plan.achieved:.3f}; no plan achieves more than {plan.bound:.3f}"
    yield Figure("plan and bound, L3", size, ours=seconds, note=note)
