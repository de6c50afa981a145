"""`python -m benchmarks scale`: how time and memory grow with the number of states, up to a million.

Time is fitted as constant * states^k by least squares in the logarithms. At 1000x1000 each task has a process of its
own, whose peak of resident memory counts everything: the interpreter, the domain, the solution. Where limits do not
bind, a constrained problem is an easy one, and its line says so; "binding" are those whose limits do.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from statistics import median

from benchmarks import kernels
from benchmarks.alone import Sample, measure, measure_apart
from benchmarks.measure import Figure, Step, exponent
from benchmarks.tasks import (
    AWARE,
    BINDING_AWARE,
    BINDING_PROJECTION,
    HARD,
    LINE,
    PROJECTION,
    SOFT,
    SOFT_LEARNER,
    VOLUME,
)

SIZES, QUICK_UP_TO, APART_FROM = (100, 200, 300, 500, 1000), 300, 1000
GROWING = (SOFT, HARD, AWARE, PROJECTION, BINDING_AWARE, BINDING_PROJECTION)
ROUNDS_SIZE = 300
# Seconds, memory in GiB, and the power of the number of states: what must not be exceeded.
SECONDS_BELOW = {(name, 300): 3.0 for name in (AWARE, BINDING_AWARE)}
SECONDS_BELOW |= {(name, 1000): 120.0 for name in (AWARE, PROJECTION, BINDING_AWARE, BINDING_PROJECTION)}
GIB_BELOW, EXPONENT_AT_MOST = 2.0, {SOFT: 1.35}
EXPONENT, MEMORY = "growth exponent", "peak memory"


def steps(*, quick: bool) -> list[Step]:
    """Everything; quick: only up to 300x300."""
    sizes = [size for size in SIZES if size <= QUICK_UP_TO] if quick else SIZES
    found = [Step(name, partial(growth, name, sizes)) for name in GROWING]
    found += [Step(name, partial(once, name, ROUNDS_SIZE)) for name in (VOLUME, LINE, SOFT_LEARNER)]
    largest = Step("against SciPy", partial(kernels.soft, SIZES[-1], 1.0))
    return found if quick else [*found, largest]


def growth(name: str, sizes: Sequence[int]) -> Iterator[Figure]:
    """One task at each size, its memory where it had a process of its own, and the exponent of its time."""
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
    """Asked for only where the sizes are those it is asked of."""
    power = exponent([size**2 + 1 for size in sizes], medians)
    note = f"{sizes[0]}x{sizes[0]} to {sizes[-1]}x{sizes[-1]}: time grows as states^{power:.2f}"
    row = Figure(f"{name}: {EXPONENT}", sizes[-1], value=power, unit="", note=note)
    return row.at_most(EXPONENT_AT_MOST.get(name) if tuple(sizes) == SIZES else None)
