"""Rows depend on their task alone, bit for bit: whoever computes them, however often the run was killed."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from distributed import Client
from experiments.tasks import small_tasks

import tutelage
from tutelage.experiments.run import Backend, _end_with_parent, compute_row, missing, run, summary
from tutelage.experiments.settings import BILEVEL, EXACT, LearnerSetting, Task, TeacherSetting, soft_setting
from tutelage.experiments.store import Store
from tutelage.experiments.worlds import WorldName
from tutelage.outcomes import InvalidInput, Unavailable

PROGRAM = Path(__file__).parent / "tasks.py"
TASKS = small_tasks()


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """A store with every row, computed one after the other in this process."""
    store = Store(tmp_path_factory.mktemp("serial") / "results.sqlite")
    run(TASKS, store)
    return store


@pytest.fixture(scope="module")
def expected(full):
    return full.rows()


def program(store: Path, jobs: int, address: str = "") -> subprocess.Popen:
    """A run of its own, in a group of processes of its own."""
    arguments = [sys.executable, str(PROGRAM), str(store), str(jobs), *([address] if address else [])]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)


def test_two_processes_find_the_same_rows(expected, tmp_path):
    store = Store(tmp_path / "results.sqlite")
    run(TASKS, store, Backend(jobs=2))
    assert store.rows() == expected


def test_a_run_that_is_killed_goes_on_where_it_was(expected, tmp_path):
    """Killed twice, without warning, after its first rows; what was committed is not computed again."""
    path = tmp_path / "results.sqlite"
    for _ in range(2):
        with program(path, 2) as killed:
            killed.stdout.readline()
            os.killpg(killed.pid, signal.SIGKILL)
    store = Store(path)
    kept = store.rows()
    assert 2 <= len(kept) < len(expected)
    seen = []
    run(TASKS, store, on_row=lambda row: seen.append(row.key))
    assert not kept.keys() & set(seen)
    assert store.rows() == expected


def test_two_runs_on_one_store(expected, tmp_path):
    path = tmp_path / "results.sqlite"
    with program(path, 1) as first, program(path, 1) as second:
        assert [first.wait(300), second.wait(300)] == [0, 0]
    assert Store(path).rows() == expected


def test_a_full_store_is_not_touched(full):
    assert missing(TASKS, full) == []
    run(TASKS, full, on_row=lambda row: pytest.fail("computed again"))


@contextmanager
def cluster(folder: Path, n_workers: int) -> Iterator[tuple[str, list[subprocess.Popen]]]:
    """A Dask cluster, started in the documented way: its address, and the scheduler followed by the workers."""
    with ExitStack() as stack:
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder, "start_new_session": True}

        def launch(*arguments: str) -> subprocess.Popen:
            launched = subprocess.Popen([sys.executable, "-m", "dask", *arguments], **quiet)
            stack.callback(lambda: (os.killpg(launched.pid, signal.SIGKILL), launched.wait()))
            return launched

        port = _free_port()
        address = f"tcp://127.0.0.1:{port}"
        scheduler = launch("scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard")
        workers = [
            launch("worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard") for _ in range(n_workers)
        ]
        with Client(address, timeout=300, set_as_default=False) as client:
            client.wait_for_workers(n_workers, timeout=300)
        yield address, [scheduler, *workers]


def test_a_cluster_loses_a_worker_and_then_its_scheduler(expected, tmp_path):
    """The worker dies by SIGKILL after the first row, and its tasks move.

    Without the scheduler a run ends by itself and says what to do; a second run would need only the other rows.
    """
    path, later = tmp_path / "results.sqlite", tmp_path / "later.sqlite"
    with cluster(tmp_path, 2) as (address, processes):
        with program(path, 1, address) as running:
            assert running.stdout.readline()
            processes[1].kill()
            _, errors = running.communicate(timeout=300)
        assert running.returncode == 0, errors.decode()
        with program(later, 1, address) as running:
            assert running.stdout.readline()
            processes[0].kill()
            _, errors = running.communicate(timeout=300)
    assert Store(path).rows() == expected
    assert running.returncode != 0
    said = errors.decode().strip().splitlines()[-1]
    assert "Unavailable: the Dask cluster at tcp://127.0.0.1" in said and "run the same command again" in said
    kept = Store(later).rows()
    assert kept and kept.items() <= expected.items()


def test_workers_end_soon_after_a_parent_that_was_killed(tmp_path):
    """They cannot be told, and would otherwise compute on; nor may they leave named semaphores behind."""
    before = set(Path("/dev/shm").glob("sem.*")) if Path("/dev/shm").exists() else set()
    with program(tmp_path / "results.sqlite", 2) as killed:
        killed.stdout.readline()
        workers = psutil.Process(killed.pid).children(recursive=True)
        killed.kill()
        _, alive = psutil.wait_procs(workers, timeout=120)
    assert workers and not alive
    litter = set(Path("/dev/shm").glob("sem.*")) - before if Path("/dev/shm").exists() else set()
    assert not [path for path in litter if f"loky-{killed.pid}-" in path.name]


def test_a_worker_whose_parent_has_gone_before_its_first_task_ends(monkeypatch):
    ended = threading.Event()
    monkeypatch.setattr(os, "_exit", lambda code: ended.set())
    _end_with_parent(-1)
    assert ended.wait(120)


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def test_a_row_says_what_made_it():
    task = TASKS[0]
    row = compute_row(task)
    assert row.version == tutelage.__version__ and row.key == task.key
    assert '["violation_allowance", 2.5]' in row.detail and '"model": "hard"' in row.detail
    assert row.key.world == "text:0:7"


def test_the_bound_of_a_plan_is_kept_and_no_reward_exceeds_it():
    task = Task(WorldName("published", 0, 8), "L2", soft_setting("soft", 5.0, 10.0), BILEVEL)
    found = compute_row(task).outcome
    assert found["reward"] <= found["bound"] + 1e-9 <= found["reward"] + 1.0
    assert len(found["weights"]) == 3 + 2


def test_a_row_has_the_final_reward_also_where_an_earlier_round_was_better():
    world = WorldName("published", 0, 6).make()
    domain = world.domain("L1")
    learner = tutelage.SoftLearner(domain, mismatch_penalty=5, violation_penalty=10)
    good = tutelage.AgnosticTeacher(domain, world.true_weights).open().lesson
    poor = tutelage.AgnosticTeacher(domain, -world.true_weights).open().lesson
    transcript = tutelage.Transcript(world.true_weights)
    for lesson, bound in ((good, 99.0), (poor, 42.0)):
        transcript = transcript.followed_by(tutelage.Round(lesson, learner.respond(lesson), "", bound))
    first, final = transcript.rounds
    assert first.response_reward > final.response_reward + 1
    row = summary(transcript.ending("by hand"))
    assert row["reward"] == final.response_reward and row["bound"] == 42.0 and row["ended"] == "by hand"
    assert row["learner_rewards"] == [first.response_reward, final.response_reward]
    assert row["lesson_rewards"] == [first.lesson_reward, final.lesson_reward]
    assert row["weights"] == final.response.learned_weights.tolist()
    proof = final.response.certificate
    assert (row["gap"], row["residual"], row["answer"]) == (proof.gap, proof.residual, proof.ended.name)


def test_a_world_that_no_policy_can_please_is_a_row_that_says_so():
    """World 4 starts within two cells of a yellow distractor, and L5 grants nothing."""
    task = Task(WorldName("published", 4, 10), "L5", LearnerSetting("hard"), TeacherSetting("aware_cmdp"))
    assert "no policy satisfies" in compute_row(task).outcome["refused"]


def test_aware_teaching_of_the_exact_hard_learner_earns_the_linear_program_s_value():
    """Against the direct program over occupancies, by HiGHS; the row came by decomposition and a projection."""
    for seed, learner in ((0, "L2"), (1, "L3"), (6, "L3")):
        world = WorldName("published", seed, 10)
        domain = world.make().domain(learner)
        limits = tutelage.preference_limits(domain, 2.5)
        direct = tutelage.best_policy(domain, world.make().true_weights, limits, route="direct")
        found = compute_row(Task(world, learner, EXACT, TeacherSetting("aware_cmdp"))).outcome
        assert found["reward"] == pytest.approx(direct.value, abs=1e-6)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((0,), "jobs must be at least one"),
        ((10**6,), "at most .* on this machine, got 1000000"),
        ((1, "nowhere"), "'nowhere' is not the address of a scheduler, such as tcp"),
        ((1, "tcp://"), "is not the address"),
        ((1, "tcp://127.0.0.1:port"), "is not the address"),
        ((1, "a b:8786"), "is not the address"),
    ],
)
def test_workers_that_cannot_be_are_refused(arguments, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        Backend(*arguments)


def test_a_scheduler_that_does_not_answer_is_a_sentence(tmp_path):
    workers = Backend(1, "tcp://127.0.0.1:9", connect_seconds=0.5)
    with pytest.raises(Unavailable, match="no Dask scheduler answers at tcp"):
        run(TASKS, Store(tmp_path / "results.sqlite"), workers)


class Deadly(Task):
    """A task that ends every process that reads it, as the system does when memory runs out."""

    def __reduce__(self):
        return os._exit, (9,)


def test_a_killed_worker_is_a_row_and_the_run_goes_on(expected, tmp_path):
    first, *others = TASKS
    deadly = Deadly(first.world, first.learner, first.model, first.teacher, seed=7)
    store = Store(tmp_path / "results.sqlite")
    run([*others[:2], deadly, *others[2:], first], store, Backend(2))
    rows = store.rows()
    assert "was killed, also when it ran alone" in rows.pop(deadly.key).outcome["refused"]
    assert rows == expected


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (MemoryError(), "the computation failed: MemoryError"),
        (RecursionError("too deep"), "the computation failed: RecursionError: too deep"),
        (ZeroDivisionError("division by zero"), "the computation failed: ZeroDivisionError: division by zero"),
    ],
)
def test_whatever_a_task_raises_is_a_row_that_says_why(error, sentence, monkeypatch):
    def failing(*arguments, **options):
        raise error

    monkeypatch.setattr("tutelage.experiments.run.make_teacher", failing)
    outcome = compute_row(TASKS[0]).outcome
    assert sentence in outcome["refused"]


def test_a_result_that_is_not_a_number_is_a_row_that_says_so(monkeypatch):
    monkeypatch.setattr("tutelage.experiments.run.summary", lambda transcript: {"reward": float("nan"), "ended": ""})
    assert "the computation failed: ValueError" in compute_row(TASKS[0]).outcome["refused"]


def test_a_time_limit_that_was_reached_is_said(monkeypatch):
    """The answer at the limit is a row with a result, so its end must say that it is one."""
    task = replace(TASKS[0], time_limit=300.0)
    assert "time limit" not in compute_row(task).outcome["ended"]
    monkeypatch.setattr("tutelage.experiments.run.is_over", lambda: True)
    assert compute_row(task).outcome["ended"].startswith("the time limit of 300 s was reached; ")
