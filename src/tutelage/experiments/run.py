"""Computes the rows of tasks: in this process, in several processes, or on a Dask cluster. Each row is kept at once.

A row depends on its task alone, bit for bit: every worker uses one BLAS thread, since their number orders the sums.
"""

import json
import logging
import math
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass, replace
from typing import Any

from joblib.externals.loky import ProcessPoolExecutor
from joblib.externals.loky.process_executor import BrokenProcessPool
from threadpoolctl import threadpool_limits

import tutelage as tl
from tutelage.arrays import finite_or_none
from tutelage.experiments.players import called, takes_round
from tutelage.experiments.settings import PAPER_STOPS, SEEDS, Task
from tutelage.experiments.store import Row, Store, revision
from tutelage.experiments.worlds import WorldName
from tutelage.outcomes import InvalidInput, TutelageError, Unavailable, is_over, needed_for, watched
from tutelage.registry import make_teacher
from tutelage.teachers.adaptive import distance

# As of tcp://127.0.0.1:8786, or inproc:// for a scheduler in this process. Others are refused here, because the client
# may wait for ever for them.
ADDRESS = re.compile(r"((tcp|tls|ucx|wss?)://)?(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+):\d{1,5}|inproc://[0-9.]+/\d+/\d+")
KILLED = {
    "refused": "the process that computed this row was killed, also when it ran alone; if memory ran out, use a "
    "smaller domain or a machine with more of it",
    "error": "Killed",
}


@dataclass(frozen=True, slots=True)
class Backend:
    """Where rows are computed: in `jobs` processes, or on a Dask cluster, where its scheduler has an `address`."""

    jobs: int = 1
    address: str = ""
    connect_seconds: float = 10.0

    def __post_init__(self) -> None:
        most = max(64, 4 * (os.cpu_count() or 1))
        if not 1 <= self.jobs <= most:
            raise InvalidInput(f"jobs must be at least one and at most {most} on this machine, got {self.jobs}")
        if self.address and not ADDRESS.fullmatch(self.address):
            raise InvalidInput(f"{self.address!r} is not the address of a scheduler, such as tcp://127.0.0.1:8786")


def missing(tasks: Iterable[Task], store: Store) -> list[Task]:
    """The tasks whose rows the store does not have, without duplicates."""
    known = store.rows()
    return list({task.key: task for task in tasks if task.key not in known}.values())


def run(
    tasks: Iterable[Task],
    store: Store,
    backend: Backend | None = None,
    *,
    on_row: Callable[[Row], object] = lambda row: None,
) -> None:
    """Compute every row that the store does not have, and store each at once. on_row: called after each is stored."""
    left = missing(tasks, store)
    where = backend or Backend()
    rows = map(compute_row, left) if where.jobs == 1 else _computed_by_processes(left, where.jobs)
    for row in _computed_on_cluster(left, where) if where.address else rows:
        store.add(row)
        on_row(row)


def _computed_by_processes(tasks: Sequence[Task], jobs: int) -> Iterator[Row]:
    """The rows of these tasks. If a process is killed, each task that was running is computed again, alone."""
    left = dict(enumerate(tasks))
    while left:
        executor = ProcessPoolExecutor(min(jobs, len(left)), initializer=_end_with_parent, initargs=(os.getpid(),))
        futures = {executor.submit(compute_row, task): number for number, task in left.items()}
        try:
            for future in as_completed(futures):
                row = future.result()
                del left[futures[future]]
                yield row
        except BrokenProcessPool:
            # Tasks are started in their order, so the first of those that are left were running.
            for task in [left.pop(number) for number in [*left][:jobs]]:
                yield from [_row(task, KILLED)] if jobs == 1 else _computed_by_processes([task], 1)
        finally:
            executor.shutdown(kill_workers=bool(left))


def _end_with_parent(parent: int) -> None:
    """End this process soon after its parent has gone, even if that was killed. parent: its id, from itself."""

    def wait() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _computed_on_cluster(tasks: Sequence[Task], backend: Backend) -> Iterator[Row]:
    """The rows of these tasks from a Dask cluster; `Unavailable` where the cluster is lost on the way."""
    with needed_for("a Dask cluster", "cluster"):
        import distributed
    # Its log would repeat the error as a traceback.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    try:
        client = distributed.Client(backend.address, timeout=backend.connect_seconds)
    except OSError as error:
        raise Unavailable(f"no Dask scheduler answers at {backend.address}: {error}") from error
    with client:
        futures = dict(zip(client.map(compute_row, tasks, pure=False), tasks, strict=True))
        for future in distributed.as_completed(futures):
            try:
                yield future.result()
            except distributed.KilledWorker:
                yield _row(futures[future], KILLED)
            except (distributed.CancelledError, OSError) as error:
                raise Unavailable(
                    f"the Dask cluster at {backend.address} was lost: {error}; finished rows are stored, "
                    "so start the cluster and run the same command again"
                ) from error


def compute_row(task: Task) -> Row:
    """The row of one task: its result, or why there is none. A task that fails does not end the run."""
    start = time.thread_time()
    try:
        with threadpool_limits(1):
            row = _row(task, taught(task))
    except KeyboardInterrupt:
        raise
    # Whatever else a task raises, such as `MemoryError` or `SystemExit`, concerns this row alone.
    except BaseException as error:
        kind = type(error).__name__
        sentence = str(error)
        if not isinstance(error, TutelageError):
            logging.getLogger(__name__).debug("%s failed", task, exc_info=True)
            sentence = f"the computation failed: {kind}: {error}".removesuffix(": ")
        row = _row(task, {"refused": sentence, "error": kind})
    return replace(row, seconds=time.thread_time() - start)


def _row(task: Task, result: Mapping[str, Any]) -> Row:
    return Row(task.key, task.settings, json.dumps(result, sort_keys=True, allow_nan=False), tl.__version__, revision())


def taught(task: Task) -> dict[str, Any]:
    """The result of teaching. Where the time limit was reached, `ended` says so."""
    ground = task.world.ground(task.learner)
    setting = task.teacher
    first = (ground.domain, ground.true_weights)
    every = ground.every_preference
    learner = task.model.make(ground.domain, task.seed)
    options: dict[str, Any] = dict(setting.options)
    if setting.given is None:
        # In the paper's worlds a teacher ends as in the paper, unless its options say otherwise.
        if setting.name in PAPER_STOPS and isinstance(task.world, WorldName):
            options.setdefault("stop_tolerance", PAPER_STOPS[setting.name])
        teacher = make_teacher(setting.name, *first, learner, every_preference=every, rng=task.seed, **options)
    else:
        offered = {"learner": learner, "preference_features": every} | dict.fromkeys(SEEDS, task.seed)
        told = [offered[setting.told]] if setting.told else []
        teacher = called(setting.given.load(), *first, *told, options=options, offered=offered)
    if n := task.model.n_sampled:
        learner = tl.SampledLearner(ground.domain, learner, n, n, rng=task.seed)
    with watched(task.time_limit or None):
        transcript = tl.teach(teacher, learner, max_rounds=setting.max_rounds)
        result = summary(transcript)
        if is_over() and "time limit" not in result["ended"]:
            result["ended"] = f"the time limit of {task.time_limit:g} s was reached; {result['ended']}"
    known = {"domain": ground.domain, "true_weights": ground.true_weights, "learner": learner, "seed": task.seed}
    return result | _measured(task, transcript, known | {"transcript": transcript})


def _measured(task: Task, transcript: tl.Transcript, offered: Mapping[str, Any]) -> dict[str, Any]:
    """What a sweep measures beside the rewards. offered: to a metric, by name, beside the lesson and the response."""
    journey = transcript.arrival
    functions = {metric.name: metric.load() for metric in task.metrics}
    rounds = []
    for taught in transcript.rounds:
        values = dict(taught.response.metrics)
        named = {**offered, "lesson": taught.lesson, "response": taught.response}
        for name, function in functions.items():
            first = [taught] if takes_round(function) else []
            values[name] = float(called(function, *first, options={}, offered=named))
        rounds.append(values)
    names = dict.fromkeys(name for values in rounds for name in values)
    shown = [taught.response.lesson for taught in transcript.rounds]
    counts = transcript.final.response.expectation.preference.tolist()
    return {
        "arrival": None if journey is None else [journey.probability, finite_or_none(journey.steps)],
        "counts": dict(zip(offered["domain"].preference_names, counts, strict=True)),
        "n_demonstrations": [lesson.n_demonstrations for lesson in shown],
        "n_steps": [lesson.n_steps for lesson in shown],
        "metrics": {name: [finite_or_none(values.get(name, math.nan)) for values in rounds] for name in names},
    }


def summary(transcript: tl.Transcript) -> dict[str, Any]:
    """What a row keeps of the rounds: rewards, distances, bound, certificate, and the weights inferred last."""
    final = transcript.final
    weights = final.response.learned_weights
    certificate = final.response.certificate
    proof = {"ended": "no certificate"} if certificate is None else certificate.as_data()
    return {
        "reward": final.response_reward,
        "bound": finite_or_none(final.bound),
        "learner_rewards": [taught.response_reward for taught in transcript.rounds],
        "lesson_rewards": [taught.lesson_reward for taught in transcript.rounds],
        "distances": [distance(taught) for taught in transcript.rounds],
        "weights": None if weights is None else weights.tolist(),
        "gap": proof.get("gap"),
        "residual": proof.get("residual"),
        "answer": proof["ended"],
        "ended": transcript.ended,
    }
