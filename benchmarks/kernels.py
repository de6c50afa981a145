"""`python -m benchmarks kernels`: the Bellman solvers against SciPy's sparse value iteration; sweeps; memory.

Both solve the soft equation to 1e-8 of the value, on the reward of a published world times one and times five (the size
that a learner with penalty 5 infers). Ours is checked by a backup that shares no code with it, and against the rival's.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np

from benchmarks import memory, traffic
from benchmarks.measure import Figure, Step, check, compared, duel
from benchmarks.problems import ACCURACY, problem
from benchmarks.rivals import ValueIteration
from tutelage.arrays import Vector
from tutelage.solvers.bellman import solve_soft

SCIPY = "SciPy value iteration"
# What must hold at each size, and how many pairs are timed.
AT_LEAST = {100: 10.0, 300: 10.0, 1000: 15.0}
REPEATS = {30: 7, 100: 5, 300: 3, 1000: 2}
SIZES, LARGE = (30, 100, 300), 1000
MEMORY_SIZE, SWEEP_SIZE = 300, 1000


def steps(*, large: bool) -> list[Step]:
    """Everything; large: also the soft solution at 1000x1000, whose rival takes minutes."""
    # Memory first: whatever the allocator keeps from earlier work would hide some of it.
    found = [Step(f"memory, {MEMORY_SIZE}x{MEMORY_SIZE}", partial(memory.per_choice, MEMORY_SIZE))]
    found += [
        Step(f"soft solution, {size}x{size}, reward x{scale:g}", partial(soft, size, scale))
        for size in SIZES
        for scale in (1.0, 5.0)
    ]
    found += [Step(f"sweeps, {SWEEP_SIZE}x{SWEEP_SIZE}", partial(traffic.sweeps, SWEEP_SIZE, 9))]
    return found + ([Step(f"soft solution, {LARGE}x{LARGE}", partial(soft, LARGE, 1.0))] if large else [])


def soft(size: int, scale: float) -> Iterator[Figure]:
    """`solve_soft` against value iteration at its best and, up to 100x100, against its plain form."""
    asked = problem(size, "L1")
    reward = scale * asked.reward
    rival = ValueIteration(asked.domain.mdp, reward)
    ours = partial(solve_soft, asked.domain.mdp, reward, accuracy=ACCURACY)
    ours()  # Loads what is compiled.
    what, repeats = f"soft solution, reward x{scale:g}", REPEATS.get(size, 3)
    for name, theirs in ((SCIPY, rival.at_its_best), (f"{SCIPY}, plain", rival.plain)):
        if theirs == rival.plain and size > 100:
            continue
        met = duel(ours, theirs, repeats)
        check_soft(rival, met.ours.value, met.theirs)
        row = compared(what, size, name, met.times)
        yield row.at_least(AT_LEAST.get(size)) if name == SCIPY else row


def check_soft(rival: ValueIteration, found: Vector, theirs: Vector) -> None:
    """Both values within 1e-8 of the truth; one part in a hundred more for the rounding of the check."""
    residual = float(np.abs(rival.backup(found) - found).max())
    check(residual <= 1.01 * ACCURACY * (1 - rival.discount), f"the soft value has the residual {residual:.3g}")
    apart = float(np.abs(theirs - found).max())
    check(apart <= 2.01 * ACCURACY, f"two soft values are {apart:.3g} apart")
