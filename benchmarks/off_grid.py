"""`python -m benchmarks families`: MDPs that are not object worlds, against the packages that a user would choose.

For each family: the constrained MDP with binding limits against linear programming (HiGHS, PDLP), the projection
against Clarabel on the whole program, the hard solution against QuantEcon, the soft solution against SciPy's value
iteration. Answers must agree to 1e-6. A package runs in the environment of `make peers`; one that is missing, or has no
answer in time, gives a row with a note. The best peer of a family is the fastest with the same answer.

`python -m benchmarks.off_grid "queue" 100000` measures one constrained MDP in this process and prints JSON.
"""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from benchmarks import peers
from benchmarks.families import FAMILIES, FamilyProblem, family_problem
from benchmarks.measure import Figure, Step, WrongAnswer, check, compared, duel, exponent, missing, timed
from benchmarks.rivals import RaggedValueIteration
from tutelage.bellman.equations import solve_hard, solve_soft
from tutelage.chains.expectations import expectation
from tutelage.constrained.occupancy_polytope import best_policy
from tutelage.constrained.problem import ConstrainedOptimum, no_limits
from tutelage.learners.exact import HardLearner
from tutelage.roles import Lesson

N_STATES, GROWING = 10_000, (10_000, 30_000, 100_000, 300_000, 1_000_000)
# Where every choice leads to every state, a thousand states have twenty million transitions.
N_DENSE = 1_000
SAME, ACCURACY = 1e-6, 1e-8
PROGRAMS = ("highs-ipx", "highs-hipo", "highs-simplex", "highs-pdlp", "ortools-pdlp")
PLANNERS = ("quantecon-vi", "quantecon-pi", "quantecon-mpi")
# The most seconds for a peer; those of our solution and its memory in GiB, by states; the exponent of growth.
PEER_SECONDS = 200.0
# Times faster than the best peer, for the constrained MDP.
AT_LEAST = 5.0
SECONDS_BELOW, GIB_BELOW, EXPONENT_AT_MOST = {100_000: 60.0, 1_000_000: 600.0}, {100_000: 2.0, 1_000_000: 6.0}, 1.35


def steps(*, large: bool, folder: Path | None) -> list[Step]:
    """All steps. large: also the growth of the constrained MDP up to a million states."""
    found = []
    for name in FAMILIES:
        n_states = N_DENSE if name == "dense" else N_STATES
        found.append(Step(f"{name}: constrained MDP", partial(constrained, name, n_states, folder)))
        if name != "dense":
            found.append(Step(f"{name}: projection", partial(projected, name, n_states, 3)))
        found += [
            Step(f"{name}: hard solution", partial(hard, name, n_states, folder)),
            Step(f"{name}: soft solution", partial(soft, name, n_states, 3)),
        ]
        if large and name != "dense":
            found.append(Step(f"{name}: hard solution, 100,000 states", partial(hard, name, 100_000, folder)))
            found.append(Step(f"{name}: growth", partial(growth, name, GROWING)))
    return found


def constrained(name: str, n_states: int, folder: Path | None) -> Iterator[Figure]:
    """The best policy within limits that bind, against linear programs over occupancies."""
    asked = family_problem(name, n_states)
    ours = partial(best_policy, asked.domain, asked.weights, asked.limits)
    ours()  # Loads compiled code.
    times = [timed(ours)[0] for _ in range(3)]
    found = ours()
    check_constrained(asked, found)
    what, n_binding = f"constrained MDP, {name}, {n_states}", int((found.multipliers > 1e-9).sum())
    yield Figure(what, 0, ours=min(times), note=f"{n_binding} limits bind; {found.n_rounds} rounds")
    yield from _with_best(
        [_against(what, method, folder, whole_program(asked), times, -found.value) for method in PROGRAMS], AT_LEAST
    )


def projected(name: str, n_states: int, repeats: int) -> Iterator[Figure]:
    """The hard learner's projection of the optimal expectation, against Clarabel on the whole program."""
    asked = family_problem(name, n_states)
    lesson = Lesson.from_expectation(
        best_policy(asked.domain, asked.weights, no_limits(asked.domain)).expectation.reward
    )
    allowance = asked.limits.offsets
    ours = partial(HardLearner(asked.domain, allowance).respond, lesson)
    theirs = partial(HardLearner(asked.domain, allowance, route="direct").respond, lesson)
    ours()  # Loads compiled code.
    met = duel(ours, theirs, repeats)
    apart = float(np.abs(met.ours.expectation.reward - met.theirs.expectation.reward).max())
    check(apart <= SAME * np.abs(lesson.expectation).max(), f"two projections are {apart:.3g} apart")
    row = compared(f"projection, {name}, {n_states}", 0, "Clarabel, the whole program", met.times)
    yield row.at_least(5.0)


def hard(name: str, n_states: int, folder: Path | None) -> Iterator[Figure]:
    """The optimal value without limits, against the methods of QuantEcon."""
    asked = family_problem(name, n_states)
    mdp, reward = asked.domain.mdp, asked.reward
    ours = partial(solve_hard, mdp, reward, accuracy=ACCURACY)
    ours()  # Loads compiled code.
    times = [timed(ours)[0] for _ in range(5)]
    state = mdp.state_of_choice
    problem = _saved("rows", mdp.transition) | {
        "reward": reward[state],
        "discount": np.asarray(mdp.discount),
        "state": state,
        "action": np.arange(mdp.n_choices) - mdp.first_choice[state],
    }
    value, what = ours().value, f"hard solution, {name}, {n_states}"
    yield from _with_best([_against(what, method, folder, problem, times, value) for method in PLANNERS], 1.0)


def soft(name: str, n_states: int, repeats: int) -> Iterator[Figure]:
    """The soft value, against SciPy's sparse value iteration: its plain form, and one that stops by MacQueen's bounds.

    On chains that mix quickly the second one ends after a few sweeps, so no ratio is asked for.
    """
    asked = family_problem(name, n_states)
    rival = RaggedValueIteration(asked.domain.mdp, asked.reward)
    ours = partial(solve_soft, asked.domain.mdp, asked.reward, accuracy=ACCURACY)
    ours()  # Loads compiled code.
    for what, theirs in (("plain", rival.plain), ("MacQueen's bounds", rival.at_its_best)):
        met = duel(ours, theirs, repeats)
        apart = float(np.abs(met.ours.value - met.theirs).max())
        check(apart <= 2.01 * ACCURACY, f"two soft values are {apart:.3g} apart")
        row = compared(f"soft solution, {name}, {n_states}", 0, f"SciPy value iteration, {what}", met.times)
        yield row.at_least(20.0) if theirs == rival.plain else row


def growth(name: str, sizes: tuple[int, ...]) -> Iterator[Figure]:
    """The constrained MDP at growing sizes, each in its own process, and the exponent of its time."""
    seconds = []
    for n_states in sizes:
        command = [sys.executable, "-m", "benchmarks.off_grid", name, str(n_states)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[1])
        if ended.returncode:
            raise WrongAnswer(f"{name}, {n_states}: {(ended.stderr.strip().splitlines() or ['no reason given'])[-1]}")
        row = json.loads(ended.stdout)
        seconds.append(row["seconds"])
        what = f"constrained MDP, {name}, {n_states}"
        yield Figure(what, 0, ours=row["seconds"], note=row["note"]).below(SECONDS_BELOW.get(n_states))
        yield Figure(f"{what}: peak memory", 0, value=row["gib"], unit="GiB").below(GIB_BELOW.get(n_states))
    power = exponent(sizes, seconds)
    yield Figure(f"constrained MDP, {name}: growth exponent", 0, value=power).at_most(EXPONENT_AT_MOST)


def check_constrained(asked: FamilyProblem, found: ConstrainedOptimum) -> None:
    """The policy, evaluated again, is within the limits, earns its value, and has the certified gap."""
    again = expectation(asked.domain, found.policy)
    excess = float((asked.limits.excess(again.both) / asked.limits.offsets).max())
    check(excess <= SAME, f"a constrained optimum exceeds a limit by {excess:.3g} of it")
    off = abs(float(again.reward @ asked.weights) - found.value)
    allowed = SAME * (1 + abs(found.value))
    check(off <= allowed, f"a constrained optimum earns {off:.3g} less or more than its value")
    check(found.gap <= allowed, f"a constrained optimum has the gap {found.gap:.3g}")


def whole_program(asked: FamilyProblem) -> dict[str, Any]:
    """The linear program over occupancies times the number of states, so that right-hand sides are about one."""
    mdp, features = asked.domain.mdp, asked.domain.preference_features
    state, n_choices = mdp.state_of_choice, mdp.n_choices
    leave = sparse.csr_array((np.ones(n_choices), np.arange(n_choices), mdp.first_choice), (mdp.n_states, n_choices))
    flow = leave - mdp.discount * mdp.transition.T
    rows = sparse.csr_array(sparse.vstack([flow, sparse.csr_array(features[state].T / asked.limits.offsets[:, None])]))
    right = np.concatenate([mdp.n_states * mdp.initial, np.full(len(asked.limits), float(mdp.n_states))])
    slope = -asked.reward[state] / mdp.n_states
    return _saved("rows", rows) | {"right": right, "slope": slope, "n_equal": np.array(mdp.n_states)}


def _saved(name: str, matrix: sparse.csr_array) -> dict[str, Any]:
    parts = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr, "shape": np.array(matrix.shape)}
    return {f"{name}_{part}": array for part, array in parts.items()}


def _against(
    what: str, method: str, folder: Path | None, problem: dict[str, Any], times: list[float], right: ArrayLike
) -> Figure:
    """One peer, once; its answer must be ours."""
    try:
        found = peers.solve_program(peers.peer_python(folder, peers.NO_PEERS), method, problem, PEER_SECONDS)
    except peers.NoAnswer as reason:
        return missing(what, 0, method, str(reason))
    wanted = np.asarray(right)
    off = float(np.abs(np.asarray(found.value) - wanted).max() / (1 + np.abs(wanted).max()))
    if off > SAME:
        return missing(what, 0, method, f"its answer is {off:.1e} from ours, after {found.seconds:.3g} s")
    return compared(what, 0, method, [(seconds, found.seconds) for seconds in times])


def _with_best(rows: list[Figure], least: float) -> Iterator[Figure]:
    """The rows; that of the best peer, with the smallest ratio, must have at least this ratio."""
    compared_rows = [row for row in rows if row.ratio is not None]
    best = min(compared_rows, key=lambda row: row.ratio or 0.0) if compared_rows else None
    for row in rows:
        yield replace(row, note="best peer").at_least(least) if row is best else row


def main(name: str, n_states: str) -> None:
    """Print the seconds, the peak memory and a note of one constrained MDP as JSON."""
    best_policy(*family_problem(name, 2_000))  # Loads compiled code.
    asked = family_problem(name, int(n_states))
    processor = time.process_time()
    seconds, found = timed(partial(best_policy, *asked))
    processor = time.process_time() - processor
    check_constrained(asked, found)
    gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    note = f"{found.n_rounds} rounds, gap {found.gap:.1e}, processor time {processor:.3g} s"
    print(json.dumps({"seconds": seconds, "gib": gib, "note": note}))


if __name__ == "__main__":
    main(*sys.argv[1:])
