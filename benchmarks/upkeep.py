"""Two machines with repairs: the whole work of a teacher on a model that is no grid, at 20,000 and 2,500 states."""

from collections.abc import Iterator
from functools import partial
from time import perf_counter

import numpy as np

from benchmarks.families import DISCOUNT, family_problem, maintenance, sparse_features
from benchmarks.measure import Figure, check, fastest, timed
from benchmarks.off_grid import check_constrained
from tutelage.bellman.soft_expectations import soft_expansion
from tutelage.constrained.occupancy_polytope import best_policy
from tutelage.constrained.problem import no_limits
from tutelage.interaction import teach
from tutelage.learners.exact import HardLearner, SoftLearner
from tutelage.model.mdp import MDP, Domain, combined_features
from tutelage.outcomes import Progress, watched
from tutelage.roles import Lesson
from tutelage.teachers.adaptive import VolumeSearchTeacher
from tutelage.teachers.bilevel import BilevelTeacher

NAME, N_STATES, N_PLANNED = "maintenance", 20_000, 2_500
MISMATCH_PENALTY, VIOLATION_PENALTY, ALLOWANCE = 5.0, 10.0, 0.5
PLANNED_WEIGHTS = (1.0, 0.9, 0.2, 0.5, 0.3)
N_ROUNDS = 10
# Seconds.
EXPANSION_BELOW, CONSTRAINED_BELOW, RESPONSE_BELOW, ROUNDS_BELOW = 1.5, 3.0, 10.0, 30.0
LESSON_BELOW, BOUND_BELOW = 15.0, 60.0


def solved() -> Iterator[Figure]:
    """The soft expansion, the best policy within limits, a soft response and ten rounds of volume search."""
    asked = family_problem(NAME, N_STATES)
    domain, features = asked.domain, combined_features(asked.domain)
    weights = np.concatenate([asked.weights, -np.ones(domain.n_preference)])
    expand = partial(soft_expansion, domain.mdp, features, weights)
    near = expand()  # Loads compiled code.
    check(near.solved.error_bound <= 1e-8, f"a soft value has the error bound {near.solved.error_bound:.3g}")
    yield _row("soft expansion", fastest(expand)).below(EXPANSION_BELOW)
    seconds, found = timed(partial(best_policy, *asked))
    check_constrained(asked, found)
    yield _row("constrained MDP", seconds, f"{found.n_rounds} rounds").below(CONSTRAINED_BELOW)
    lesson = Lesson.from_policy(domain, best_policy(domain, asked.weights, no_limits(domain)).policy)
    learner = _soft(domain)
    seconds, response = timed(partial(learner.respond, lesson))
    check(response.certificate.residual <= 1e-6, f"a soft response has the residual {response.certificate.residual}")
    yield _row("soft learner's response", seconds).below(RESPONSE_BELOW)
    teacher, hard = VolumeSearchTeacher(domain, asked.weights), HardLearner(domain, asked.limits.offsets)
    seconds, transcript = timed(partial(teach, teacher, hard, max_rounds=N_ROUNDS))
    best = max(float(met.response.expectation.reward @ asked.weights) for met in transcript.rounds)
    check(best <= found.bound + 1e-6 * (1 + abs(found.bound)), "a learner earns more than its limits allow")
    yield _row(f"volume search, {len(transcript.rounds)} rounds", seconds).below(ROUNDS_BELOW)


def planned() -> Iterator[Figure]:
    """Aware-BiL for a soft learner: the lesson, then the first certified bound that is below the best policy's, and the
    last.
    """
    domain = _planned_domain()
    learner = _soft(domain)
    teacher = BilevelTeacher(domain, np.array(PLANNED_WEIGHTS), learner)
    seconds, plan = timed(teacher.lesson_plan)
    check(abs(plan.achieved - plan.predicted) <= 1e-6 * abs(plan.achieved), "the learner does not do as predicted")
    yield _row("bi-level lesson", seconds, f"reward {plan.achieved:.6g}", N_PLANNED).below(LESSON_BELOW)
    started, bounded_at = perf_counter(), list[float]()

    def note(progress: Progress) -> None:
        if progress.stage == "cells" and progress.done:
            bounded_at.append(perf_counter() - started)

    with watched(progress=note):
        seconds, bounded = timed(partial(teacher.bounded, plan))
    check(bounded.bound >= bounded.achieved, "a bound is below the reward of a lesson")
    yield _row("first bi-level bound", bounded_at[0], n_states=N_PLANNED).below(BOUND_BELOW)
    yield _row(f"bi-level bound of {bounded.n_cells} cells", seconds, f"bound {bounded.bound:.6g}", N_PLANNED)


def _row(what: str, seconds: float, note: str = "", n_states: int = N_STATES) -> Figure:
    return Figure(f"{what}, {NAME}, {n_states}", 0, ours=seconds, note=note)


def _soft(domain: Domain) -> SoftLearner:
    return SoftLearner(
        domain,
        mismatch_penalty=MISMATCH_PENALTY,
        violation_penalty=VIOLATION_PENALTY,
        violation_allowance=ALLOWANCE,
    )


def _planned_domain() -> Domain:
    """Five reward features and two preference features."""
    rng = np.random.default_rng(0)
    transition, first_choice = maintenance(rng, N_PLANNED)
    n = transition.shape[1]
    mdp = MDP.from_choices(transition, first_choice, np.full(n, 1 / n), DISCOUNT)
    reward, preference = sparse_features(rng, n, 5), sparse_features(rng, n, 2)
    names = [tuple(f"{kind} {i}" for i in range(k)) for kind, k in (("reward", 5), ("preference", 2))]
    return Domain(mdp, reward, preference, reward_names=names[0], preference_names=names[1])
