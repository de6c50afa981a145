"""The tasks that are timed at growing sizes, each with a check of its answer.

Certificates are checked at every size. Up to 300x300 the policy is also evaluated again; above that, evaluation would
take longer than the solution.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import isqrt
from typing import Any, cast

import numpy as np

from benchmarks.learners import check_projection, check_response, soft_learner
from benchmarks.measure import check
from benchmarks.problems import ACCURACY, Problem, problem
from benchmarks.rivals import ValueIteration
from benchmarks.teachers import check_aware
from tutelage.arrays import Vector
from tutelage.bellman.equations import Optimum, solve_hard, solve_soft
from tutelage.chains.expectations import causal_entropy, expectation
from tutelage.constrained.occupancy_polytope import best_policy
from tutelage.constrained.problem import ConstrainedOptimum
from tutelage.interaction import teach
from tutelage.learners.exact import HardLearner
from tutelage.roles import CertifiedResponse
from tutelage.teachers.adaptive import VolumeSearchTeacher
from tutelage.teachers.line_search import LineSearchTeacher
from tutelage.transcripts import Transcript

MAX_ROUNDS = 10


@dataclass(frozen=True, slots=True)
class TimedTask:
    """A task at any size.

    learner: the name of the learner whose domain it uses. prepare: the untimed part; returns the function to time.
    check: checks the answer; its last argument asks for the evaluation of policies. describe: a remark on the answer,
    such as how many limits bind. is_binding: use an allowance that binds at every size.
    """

    learner: str
    prepare: Callable[[Problem], Callable[[], Any]]
    check: Callable[[Problem, Any, bool], None]
    describe: Callable[[Any], str] = lambda _: ""
    is_binding: bool = False

    def problem(self, size: int) -> Problem:
        """The problem of this size."""
        asked = problem(size, self.learner)
        return asked.binding() if self.is_binding else asked


def _built(asked: Problem) -> Callable[[], Problem]:
    return partial(problem, isqrt(asked.domain.mdp.n_states - 1), "L5")


def check_world(asked: Problem, found: Problem, _: bool) -> None:
    """Sparse rows of at most two entries, the same each time."""
    transition = found.domain.mdp.transition
    is_same = (transition != asked.domain.mdp.transition).nnz == 0
    check(is_same and np.diff(transition.indptr).max() <= 2, "the transition of an object world")


def _solve(solver: Callable[..., Optimum], asked: Problem) -> Callable[[], Optimum]:
    return partial(solver, asked.domain.mdp, asked.reward, accuracy=ACCURACY)


def check_soft(asked: Problem, found: Optimum, is_thorough: bool) -> None:
    """The residual of an independent backup; the value is the reward of the policy plus its entropy."""
    again = ValueIteration(asked.domain.mdp, asked.reward).backup(found.value)
    _check_residual("soft", asked, found, again)
    if is_thorough:
        entropy = causal_entropy(asked.domain.mdp, found.policy)
        _check_value("soft", asked, found, entropy)


def check_hard(asked: Problem, found: Optimum, is_thorough: bool) -> None:
    """The residual of an independent backup; the value is the reward of the policy."""
    again = ValueIteration(asked.domain.mdp, asked.reward).choice_value(found.value).max(axis=0)
    _check_residual("hard", asked, found, again)
    if is_thorough:
        _check_value("hard", asked, found, 0.0)


def _check_residual(kind: str, asked: Problem, found: Optimum, again: Any) -> None:
    error = float(np.abs(again - found.value).max()) * asked.domain.mdp.horizon
    # One per cent for the rounding of the check.
    check(max(error, found.error_bound) <= 1.01 * ACCURACY, f"a {kind} value has the error {error:.3g}")


def _check_value(kind: str, asked: Problem, found: Optimum, entropy: float) -> None:
    earned = float(expectation(asked.domain, found.policy).reward @ asked.weights) + entropy
    off = abs(earned - float(asked.domain.mdp.initial @ found.value))
    check(off <= 1e-6, f"a {kind} policy earns {earned}, {off:.3g} from its value")


def check_constrained(asked: Problem, found: ConstrainedOptimum, is_thorough: bool) -> None:
    """The certified gap and the limits."""
    excess = float(asked.limits.excess(found.expectation.both).max())
    is_kept = found.gap <= 1e-6 * (1 + abs(found.value)) and excess <= 1e-6 * asked.allowance
    check(is_kept, f"a constrained optimum has gap {found.gap:.3g} and excess {excess:.3g}")
    if is_thorough:
        check_aware(asked, found)


def check_nearest(asked: Problem, found: CertifiedResponse, is_thorough: bool) -> None:
    """The certified distance and the limits."""
    proof, excess = found.certificate, float(found.violation_excess.max())
    is_kept = proof.gap <= 1e-6 * (1 + abs(proof.primal)) and excess <= 1e-6 * asked.allowance
    check(is_kept, f"a projection has gap {proof.gap:.3g} and excess {excess:.3g}")
    if is_thorough:
        check_projection(asked, found)


def _check_soft_response(asked: Problem, found: CertifiedResponse, is_thorough: bool) -> None:
    check_response(found)
    if is_thorough:
        apart = float(np.abs(expectation(asked.domain, found.policy).both - found.expectation.both).max())
        check(apart <= 1e-6, f"the expectation of a soft learner's policy is {apart:.3g} from the reported one")


def check_rounds(asked: Problem, found: Transcript, is_thorough: bool) -> None:
    """The last response is right, and its reward is at most the teacher's bound."""
    check_nearest(asked, cast(CertifiedResponse, found.final.response), is_thorough)
    reward, bound = found.final.response_reward, found.final.bound
    check(reward <= bound + 1e-6, f"a learner achieves {reward}, more than the bound {bound}")


def _taught(teacher: type[VolumeSearchTeacher] | type[LineSearchTeacher], asked: Problem) -> Callable[[], Transcript]:
    tutor, learner = teacher(asked.domain, asked.weights), HardLearner(asked.domain, asked.allowance)
    return partial(teach, tutor, learner, max_rounds=MAX_ROUNDS)


def _projected(asked: Problem) -> Callable[[], CertifiedResponse]:
    return partial(HardLearner(asked.domain, asked.allowance).respond, asked.far_lesson())


def _binds(multipliers: Vector, n_rounds: int) -> str:
    n_binding = int((multipliers > 1e-9).sum())
    return f"{n_binding} of {len(multipliers)} limits bind; rounds of the master problem: {n_rounds}"


def _of_optimum(found: ConstrainedOptimum) -> str:
    return _binds(found.multipliers, found.n_rounds)


def _of_response(found: CertifiedResponse) -> str:
    return _binds(found.multipliers.preference, found.certificate.n_steps)


def _of_rounds(found: Transcript) -> str:
    return f"{len(found.rounds)} rounds: {found.ended}"


WORLD, SOFT, HARD, SOFT_LEARNER = "object world", "soft solution", "hard solution", "soft learner, L5"
AWARE, PROJECTION = "Aware-CMDP, L5", "projection, L5"
BINDING_AWARE, BINDING_PROJECTION = f"{AWARE}, binding", f"{PROJECTION}, binding"
VOLUME, LINE = "AdAware-Vol, L5, binding", "AdAware-Lin, L5, binding"

_best = TimedTask("L5", lambda p: partial(best_policy, p.domain, p.weights, p.limits), check_constrained, _of_optimum)
_near = TimedTask("L5", _projected, check_nearest, _of_response)
TASKS: Mapping[str, TimedTask] = {
    WORLD: TimedTask("L5", _built, check_world),
    SOFT: TimedTask("L1", partial(_solve, solve_soft), check_soft),
    HARD: TimedTask("L1", partial(_solve, solve_hard), check_hard),
    AWARE: _best,
    PROJECTION: _near,
    BINDING_AWARE: replace(_best, is_binding=True),
    BINDING_PROJECTION: replace(_near, is_binding=True),
    VOLUME: TimedTask("L5", partial(_taught, VolumeSearchTeacher), check_rounds, _of_rounds, is_binding=True),
    LINE: TimedTask("L5", partial(_taught, LineSearchTeacher), check_rounds, _of_rounds, is_binding=True),
    SOFT_LEARNER: TimedTask("L5", lambda p: partial(soft_learner(p).respond, p.best_lesson()), _check_soft_response),
}
