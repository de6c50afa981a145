"""The exact learner against the published one and against a general cone solver, in one run.

Every answer is checked before its time counts: the exact learner's residual and gap must be what it promises, and where
the cone solver runs, both must have the same objective. The published learner uses the same soft Bellman solver as the
exact one, so that the ratio is that of the methods: dual Newton steps against the published gradient schedule. The cone
program is Eq. 1 over occupancies with relative-entropy cones, sparse, through CVXPY and Clarabel at their default
tolerances; its time includes writing the problem down, as each of our responses starts from nothing too.

    python benchmarks/learners.py [--large] [--json]
"""

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable

import cvxpy as cp
import numpy as np
from rich.console import Console
from rich.table import Table
from scipy import sparse

import tutelage as tl

MISMATCH_PENALTY, VIOLATION_PENALTY = 5.0, 10.0


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--large", action="store_true", help="also the 300x300 world")
    arguments.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    given = arguments.parse_args()
    rows = [against_published(), against_cones(10), against_cones(50), alone(100)]
    rows += [alone(300)] if given.large else []
    if given.json:
        json.dump({"rows": rows}, sys.stdout)
        return
    table = Table(title="Soft learner, C_r = 5, C_c = 10, taught the optimal policy")
    for heading in ("what", "ours", "theirs", "ratio", "spread"):
        table.add_column(heading, justify="left" if heading == "what" else "right")
    for row in rows:
        table.add_row(*(str(row.get(key, "")) for key in ("what", "ours", "theirs", "ratio", "spread")))
    Console(width=120).print(table)


def against_published() -> dict[str, object]:
    """L1 to L5 on published 10x10 worlds: the time of all responses together, world by world."""
    ratios, ours, theirs = [], 0.0, 0.0
    for seed in range(5):
        times = np.zeros(2)
        for name in ("L1", "L2", "L3", "L4", "L5"):
            domain, lesson = problem(10, name, seed)
            exact = tl.SoftLearner(domain, MISMATCH_PENALTY, VIOLATION_PENALTY)
            published = tl.PublishedLearner(domain, MISMATCH_PENALTY, VIOLATION_PENALTY)
            checked(exact.respond(lesson))
            times += [
                best_of(lambda e=exact, s=lesson: e.respond(s)),
                timed(lambda p=published, s=lesson: p.respond(s)),
            ]
        ratios.append(times[1] / times[0])
        ours, theirs = ours + times[0], theirs + times[1]
    return row("10x10, L1..L5, published schedule", ours / 25, theirs / 25, ratios)


def against_cones(size: int) -> dict[str, object]:
    """L3 on a published world, by the cone program of Eq. 1."""
    domain, lesson = problem(size, "L3", 0)
    learner = tl.SoftLearner(domain, MISMATCH_PENALTY, VIOLATION_PENALTY)
    response = learner.respond(lesson)
    checked(response)
    theirs = []
    for _ in range(5 if size <= 10 else 1):
        start = time.perf_counter()
        value = solve_cones(domain, lesson.expectation)
        theirs.append(time.perf_counter() - start)
    if abs(value - response.certificate.primal) > 1e-4 * (1 + abs(value)):
        sys.exit(f"{size}x{size}: the cone program reached {value}, ours {response.certificate.primal}")
    ours = [timed(lambda: learner.respond(lesson)) for _ in theirs]
    ratios = [their / our for our, their in zip(ours, theirs, strict=True)]
    return row(f"{size}x{size}, L3, CVXPY + Clarabel", min(ours), min(theirs), ratios)


def alone(size: int) -> dict[str, object]:
    """L5 on a large published world, for its own sake."""
    domain, lesson = problem(size, "L5", 0)
    learner = tl.SoftLearner(domain, MISMATCH_PENALTY, VIOLATION_PENALTY)
    start = time.perf_counter()
    checked(learner.respond(lesson))
    return {"what": f"{size}x{size}, L5", "ours": f"{time.perf_counter() - start:.2f} s"}


def problem(size: int, name: str, seed: int) -> tuple[tl.Domain, tl.Lesson]:
    world = tl.object_world(size=size, seed=seed)
    domain = world.domain(name)
    best = tl.solve_hard(domain.mdp, domain.reward_features @ world.true_weights)
    return domain, tl.Lesson.from_policy(domain, best.policy)


def solve_cones(domain: tl.Domain, shown: np.ndarray) -> float:
    """Eq. 1 with 1-norm penalties over occupancies z; H = - sum of z log(z / sum of z in the state)."""
    mdp = domain.mdp
    leave = sparse.csr_array((np.ones(mdp.n_choices), np.arange(mdp.n_choices), mdp.first_choice))
    z = cp.Variable(mdp.n_choices, nonneg=True)
    states = leave @ z
    entropy = -cp.sum(cp.rel_entr(z, leave.T @ states))
    mismatch = cp.norm(domain.reward_features.T @ states - shown, 1)
    violation = cp.sum(cp.pos(domain.preference_features.T @ states))
    flow = [states - mdp.discount * (mdp.transition.T @ z) == mdp.initial]
    problem = cp.Problem(cp.Maximize(entropy - MISMATCH_PENALTY * mismatch - VIOLATION_PENALTY * violation), flow)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        problem.solve(solver=cp.CLARABEL)
    return float(problem.value)


def checked(response: tl.Response) -> None:
    proof = response.certificate
    if proof.residual > 1e-8 or proof.relative_gap > 1e-9:
        sys.exit(f"residual {proof.residual}, relative gap {proof.relative_gap}: not what was promised")


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def best_of(work: Callable[[], object]) -> float:
    return min(timed(work) for _ in range(3))


def row(what: str, ours: float, theirs: float, ratios: list[float]) -> dict[str, object]:
    return {
        "what": what,
        "ours": f"{1e3 * ours:.1f} ms",
        "theirs": f"{1e3 * theirs:.1f} ms",
        "ratio": round(float(np.median(ratios)), 1),
        "spread": f"{min(ratios):.1f} .. {max(ratios):.1f}",
    }


if __name__ == "__main__":
    main()
