"""`python -m benchmarks kernels`: the Bellman solvers against SciPy's sparse value iteration; sweeps; memory; import.

Both solve the soft equation to 1e-8 of the value. The reward is that of a published world, times one and times five;
a learner with penalty 5 infers a reward of the second size. The value of Tutelage is checked by a backup that shares no
code with the solver, and against the rival's value.
"""

import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from benchmarks import traffic
from benchmarks.measure import PEAK_RESET, Figure, Step, check, compared, duel, resident
from benchmarks.problems import ACCURACY, Problem, problem
from benchmarks.rivals import ValueIteration
from tutelage.arrays import Vector
from tutelage.bellman.equations import solve_soft
from tutelage.constrained.occupancy_polytope import best_policy

SCIPY = "SciPy value iteration"
# The least ratio and the number of timed pairs, by size.
AT_LEAST = {100: 10.0, 300: 10.0, 1000: 15.0}
REPEATS = {30: 7, 100: 5, 300: 3, 1000: 2}
SIZES, LARGE = (30, 100, 300), 1000
MEMORY_SIZE, SWEEP_SIZE = 300, 1000
MOST_PER_CHOICE = 300.0


def steps(*, large: bool) -> list[Step]:
    """All steps. large: also the soft solution at 1000x1000, where the rival takes minutes."""
    # Memory first: pages that the allocator keeps from earlier work would hide part of it.
    found = [Step(f"memory, {MEMORY_SIZE}x{MEMORY_SIZE}", partial(memory, MEMORY_SIZE))]
    found += [
        Step(f"soft solution, {size}x{size}, reward x{scale:g}", partial(soft, size, scale))
        for size in SIZES
        for scale in (1.0, 5.0)
    ]
    found += [Step("import", partial(importing, 5))]
    found += [Step(f"sweeps, {SWEEP_SIZE}x{SWEEP_SIZE}", partial(traffic.sweeps, SWEEP_SIZE, 9))]
    return found + ([Step(f"soft solution, {LARGE}x{LARGE}", partial(soft, LARGE, 1.0))] if large else [])


def soft(size: int, scale: float) -> Iterator[Figure]:
    """`solve_soft` against value iteration at its best and, up to 100x100, against its plain form."""
    asked = problem(size, "L1")
    reward = scale * asked.reward
    rival = ValueIteration(asked.domain.mdp, reward)
    ours = partial(solve_soft, asked.domain.mdp, reward, accuracy=ACCURACY)
    ours()  # Loads compiled code.
    what, repeats = f"soft solution, reward x{scale:g}", REPEATS.get(size, 3)
    for name, theirs in ((SCIPY, rival.at_its_best), (f"{SCIPY}, plain", rival.plain)):
        if theirs == rival.plain and size > 100:
            continue
        met = duel(ours, theirs, repeats)
        check_soft(rival, met.ours.value, met.theirs)
        row = compared(what, size, name, met.times)
        yield row.at_least(AT_LEAST.get(size)) if name == SCIPY else row


def importing(repeats: int) -> Iterator[Figure]:
    """`import tutelage` in a new process against the libraries that it would load if it were not lazy."""
    ours, theirs = (
        partial(subprocess.run, [sys.executable, "-c", f"import {names}"], check=True)
        for names in ("tutelage", "numpy, scipy.sparse, scipy.optimize")
    )
    yield compared("import tutelage", 0, "import NumPy and SciPy", duel(ours, theirs, repeats).times).at_least(2.0)


def check_soft(rival: ValueIteration, found: Vector, theirs: Vector) -> None:
    """Both values are within 1e-8 of the solution; one per cent is added for the rounding of the check."""
    residual = float(np.abs(rival.backup(found) - found).max())
    check(residual <= 1.01 * ACCURACY * (1 - rival.discount), f"the soft value has the residual {residual:.3g}")
    apart = float(np.abs(theirs - found).max())
    check(apart <= 2.01 * ACCURACY, f"two soft values are {apart:.3g} apart")


def memory(size: int) -> list[Figure]:
    """Peak bytes per choice, without the domain and with it.

    Resident memory also counts the arrays of compiled code, but not pages that were resident before.
    """
    for run in _solutions(problem(30, "L5")).values():
        run()  # Loads compiled code, which is not part of the memory of a solution.
    before = resident("VmRSS")
    tracemalloc.start()
    try:
        return list(_per_choice(size, before))
    finally:
        tracemalloc.stop()


def _per_choice(size: int, before: float) -> Iterator[Figure]:
    asked = problem(size, "L5")
    for name, run in _solutions(asked).items():
        solving, peak = _traced(run)
        used = {"solving": solving, "with the domain": peak}
        if PEAK_RESET.exists():
            used["resident, with it"] = resident("VmHWM") - before
        for what, count in used.items():
            value = count / asked.domain.mdp.n_choices
            row = Figure(f"memory, {name}: {what}", size, value=value, unit="bytes per choice")
            yield row.at_most(MOST_PER_CHOICE)


def _solutions(asked: Problem) -> dict[str, Callable[[], object]]:
    return {
        "soft solution": partial(solve_soft, asked.domain.mdp, 5 * asked.reward),
        "constrained MDP, L5": partial(best_policy, asked.domain, asked.weights, asked.limits),
    }


def _traced(run: Callable[[], object]) -> tuple[float, float]:
    """Peak bytes that NumPy allocated: above the level before the run, and in total."""
    tracemalloc.reset_peak()
    idle = tracemalloc.get_traced_memory()[0]
    if PEAK_RESET.exists():
        PEAK_RESET.write_text("5")
    run()
    peak = tracemalloc.get_traced_memory()[1]
    return float(peak - idle), float(peak)
