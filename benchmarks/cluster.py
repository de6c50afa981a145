"""What several workers gain: the same tasks in one process, in two processes, and on a local Dask cluster.

    python -m benchmarks.cluster

Prints wall-clock seconds, so it needs an idle machine. Long tasks are bi-level lessons on 15x15 worlds; short ones are
lessons for hard learners on 6x6 worlds, whose time is mostly overhead. The first task of every worker loads the
package and its compiled loops, so a round of tasks that is not counted comes first.
"""

import tempfile
import time
from collections.abc import Mapping
from typing import Any

from distributed import LocalCluster

import tutelage as tl

N_WORKERS = 2


def plan(name: str, seeds: range) -> Mapping[str, Any]:
    """The tasks of a sweep: one teacher, one learner, a world for each seed."""
    size, learner, teacher = {
        "long": (15, {"model": "soft", "mismatch_penalty": 5, "violation_penalty": 10, "allowance": 0}, "bilevel"),
        "short": (6, {"model": "hard", "allowance": 2.5}, "agnostic"),
    }[name]
    worlds = [{"world": f"published:{seed}:{size}"} for seed in seeds]
    return {"domain": worlds, "learner": [learner], "teacher": [{"name": teacher}]}


def seconds(name: str, n_tasks: int, **where: Any) -> float:
    """Of all tasks, after one round of tasks that warms up every worker."""
    with tempfile.TemporaryDirectory() as folder:
        tl.sweep(plan(name, range(1000, 1000 + 2 * N_WORKERS)), out=folder, **where)
        begun = time.perf_counter()
        rows = tl.sweep(plan(name, range(n_tasks)), out=folder, **where).rows
        taken = time.perf_counter() - begun
    assert len(rows) == n_tasks
    return taken


def main() -> None:
    """Print a table."""
    print(f"{'tasks':<12}{'where':<22}{'seconds':>9}{'per task':>12}{'speed-up':>10}")
    for name, n_tasks in (("long", 40), ("short", 500)):
        alone = seconds(name, n_tasks)
        times = {"one process": alone, f"{N_WORKERS} processes": seconds(name, n_tasks, jobs=N_WORKERS)}
        for n_workers in range(1, N_WORKERS + 1):
            with LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=None) as cluster:
                times[f"Dask, {n_workers} worker" + "s" * (n_workers > 1)] = seconds(
                    name, n_tasks, address=cluster.scheduler_address
                )
        for where, taken in times.items():
            print(f"{n_tasks} {name:<8}{where:<22}{taken:>9.2f}{1e3 * taken / n_tasks:>9.1f} ms{alone / taken:>10.2f}")


if __name__ == "__main__":
    main()
