"""Peak memory: what NumPy allocates, and what Linux says is resident."""

import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks.measure import Figure
from benchmarks.problems import Problem, problem
from tutelage.solvers.bellman import solve_soft
from tutelage.solvers.occupancy_polytope import best_policy

HIGH_WATER, STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")
MOST_PER_CHOICE = 300.0


def resident(field: str) -> float:
    """Bytes resident now (VmRSS), or at most since "5" was written to HIGH_WATER (VmHWM); 0 where none can tell."""
    lines = STATUS.read_text().splitlines() if STATUS.exists() else []
    return next((1024.0 * int(line.split()[1]) for line in lines if line.startswith(field)), 0.0)


def per_choice(size: int) -> list[Figure]:
    """Peak bytes per choice, the domain apart and with it.

    Resident memory knows of compiled code's own arrays too, but not of pages that were there before.
    """
    for run in _tasks(problem(30, "L5")).values():
        run()  # Loads what is compiled, which is no part of what a solution takes.
    before = resident("VmRSS")
    tracemalloc.start()
    try:
        return list(_per_choice(size, before))
    finally:
        tracemalloc.stop()


def _per_choice(size: int, before: float) -> Iterator[Figure]:
    asked = problem(size, "L5")
    for task, run in _tasks(asked).items():
        solving, peak = _traced(run)
        used = {"solving": solving, "with the domain": peak}
        if HIGH_WATER.exists():
            used["resident, with it"] = resident("VmHWM") - before
        for what, count in used.items():
            row = Figure(
                f"memory, {task}: {what}", size, value=count / asked.domain.mdp.n_choices, unit="bytes per choice"
            )
            yield row.at_most(MOST_PER_CHOICE)


def _tasks(asked: Problem) -> dict[str, Callable[[], object]]:
    return {
        "soft solution": partial(solve_soft, asked.domain.mdp, 5 * asked.reward),
        "constrained MDP, L5": partial(best_policy, asked.domain, asked.weights, asked.limits),
    }


def _traced(run: Callable[[], object]) -> tuple[float, float]:
    """The peak of what NumPy allocates, beyond what was there, and in all."""
    tracemalloc.reset_peak()
    idle = tracemalloc.get_traced_memory()[0]
    if HIGH_WATER.exists():
        HIGH_WATER.write_text("5")
    run()
    peak = tracemalloc.get_traced_memory()[1]
    return float(peak - idle), float(peak)
