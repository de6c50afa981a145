"""Computes the rows of tasks: in this process, in several processes, or on a Dask cluster. Each row is kept at once.

A row depends on its task alone, bit for bit. Every worker uses one BLAS thread, because the order of a
sum depends on the number of threads.
"""

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import joblib
from threadpoolctl import threadpool_limits

import tutelage
from tutelage.arrays import finite_or_none
from tutelage.experiments.illustrations import illustrate
from tutelage.experiments.settings import AnyTask, Illustration, Task
from tutelage.experiments.store import Row, Store, revision
from tutelage.interaction import teach
from tutelage.learners.sampled import SampledLearner
from tutelage.outcomes import InvalidInput, MissingExtra, TutelageError, Unavailable
from tutelage.registry import make_teacher
from tutelage.roles import Learner
from tutelage.teachers.adaptive import distance
from tutelage.transcripts import Transcript

# The time limit for connecting to a Dask scheduler.
CONNECT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Backend:
    """Where rows are computed: in `jobs` processes, or on a Dask cluster with its scheduler at `address`."""

    jobs: int = 1
    kind: Literal["processes", "dask"] = "processes"
    address: str = ""

    def __post_init__(self) -> None:
        if self.jobs < 1:
            raise InvalidInput(f"jobs must be at least one, got {self.jobs}")
        if self.kind not in ("processes", "dask"):
            raise InvalidInput(f"backend must be 'processes' or 'dask', got {self.kind!r}")
        if (self.kind == "dask") != bool(self.address):
            raise InvalidInput(
                "an address, such as tcp://127.0.0.1:8786, is needed for the backend 'dask' and for no other"
            )


def missing(tasks: Iterable[AnyTask], store: Store) -> list[AnyTask]:
    """The tasks whose rows the store does not have, without duplicates."""
    known = store.rows()
    return list({task.key: task for task in tasks if task.key not in known}.values())


def run(
    tasks: Iterable[AnyTask],
    store: Store,
    backend: Backend | None = None,
    *,
    on_row: Callable[[Row], object] = lambda row: None,
) -> None:
    """Compute every row that the store does not have, and store each at once. on_row: called after each is stored."""
    for row in computed(missing(tasks, store), backend or Backend()):
        store.add(row)
        on_row(row)


def computed(tasks: list[AnyTask], backend: Backend) -> Iterator[Row]:
    """The rows of these tasks, in the order in which they are finished."""
    if backend.kind == "processes" and backend.jobs == 1:
        yield from map(compute_row, tasks)
        return
    if backend.kind == "dask":
        yield from _computed_on_cluster(tasks, backend.address)
        return
    parallel = joblib.Parallel(backend="loky", n_jobs=backend.jobs, return_as="generator_unordered", batch_size=1)
    yield from parallel(joblib.delayed(_in_worker)(task, os.getpid()) for task in tasks)


def _in_worker(task: AnyTask, parent: int) -> Row:
    """`compute_row` in a process that ends with its parent."""
    _end_with_parent(parent)
    return compute_row(task)


@cache
def _end_with_parent(parent: int) -> None:
    """End this process soon after its parent has gone, even if the parent was killed and could not tell it.

    parent: its id, from the parent itself; here it may have gone before the first task is read.
    """

    def wait() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _computed_on_cluster(tasks: list[AnyTask], address: str) -> Iterator[Row]:
    """The rows of these tasks from a Dask cluster; `Unavailable` where the cluster is lost on the way."""
    try:
        import distributed
    except ImportError as error:
        raise MissingExtra("a Dask cluster", "cluster") from error
    # Its log would repeat the error below as a traceback.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    try:
        client = distributed.Client(address, timeout=CONNECT_SECONDS)  # type: ignore[no-untyped-call]
    except OSError as error:
        raise Unavailable(f"no Dask scheduler answers at {address}: {error}") from error
    with client:
        futures = client.map(compute_row, tasks, pure=False)
        for future in distributed.as_completed(futures):  # type: ignore[no-untyped-call]
            try:
                row = future.result()
            except (distributed.CancelledError, distributed.KilledWorker, OSError) as error:
                raise Unavailable(
                    f"the Dask cluster at {address} was lost: {error}; finished rows are stored, "
                    "so start the cluster and run the same command again"
                ) from error
            yield row


def compute_row(task: AnyTask) -> Row:
    """The row of one task."""
    with threadpool_limits(1):
        result = illustrate(task) if isinstance(task, Illustration) else taught(task)
    text = json.dumps(result, sort_keys=True, allow_nan=False)
    return Row(task.key, task.settings, text, tutelage.__version__, revision())


def taught(task: Task) -> dict[str, Any]:
    """The result of teaching, or why there is none: a task that fails does not end the run."""
    try:
        ground = task.world.ground(task.learner)
        learner: Learner = task.model.make(ground.domain)
        teacher = make_teacher(
            task.teacher.name,
            ground.domain,
            ground.true_weights,
            learner,
            every_preference=ground.every_preference,
            **dict(task.teacher.options),
        )
        if n := task.model.n_sampled:
            learner = SampledLearner(ground.domain, learner, n, n, rng=task.seed)
        time_limit = task.time_limit or None
        return summary(teach(teacher, learner, max_rounds=task.teacher.max_rounds, time_limit=time_limit))
    except TutelageError as refusal:
        return {"refused": str(refusal), "error": type(refusal).__name__}


def summary(transcript: Transcript) -> dict[str, Any]:
    """What a row keeps of the rounds: rewards, distances, bound, certificate, and the weights inferred last."""
    final = transcript.final
    certificate = final.response.certificate
    return {
        "reward": final.response_reward,
        "bound": finite_or_none(final.bound),
        "learner_rewards": [taught.response_reward for taught in transcript.rounds],
        "lesson_rewards": [taught.lesson_reward for taught in transcript.rounds],
        "distances": [distance(taught) for taught in transcript.rounds],
        "weights": final.response.learned_weights.tolist(),
        "gap": finite_or_none(certificate.gap),
        "residual": certificate.residual,
        "answer": certificate.ended.name,
        "ended": transcript.ended,
    }
