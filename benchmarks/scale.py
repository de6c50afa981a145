"""`python -m benchmarks scale`: growth of time and memory with the number of states, up to a million.

Time is fitted as constant * states^k by least squares in the logarithms. At 1000x1000 each task runs in its own
process, and the peak of resident memory includes the interpreter, the domain and the solution. A constrained problem
whose limits do not bind is easy; its note says so. The limits of a "binding" task bind at every size.

`python -m benchmarks.scale "soft solution" 1000 2` measures one task at one size, two times, and prints JSON.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from statistics import median

from benchmarks import kernels
from benchmarks.measure import Figure, Step, WrongAnswer, exponent, resident, timed
from benchmarks.tasks import (
    AWARE,
    BINDING_AWARE,
    BINDING_PROJECTION,
    HARD,
    LINE,
    PROJECTION,
    SOFT,
    SOFT_LEARNER,
    TASKS,
    VOLUME,
    WORLD,
)

SIZES, QUICK_UP_TO, APART_FROM = (100, 200, 300, 500, 1000), 300, 1000
GROWING = (WORLD, SOFT, HARD, AWARE, PROJECTION, BINDING_AWARE, BINDING_PROJECTION)
ROUNDS_SIZE = 300
# Limits of seconds, of memory in GiB, and of the exponent.
SECONDS_BELOW = {(name, 300): 3.0 for name in (AWARE, BINDING_AWARE)}
SECONDS_BELOW |= {(name, 1000): 120.0 for name in (AWARE, PROJECTION, BINDING_AWARE, BINDING_PROJECTION)}
GIB_BELOW, EXPONENT_AT_MOST = 2.0, {WORLD: 1.35, SOFT: 1.35}
EXPONENT, MEMORY = "growth exponent", "peak memory"
# Solved before timing, so that loading the compiled code of small and of large worlds is not timed.
WARM_SIZES = (30, 350)
THOROUGH_UP_TO = 300


@dataclass(frozen=True, slots=True)
class Sample:
    """The seconds of each repeat, the peak resident bytes of the process (0: unknown), and a remark."""

    seconds: Sequence[float]
    peak: float
    note: str = ""


def steps(*, quick: bool) -> list[Step]:
    """All steps. quick: only up to 300x300."""
    sizes = [size for size in SIZES if size <= QUICK_UP_TO] if quick else SIZES
    found = [Step(name, partial(growth, name, sizes)) for name in GROWING]
    found += [Step(name, partial(once, name, ROUNDS_SIZE)) for name in (VOLUME, LINE, SOFT_LEARNER)]
    largest = Step("against SciPy", partial(kernels.soft, SIZES[-1], 1.0))
    return found if quick else [*found, largest]


def growth(name: str, sizes: Sequence[int]) -> Iterator[Figure]:
    """One task at each size, its peak memory where it ran in its own process, and the exponent of its time."""
    medians = []
    for size in sizes:
        is_apart = size >= APART_FROM
        sample = (measure_apart if is_apart else measure)(name, size, _repeats(name, size))
        medians.append(median(sample.seconds))
        yield _timed(name, size, sample)
        if is_apart and sample.peak:
            yield Figure(f"{name}: {MEMORY}", size, value=sample.peak / 2**30, unit="GiB").below(GIB_BELOW)
    if len(sizes) > 1:
        yield _exponent(name, sizes, medians)


def once(name: str, size: int) -> Iterator[Figure]:
    """One task at one size."""
    yield _timed(name, size, measure(name, size, 1))


def _repeats(name: str, size: int) -> int:
    if size <= QUICK_UP_TO:
        return 3
    return 2 if name in (SOFT, HARD) else 1


def _timed(name: str, size: int, sample: Sample) -> Figure:
    times = sample.seconds
    spread = (min(times), max(times)) if len(times) > 1 else None
    row = Figure(name, size, ours=median(times), spread=spread, note=sample.note)
    return row.below(SECONDS_BELOW.get((name, size)))


def _exponent(name: str, sizes: Sequence[int], medians: Sequence[float]) -> Figure:
    """The limit applies only if all sizes were timed."""
    power = exponent([size**2 + 1 for size in sizes], medians)
    note = f"{sizes[0]}x{sizes[0]} to {sizes[-1]}x{sizes[-1]}: time grows as states^{power:.2f}"
    row = Figure(f"{name}: {EXPONENT}", sizes[-1], value=power, unit="", note=note)
    return row.at_most(EXPONENT_AT_MOST.get(name) if tuple(sizes) == SIZES else None)


def measure(name: str, size: int, repeats: int) -> Sample:
    """Time one task in this process; raises `WrongAnswer` if its answer is wrong."""
    for warm in WARM_SIZES:
        if warm < size:
            _warm_up(name, warm)
    task = TASKS[name]
    asked = task.problem(size)
    work = task.prepare(asked)
    times, answers = zip(*(timed(work) for _ in range(repeats)), strict=True)
    peak = resident("VmHWM")
    task.check(asked, answers[-1], size <= THOROUGH_UP_TO)
    return Sample(times, peak, task.describe(answers[-1]))


@cache
def _warm_up(name: str, size: int) -> None:
    TASKS[name].prepare(TASKS[name].problem(size))()


def measure_apart(name: str, size: int, repeats: int) -> Sample:
    """Time one task in a new process, so that the peak of its memory is that of the task."""
    command = [sys.executable, "-m", "benchmarks.scale", name, str(size), str(repeats)]
    folder = Path(__file__).parents[1]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    if ended.returncode:
        reason = (ended.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise WrongAnswer(f"{name} at {size}x{size}: {reason}")
    return Sample(**json.loads(ended.stdout))


def main(name: str, size: str, repeats: str) -> None:
    """Print one sample as JSON, or exit with code 1 and a sentence."""
    try:
        sample = measure(name, int(size), int(repeats))
    except WrongAnswer as error:
        sys.exit(str(error))
    print(json.dumps(asdict(sample)))


if __name__ == "__main__":
    main(*sys.argv[1:])
