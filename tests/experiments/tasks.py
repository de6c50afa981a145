"""Tasks that take milliseconds, for tests of how rows are computed and kept; and a program that computes them.

python tasks.py STORE JOBS [ADDRESS]
"""

import sys
from pathlib import Path

from tutelage.experiments.run import Backend, run
from tutelage.experiments.settings import EXACT, FOOTNOTE, KNOWING, Task
from tutelage.experiments.store import Store
from tutelage.experiments.worlds import WorldName

N_WORLDS = 3
# The data of a plan with one task.
GOOD = {
    "domain": [{"world": "text:0:4"}],
    "learner": [{"preferences": "L2"}],
    "teacher": [{"name": "agnostic"}],
}


def small_tasks(n_worlds: int = N_WORLDS) -> list[Task]:
    """Two learner models, three teachers, small worlds."""
    return [
        Task(WorldName("text", seed, 7), "L2", model, teacher)
        for seed in range(n_worlds)
        for model in (EXACT, FOOTNOTE)
        for teacher in KNOWING
    ]


if __name__ == "__main__":
    address = sys.argv[3] if len(sys.argv) > 3 else ""
    workers = Backend(int(sys.argv[2]), address)
    run(small_tasks(), Store(Path(sys.argv[1])), workers, on_row=lambda row: print(row.key.world, flush=True))
