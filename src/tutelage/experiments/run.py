"""From tasks to rows: one at a time, by several processes, or on a cluster; each is kept as soon as it is found.

A row depends on its task alone, bit for bit: whoever computes it uses one BLAS thread, for the order of a sum would
otherwise depend on how many there are.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any, Literal

import joblib
from threadpoolctl import threadpool_limits

import tutelage
from tutelage.arrays import finite_or_none
from tutelage.experiments.illustrations import illustrate
from tutelage.experiments.players import make_learner, make_teacher, planned
from tutelage.experiments.settings import AnyTask, Illustration, Task
from tutelage.experiments.store import Row, Store, revision
from tutelage.interaction import teach
from tutelage.outcomes import InfeasibleConstraints, InvalidInput, MissingExtra, Unavailable
from tutelage.transcripts import Transcript

# The features that a conservative teacher fears: all that any learner of the paper minds.
FEARED = "L5"
# How long a Dask scheduler has to answer.
CONNECT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Workers:
    """Who computes: `jobs` processes of this machine, or a Dask cluster whose scheduler listens at `address`."""

    jobs: int = 1
    backend: Literal["processes", "dask"] = "processes"
    address: str = ""

    def __post_init__(self) -> None:
        if self.jobs < 1:
            raise InvalidInput(f"jobs must be at least one, got {self.jobs}")
        if self.backend not in ("processes", "dask"):
            raise InvalidInput(f"backend must be 'processes' or 'dask', got {self.backend!r}")
        if (self.backend == "dask") != bool(self.address):
            raise InvalidInput(
                "a Dask cluster is named by its address, such as tcp://127.0.0.1:8786, and nothing else is"
            )


def missing(tasks: Iterable[AnyTask], store: Store) -> list[AnyTask]:
    """The tasks, each once, whose rows the store does not have."""
    known = store.rows()
    return list({task.key: task for task in tasks if task.key not in known}.values())


def run(
    tasks: Iterable[AnyTask],
    store: Store,
    workers: Workers | None = None,
    *,
    on_row: Callable[[Row], object] = lambda row: None,
) -> None:
    """Compute every row that the store does not have, and keep each as it comes. on_row: is shown each, once kept."""
    for row in computed(missing(tasks, store), workers or Workers()):
        store.add(row)
        on_row(row)


def computed(tasks: list[AnyTask], workers: Workers) -> Iterator[Row]:
    """The rows of these tasks, in the order in which they are found."""
    if workers.backend == "processes" and workers.jobs == 1:
        yield from map(perform, tasks)
        return
    with _workforce(workers):
        parallel = joblib.Parallel(return_as="generator_unordered", batch_size=1)
        yield from parallel(joblib.delayed(perform)(task) for task in tasks)


def _workforce(workers: Workers) -> AbstractContextManager[Any]:
    """Within it, joblib's calls go to these workers."""
    if workers.backend == "dask":
        return _cluster(workers.address)
    setting: AbstractContextManager[Any] = joblib.parallel_config(backend="loky", n_jobs=workers.jobs)
    return setting


def perform(task: AnyTask) -> Row:
    """The row of one task."""
    with threadpool_limits(1):
        result = illustrate(task) if isinstance(task, Illustration) else taught(task)
    text = json.dumps(result, sort_keys=True, allow_nan=False)
    return Row(task.key, task.settings, text, tutelage.__version__, revision())


def taught(task: Task) -> dict[str, Any]:
    """What came of teaching, or why it came to nothing."""
    world = task.world.make()
    domain = world.domain(task.learner)
    learner = make_learner(domain, task.model)
    options: dict[str, Any] = dict(task.teacher.options)
    if task.teacher.name == "conservative":
        options["preference_features"] = world.domain(FEARED).preference_features
    try:
        teacher = planned(make_teacher(task.teacher.name, domain, world.true_weights, learner, options))
        return summary(teach(teacher, learner, max_rounds=task.teacher.max_rounds))
    except InfeasibleConstraints as refusal:
        return {"refused": str(refusal)}


def summary(transcript: Transcript) -> dict[str, Any]:
    """What a row keeps of the rounds: rewards, what was certified, and what the learner inferred in the end."""
    final = transcript.final
    certificate = final.response.certificate
    return {
        "reward": final.response_reward,
        "bound": finite_or_none(final.bound),
        "learner_rewards": [taught.response_reward for taught in transcript.rounds],
        "lesson_rewards": [taught.lesson_reward for taught in transcript.rounds],
        "weights": final.response.learned_weights.tolist(),
        "gap": finite_or_none(certificate.gap),
        "residual": certificate.residual,
        "answer": certificate.ended.name,
        "ended": transcript.ended,
    }


def _cluster(address: str) -> ExitStack:
    """Joblib's calls go to the cluster for as long as this is open."""
    try:
        from distributed import Client
    except ImportError as error:
        raise MissingExtra("a Dask cluster", "cluster") from error
    stack = ExitStack()
    try:
        stack.enter_context(Client(address, timeout=CONNECT_SECONDS))  # type: ignore[no-untyped-call]
    except OSError as error:
        raise Unavailable(f"no Dask scheduler answers at {address}: {error}") from error
    stack.enter_context(joblib.parallel_config(backend="dask", n_jobs=-1))
    return stack
