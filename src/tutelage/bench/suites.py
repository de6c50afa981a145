"""The benchmarks by name."""

from pathlib import Path

from tutelage.bench import kernels, learners, scale, teachers
from tutelage.bench.measure import Step


def steps_of(name: str, *, large: bool, quick: bool, peers: Path | None) -> list[Step]:
    """The steps of `kernels`, `learners`, `teachers` or `scale`. peers: the folder of the peers' environment."""
    made = {
        "kernels": lambda: kernels.steps(large=large),
        "learners": lambda: learners.steps(large=large, folder=peers),
        "teachers": lambda: teachers.steps(large=large),
        "scale": lambda: scale.steps(quick=quick),
    }
    return made[name]()
