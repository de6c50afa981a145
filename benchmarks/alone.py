"""One task at one size: its seconds and its peak of memory, here or in a process that does nothing else.

python -m benchmarks.alone "soft solution" 1000 2
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache

from benchmarks.measure import WrongAnswer, timed
from benchmarks.memory import resident
from benchmarks.tasks import TASKS

# Solved beforehand, so that no time counts in which compiled code is loaded: that of small worlds, and that of large.
WARM_SIZES = (30, 350)
THOROUGH_UP_TO = 300


@dataclass(frozen=True, slots=True)
class Sample:
    """The seconds of each repeat, the process's peak resident bytes so far (0 where none can tell), and a remark."""

    seconds: Sequence[float]
    peak: float
    note: str = ""


def measure(name: str, size: int, repeats: int) -> Sample:
    """Here and now; raises `WrongAnswer` for a wrong one."""
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
    """The same in a fresh process, whose peak is therefore that of the task."""
    command = [sys.executable, "-m", "benchmarks.alone", name, str(size), str(repeats)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        reason = (ended.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise WrongAnswer(f"{name} at {size}x{size}: {reason}")
    return Sample(**json.loads(ended.stdout))


def main(name: str, size: str, repeats: str) -> None:
    """For `measure_apart`: one JSON object, or a sentence and exit code 1."""
    try:
        sample = measure(name, int(size), int(repeats))
    except WrongAnswer as error:
        sys.exit(str(error))
    print(json.dumps(asdict(sample)))


if __name__ == "__main__":
    main(*sys.argv[1:])
