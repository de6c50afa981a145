"""`python -m benchmarks learners`: each exact learner against other methods for the same answer.

The *soft learner* against the published step schedule, with the same soft Bellman solver, so that the ratio compares
the methods; and against its cone program over occupancies. The projection of the *hard learner* against the whole
quadratic program over occupancies. The *standard learner* against `imitation`, with a smaller mismatch. The certificate
of every answer is checked.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks import peers
from benchmarks.measure import Figure, Step, check, compared, duel, fastest, missing, timed
from benchmarks.problems import MISMATCH_PENALTY, VIOLATION_PENALTY, Problem, problem
from benchmarks.rivals import NO_CVXPY, has_cvxpy, solve_cones
from tutelage.arrays import Vector
from tutelage.bellman.equations import solve_soft
from tutelage.chains.expectations import expectation
from tutelage.learners.exact import HardLearner, SoftLearner, StandardLearner
from tutelage.learners.published import PublishedLearner
from tutelage.roles import CertifiedResponse, Lesson

LEARNERS = ("L1", "L2", "L3", "L4", "L5")
CONES, CLARABEL, IMITATION = "CVXPY + Clarabel", "Clarabel, the whole program", "imitation, tabular MCE-IRL"
CONE_SIZES, PROJECTED_SIZES, ALONE_SIZE, LARGE = (10, 50), (50, 100), 100, 300
PROJECTION_AT_LEAST = {100: 10.0}
# `imitation`: a horizon of 500 omits less than 0.7 % of the visits discounted by 0.99. It stops by its own rule and
# tolerances. Its learning rate is twenty times the default, with which it needs at most half the steps.
STANDARD_SIZE, HORIZON, PEER_STEPS, LEARNING_RATE, STANDARD_AT_LEAST = 20, 500, 1000, 0.2, 200.0


def steps(*, large: bool, folder: Path | None) -> list[Step]:
    """All steps. large: also the soft learner at 300x300. folder: of the peers, by default .venv-peers."""
    found = [Step("published schedule", partial(against_published, 10, 5))]
    found += [Step(f"cone program, {size}x{size}", partial(against_cones, size)) for size in CONE_SIZES]
    found += [Step(f"projection, {size}x{size}", partial(projected, size, 5)) for size in PROJECTED_SIZES]
    found += [Step("imitation", partial(against_imitation, STANDARD_SIZE, folder, 2))]
    sizes = (ALONE_SIZE, LARGE) if large else (ALONE_SIZE,)
    return found + [Step(f"soft learner, {size}x{size}", partial(alone, size)) for size in sizes]


def soft_learner(asked: Problem) -> SoftLearner:
    """The soft learner with C_r = 5, C_c = 10."""
    return SoftLearner(asked.domain, mismatch_penalty=MISMATCH_PENALTY, violation_penalty=VIOLATION_PENALTY)


def against_published(size: int, n_worlds: int) -> Iterator[Figure]:
    """L1 to L5 on published worlds; each pair is the mean time of the five responses in one world."""
    times = []
    for seed in range(n_worlds):
        ours = theirs = 0.0
        for name in LEARNERS:
            asked = problem(size, name, seed)
            lesson, exact = asked.best_lesson(), soft_learner(asked)
            published = PublishedLearner(
                asked.domain, mismatch_penalty=MISMATCH_PENALTY, violation_penalty=VIOLATION_PENALTY
            )
            check_response(exact.respond(lesson))
            ours += fastest(partial(exact.respond, lesson))
            theirs += timed(partial(published.respond, lesson))[0]
        times.append((ours / len(LEARNERS), theirs / len(LEARNERS)))
    yield compared("soft learner, L1 to L5", size, "published schedule", times)


def against_cones(size: int) -> Iterator[Figure]:
    """L3 by the cone program of Eq. 1."""
    if not has_cvxpy():
        yield missing("soft learner, L3", size, CONES, NO_CVXPY)
        return
    asked = problem(size, "L3")
    lesson, learner = asked.best_lesson(), soft_learner(asked)
    learner.respond(lesson)  # Loads compiled code; the next line loads the library.
    solve_cones(problem(6, "L3").domain, lesson.expectation)
    met = duel(
        partial(learner.respond, lesson), partial(solve_cones, asked.domain, lesson.expectation), 5 if size <= 10 else 3
    )
    check_response(met.ours)
    ours, theirs = met.ours.certificate.primal, met.theirs
    check(abs(ours - theirs) <= 1e-4 * (1 + abs(ours)), f"the cone program reached {theirs}, ours {ours}")
    yield compared("soft learner, L3", size, CONES, met.times)


def projected(size: int, repeats: int) -> Iterator[Figure]:
    """L5's projection of the optimal expectation; it is unique, so both routes must agree."""
    asked = problem(size, "L5")
    lesson = asked.far_lesson()
    ours = partial(HardLearner(asked.domain, asked.allowance).respond, lesson)
    theirs = partial(HardLearner(asked.domain, asked.allowance, route="direct").respond, lesson)
    ours()  # Loads compiled code.
    met = duel(ours, theirs, repeats)
    check_projection(asked, met.ours)
    apart = float(np.abs(met.ours.expectation.reward - met.theirs.expectation.reward).max())
    check(apart <= 1e-6 * np.abs(lesson.expectation).max(), f"two projections are {apart:.3g} apart")
    yield compared("projection, L5", size, CLARABEL, met.times).at_least(PROJECTION_AT_LEAST.get(size))


def against_imitation(size: int, folder: Path | None, repeats: int) -> Iterator[Figure]:
    """Both learn from the soft-optimal policy of the true reward; the mismatch is over the same finite horizon."""
    what = "standard learner, L1"
    try:
        row = _against_imitation(what, problem(size, "L1"), size, peers.peer_python(folder), repeats)
    except peers.NoAnswer as reason:
        row = missing(what, size, IMITATION, str(reason))
    yield row


def _against_imitation(what: str, asked: Problem, size: int, python: Path, repeats: int) -> Figure:
    domain = asked.domain
    policy = solve_soft(domain.mdp, asked.reward, accuracy=1e-10).policy
    lesson, shown = Lesson.from_policy(domain, policy), stationary_visits(asked, policy)
    ours = partial(StandardLearner(domain).respond, lesson)
    effort = peers.Effort(HORIZON, PEER_STEPS, LEARNING_RATE)
    times = []
    for _ in range(repeats):
        seconds, found = timed(ours)
        trained = peers.train_imitation(python, domain, shown, effort)
        times.append((seconds, trained.seconds))
    check_response(found)
    visits = (stationary_visits(asked, found.policy), peers.truncated_visits(domain.mdp, trained.policy))
    mine, theirs = (float(np.abs((each - shown) @ domain.reward_features).max()) for each in visits)
    check(mine <= theirs, f"our mismatch of {mine:.3g} is more than the peer's {theirs:.3g}")
    note = f"mismatch {mine:.1e}, theirs {theirs:.1e} after {trained.n_steps} steps"
    return compared(what, size, IMITATION, times, note).at_least(STANDARD_AT_LEAST)


def stationary_visits(asked: Problem, policy: Vector) -> Vector:
    """(S,), the discounted visits of a policy (C,) over the horizon."""
    mdp = asked.domain.mdp
    return peers.truncated_visits(mdp, np.broadcast_to(policy, (HORIZON, mdp.n_choices)))


def alone(size: int) -> Iterator[Figure]:
    """L5 in a large world, without a rival."""
    asked = problem(size, "L5")
    seconds, response = timed(partial(soft_learner(asked).respond, asked.best_lesson()))
    check_response(response)
    yield Figure("soft learner, L5", size, ours=seconds)


def check_response(response: CertifiedResponse) -> None:
    """The certificate of a learner whose objective includes entropy."""
    proof = response.certificate
    is_kept = proof.residual <= 1e-8 and proof.relative_gap <= 1e-9
    check(is_kept, f"a response has residual {proof.residual:.3g} and relative gap {proof.relative_gap:.3g}")


def check_projection(asked: Problem, response: CertifiedResponse) -> None:
    """The policy, evaluated again, is within the limits and at the certified distance from the lesson."""
    again = expectation(asked.domain, response.policy)
    excess = float(asked.limits.excess(again.both).max())
    check(excess <= 1e-6 * asked.allowance, f"a projection exceeds its limits by {excess:.3g}")
    distance = float(np.linalg.norm(again.reward - response.lesson.expectation))
    apart = abs(distance + response.certificate.dual)
    check(apart <= 1e-6 * (1 + distance), f"a projection is {apart:.3g} further than the nearest")
