"""Players that the calling script defines: the same rows wherever they are computed, and new ones when code changes.

Without the code in the task, two processes stored every row as failed; without its identity in the key, a learner that
was changed under its name returned its old rows. The identity of code is equal for equal code in every process, and
another one after any change that matters.
"""

import functools
import importlib.util
import json
import os
import runpy
import signal
import subprocess
import sys
import threading
from functools import partial
from itertools import product

import numpy as np
import pytest
from distributed import LocalCluster
from experiments.tasks import GOOD

import tutelage as tl
from tutelage import registry
from tutelage.experiments.plans import read_plan
from tutelage.experiments.players import Given, digest
from tutelage.experiments.run import compute_row
from tutelage.experiments.store import Store

EVERY = "TUTELAGE_EVERY_CELL" in os.environ
N_SEEDS = 34 if EVERY else 4
N_TASKS = N_SEEDS * 3 * 2

SCRIPT = '''
import sys
from dataclasses import dataclass
from functools import partial

import numpy as np

import tutelage as tl

WEIGHT = {weight}


def mixed(domain, policy):
    """A helper in another function, which the class uses."""
    return WEIGHT * policy + (1 - WEIGHT) * tl.uniform_policy(domain.mdp)


@dataclass(frozen=True)
class Cloning:
    domain: tl.Domain

    def respond(self, lesson):
        return tl.Response.of(self.domain, lesson, mixed(self.domain, lesson.policy), metrics={{"entropy": 1.5}})


@dataclass(frozen=True)
class Remembering:
    domain: tl.Domain
    rate: float = 0.1
    seed: int = 0

    def respond(self, lesson, after=None):
        noise = np.random.default_rng(self.seed).normal(size=self.domain.n_reward)
        before = noise if after is None else after.memory["weights"]
        weights = before + self.rate * lesson.expectation
        policy = tl.solve_soft(self.domain.mdp, self.domain.reward_features @ weights).policy
        return tl.Response.of(self.domain, lesson, policy, memory={{"weights": weights}})


class Twice:
    """Shows an optimal policy twice."""

    def __init__(self, domain, true_weights, learner):
        self.domain, self.true_weights, self.learner = domain, np.asarray(true_weights), learner

    def open(self):
        return tl.AgnosticTeacher(self.domain, self.true_weights).open()

    def adapt(self, rounds):
        return tl.Advice(self.open().lesson if len(rounds) < 2 else None, "again")


def chain(seed):
    rng = np.random.default_rng(seed)
    mdp = tl.MDP.from_arrays(rng.dirichlet(np.ones(5), size=(5, 3)), np.eye(5)[0], 0.8)
    return tl.Domain(mdp, rng.random((5, 2)), rng.random((5, 1))), [1.0, -0.5]


def loss(response, true_weights):
    return -response.expectation.reward @ true_weights


new = []
rows = tl.sweep(
    {{"domain": [{{"name": "chains", "domain": chain}}]}},
    learners={{"cloning": Cloning, "slow": partial(Remembering, rate=0.05), "fast": Remembering}},
    teachers={{"twice": Twice, "agnostic-too": tl.AgnosticTeacher}},
    metrics={{"loss": loss, "apart": lambda taught: taught.distance}},
    seeds=range(int(sys.argv[4])),
    out=sys.argv[1],
    jobs=int(sys.argv[2]),
    address=sys.argv[3],
    on_row=lambda row: (new.append(row.key.teacher), print("row", flush=True)),
).rows
'''


def arguments(out, jobs=1, address=""):
    return [str(out), str(jobs), address, str(N_SEEDS)]


def run_script(path, *given):
    """The global names of the script after it has run in this process, as `__main__`."""
    before = sys.argv
    sys.argv = [str(path), *arguments(*given)]
    try:
        return runpy.run_path(str(path), run_name="__main__")
    finally:
        sys.argv = before


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("players")


@pytest.fixture(scope="module")
def script(folder):
    (folder / "script.py").write_text(SCRIPT.format(weight=0.9))
    return folder / "script.py"


@pytest.fixture(scope="module")
def serial(folder, script):
    """The rows, one after the other in one process."""
    return run_script(script, folder / "serial")


def test_every_row_has_what_was_measured(serial):
    rows = serial["rows"]
    assert len(rows) == N_TASKS and not any(row["failed"] for row in rows)
    for row in rows:
        n_rounds = 2 if row["teacher"] == "twice" else 1
        assert row["n_rounds"] == n_rounds == len(row["reward_by_round"]) == len(row["loss_by_round"])
        assert row["reward"] == row["reward_by_round"][-1] == pytest.approx(-row["loss"], abs=1e-12)
        assert row["gap"] is None, "a light response has no certificate, and none is invented"
        assert row["entropy"] == (1.5 if row["model"] == "cloning" else None)
        assert row["count.preference 0"] > 0 and row["seconds"] > 0 and row["seed"] == row["replicate"]
    rates = {(row["model"], row["teacher"], row["reward"]) for row in rows if row["seed"] == 0}
    assert len({reward for model, teacher, reward in rates if teacher == "twice"}) == 3
    # The seed reaches a learner that asks for it: the first response of `slow` differs between seeds beyond the domain.
    assert serial["new"] and all(teacher in ("twice", "agnostic-too") for teacher in serial["new"])


def test_killed_in_two_processes_and_resumed_the_rows_are_equal(folder, script, serial):
    command = [sys.executable, str(script), *arguments(folder / "killed", 2)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as killed:
        assert killed.stdout.readline()
        os.killpg(killed.pid, signal.SIGKILL)
    kept = len(Store(folder / "killed" / "sweep.sqlite").rows())
    assert 1 <= kept < N_TASKS
    again = subprocess.run(command, check=True, capture_output=True, text=True)
    assert again.stdout.count("row") == N_TASKS - kept
    resumed = run_script(script, folder / "killed")
    assert not resumed["new"] and resumed["rows"] == serial["rows"]


def test_a_cluster_that_has_no_script_computes_the_same_rows(folder, script, serial):
    threads = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with LocalCluster(**threads, host="tcp://127.0.0.1") as cluster:
        assert run_script(script, folder / "cluster", 1, cluster.scheduler_address)["rows"] == serial["rows"]


def test_a_changed_helper_of_one_class_is_computed_again_and_nothing_else(folder, script, serial):
    other = folder / "changed.py"
    # A comment and other line numbers change nothing.
    other.write_text("# moved\n\n" + SCRIPT.format(weight=0.5))
    changed = run_script(other, folder / "serial")
    assert len(changed["new"]) == N_TASKS / 3
    for before, after in zip(serial["rows"], changed["rows"], strict=True):
        assert (before == after) == (before["model"] != "cloning")


def plan(**change):
    return GOOD | {"learner": [], "teacher": []} | change


class Patient:
    """Does what the lesson shows; `rate` is not used."""

    def __init__(self, domain, rate=1.0):
        self.domain = domain

    def respond(self, lesson):
        return tl.Response.of(self.domain, lesson, lesson.policy)


class Interrupting(BaseException):
    """Neither an `Exception` nor one of ours."""


@pytest.mark.parametrize(
    "error", [ZeroDivisionError("by zero"), SystemExit("stop"), Interrupting("now"), MemoryError()]
)
def test_whatever_a_player_raises_is_a_row(error, tmp_path):
    def broken(*given):
        raise error

    class Mute(Patient):
        def respond(self, lesson):
            raise error

    teachers = {"broken": broken, "good": tl.AgnosticTeacher}
    found = tl.sweep(plan(), learners={"good": Patient, "mute": Mute, "made": broken}, teachers=teachers, out=tmp_path)
    assert len(found.rows) == 6 and len(found.failed) == 5
    assert all(type(error).__name__ in row["failed"] for row in found.failed)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"learner": [{"model": "patientt"}]}, "no learner model 'patientt'"),
        (
            {"learner": [{"model": "patient", "speed": 1}]},
            "learner 'patient' cannot be made: got an unexpected keyword argument 'speed'",
        ),
        ({"learner": [{"model": "patient", "rate": {"a": 1}}]}, "rate of 'patient' must be a number or a text"),
        ({"learner": [{"model": "patient", "allowance": 1}]}, "'violation_allowance'"),
        ({"teacher": [{"name": "agnostik"}]}, "no teacher 'agnostik'"),
        ({"teacher": [{"name": "told"}]}, "teacher 'told' cannot be made: missing a required argument: 'student'"),
    ],
)
def test_an_unknown_name_ends_before_the_first_task(given, sentence, tmp_path):
    def told(domain, true_weights, student):
        raise AssertionError("never made")

    computed = []
    with pytest.raises(tl.InvalidInput, match=sentence):
        tl.sweep(
            plan(**{"teacher": [{"name": "agnostic"}], **given}),
            learners={"patient": Patient},
            teachers={"told": told} if "told" in str(given) else {},
            out=tmp_path,
            on_row=computed.append,
        )
    assert not computed


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"learners": {"text": "soft"}}, "'text' must be a class or a function"),
        ({"learners": {"locked": lambda domain, by=sys.stdout: None}}, "'locked' cannot be sent to another process"),
        ({"metrics": {"both": lambda domain, policy: 0}}, "metric 'both' cannot be made: missing.* argument: 'policy'"),
        ({"learners": [Patient]}, "learners must be a mapping from names to classes or functions"),
        ({"seeds": []}, "seeds must be a list of integers"),
    ],
)
def test_what_cannot_take_part_is_refused(given, sentence, tmp_path):
    with pytest.raises(tl.InvalidInput, match=sentence):
        tl.sweep(GOOD, out=tmp_path, **given)


def test_a_version_stands_for_the_code_and_the_arguments_of_a_partial_still_count():
    first, second = (Given.of("p", made, "v1") for made in (Patient, Interrupting))
    assert first.identity == second.identity != Given.of("p", Patient, "v2").identity
    rates = [Given.of("p", partial(Patient, rate=rate), "v1").identity for rate in (1.0, 2.0)]
    assert len({first.identity, *rates}) == 3
    assert len({Given.of("p", partial(Patient, rate=rate)).identity for rate in (1.0, 2.0, 2.0)}) == 2


def test_a_plan_may_sweep_the_options_of_a_given_learner(tmp_path):
    entry = {"model": "patient", "rate": [1, 2], "preferences": ["L1", "L2"]}
    found = tl.sweep(plan(learner=[entry], teacher=[{"name": "agnostic"}]), learners={"patient": Patient}, out=tmp_path)
    assert {(row["learner.rate"], row["preferences"]) for row in found.rows} == {*product((1, 2), ("L1", "L2"))}
    assert len({row["learner"] for row in found.rows}) == 4


def test_a_worker_computes_registered_players_without_their_registration(tmp_path, monkeypatch):
    """The decorators ran in this process only; a worker has the tables of the package."""
    for table in (registry.LEARNER_MODELS, registry.TEACHERS):
        monkeypatch.setattr(table, "data", dict(table.data))

    @tl.register_learner("half_heeding")
    class Halved(Patient):
        def __init__(self, domain, rate=0.5, seed=0):
            self.domain, self.rate, self.seed = domain, rate, seed

        def respond(self, lesson):
            policy = self.rate * lesson.policy + (1 - self.rate) * tl.uniform_policy(self.domain.mdp)
            return tl.Response.of(self.domain, lesson, policy, metrics={"drawn": self.seed, "rate": self.rate})

    @tl.register_teacher("telling", knows="learner", is_adaptive=False)
    def telling(domain, true_weights, student, scale=1.0):
        assert isinstance(student, Halved)
        return tl.AgnosticTeacher(domain, scale * np.asarray(true_weights))

    given = plan(learner=[{"model": "half-heeding", "rate": [0.25, 0.75]}], teacher=[{"name": "telling"}], seeds=[0, 4])
    with pytest.raises(tl.InvalidInput, match="'half_heeding' has no option 'rates'; did you mean 'rate'"):
        read_plan(plan(learner=[{"model": "half_heeding", "rates": 1}], teacher=[{"name": "telling"}]), tmp_path)
    tasks = read_plan(given, tmp_path)
    for table, name in ((registry.LEARNER_MODELS, "half_heeding"), (registry.TEACHERS, "telling")):
        del table[name]
    outcomes = [compute_row(task).outcome for task in tasks]
    seen = {(result["metrics"]["rate"][0], result["metrics"]["drawn"][0]) for result in outcomes}
    assert seen == {*product((0.25, 0.75), (0, 4))}


def test_two_processes_compute_players_of_a_module_that_they_cannot_import(tmp_path):
    """As of this test; a helper of the module goes along. What cannot be sent by value is sent by its name."""
    path = tmp_path / "hidden_module.py"
    path.write_text(SCRIPT.format(weight=0.9).partition("new = []")[0])
    spec = importlib.util.spec_from_file_location("hidden_module", path)
    module = sys.modules["hidden_module"] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        learners = {"cloning": module.Cloning, "patient": Patient}
        given = {"learners": learners, "teachers": {"twice": module.Twice}, "metrics": {"loss": module.loss}}
        rows = tl.sweep({"domain": [{"domain": module.chain}]}, **given, out=tmp_path, jobs=2).rows
    finally:
        del sys.modules["hidden_module"]
    assert len(rows) == 2 and not any(row["failed"] for row in rows)
    lock = threading.Lock()
    with pytest.raises(tl.InvalidInput, match="'locked' cannot be sent to another process"):
        Given.of("locked", lambda domain: lock)


def test_seeds_reach_named_worlds_and_teachers(tmp_path):
    """A world with {seed} is another one for each seed; a teacher may ask for the seed under either name."""

    def drawn(domain, true_weights, *, rng, seed):
        return tl.AgnosticTeacher(domain, true_weights * (1 + np.sqrt(rng * seed)))

    found = tl.sweep(
        {"domain": [{"world": "text:{seed}:5"}]},
        learners={"patient": Patient},
        teachers={"drawn": drawn},
        seeds=[3, 5],
        out=tmp_path,
    )
    assert [row["domain"] for row in found.rows] == ["text:3:5", "text:5:5"]
    assert [row["seed"] for row in found.rows] == [row["replicate"] for row in found.rows] == [3, 5]
    for row in found.rows:
        world = tl.object_world(size=5, seed=row["seed"], generator="text")
        best = tl.AgnosticTeacher(world.domain("L5"), world.true_weights).open().lesson.expectation @ world.true_weights
        assert row["reward"] == pytest.approx((1 + row["seed"]) * best, rel=1e-9)


def test_a_metric_that_is_not_a_number_is_no_value_and_one_that_raises_is_a_failed_row(tmp_path):
    def undefined(taught):
        return np.nan

    def raising(domain):
        raise ValueError("no metric here")

    players = {"learners": {"patient": Patient}, "teachers": {"agnostic-too": tl.AgnosticTeacher}}
    (row,) = tl.sweep(plan(), metrics={"undefined": undefined}, out=tmp_path, **players).rows
    assert row["undefined"] is None and not row["failed"]
    (row,) = tl.sweep(
        plan(), metrics={"reward": lambda taught: 7, "seed": lambda seed: 8}, out=tmp_path, **players
    ).rows
    assert (row["metric.reward"], row["metric.seed"], row["metric.reward_by_round"]) == (7, 8, [7]) and row[
        "reward"
    ] != 7
    (row,) = tl.sweep(plan(), metrics={"raising": raising}, out=tmp_path, **players).rows
    assert "no metric here" in row["failed"]
    assert json.dumps(row), "a row is plain data, also where it failed"


CODE = """
import abc, functools, dataclasses
import numpy as np
import tutelage as tl
TABLE = {table}
CALLS = {{abs: "a", lambda x: x: "b"}}
def helper(x):
    CALLS.get(x)
    return TABLE[{{"b": 0, "a": 1}}.get(x, 0)] if x in {{"a", "b", "c"}} else {constant}
class Base(abc.ABC):
    limit = {limit}
    @abc.abstractmethod
    def f(self): ...
@dataclasses.dataclass(frozen=True, slots=True)
class Learner(Base):
    domain: tl.Domain
    rate: float = {default}
    names: list = dataclasses.field(default_factory=list)
    @property
    def speed(self):
        return {attribute}
    @functools.lru_cache
    def g(self):
        return [helper(x) for x in "ab"]
    def f(self):
        {comment}
        return lambda: np.linalg.norm(self.g())
"""
VALUES = {
    "table": "np.arange(2.0)",
    "constant": "1",
    "limit": "[1, 2]",
    "default": "0.1",
    "attribute": "self.rate",
    "comment": "",
}


def learner(**change):
    """The class, defined as a script would; its module is `__main__`."""
    scope = {"__name__": "__main__"}
    exec(CODE.format(**(VALUES | change)), scope)
    return scope["Learner"]


def test_equal_code_is_equal_in_another_process_whatever_its_hash_seed():
    program = f"{CODE.format(**VALUES)}\nfrom tutelage.experiments.players import digest\nprint(digest(Learner))"
    command = [sys.executable, "-c", program]
    for seed in "01":
        told = subprocess.run(
            command, env=os.environ | {"PYTHONHASHSEED": seed}, check=True, capture_output=True, text=True
        )
        assert told.stdout.strip() == digest(learner())


def test_a_comment_changes_nothing():
    assert digest(learner(comment="# another line\n\n")) == digest(learner())


@pytest.mark.parametrize(
    "change",
    [
        {"table": "np.arange(3.0)"},
        {"constant": "2"},
        {"limit": "[1, 3]"},
        {"default": "0.2"},
        {"attribute": "self.names"},
    ],
)
def test_what_changes_the_result_changes_the_identity(change):
    assert digest(learner(**change)) != digest(learner())


def test_a_cache_that_was_used_changes_nothing():
    made, before = learner(), digest(learner())
    made.g.cache_clear()
    assert digest(made) == before


def test_partials_closures_and_objects_count_by_what_they_hold():
    def scaled(factor):
        return lambda domain: factor * domain

    each = [functools.partial(tl.SoftLearner, mismatch_penalty=c) for c in (1, 2)]
    each += [scaled(1), scaled(2), scaled(np.ones(2)), np.random.default_rng(1), np.random.default_rng(2)]
    each += [tl.object_world(size=6, seed=seed).domain("L1") for seed in (0, 1)] + [tl.SoftLearner, "text", ...]
    assert len({digest(value) for value in each}) == len(each)
    assert digest(scaled(1)) == digest(scaled(1))


def test_recursion_and_empty_cells_are_followed_to_their_end():
    def even(n):
        return n == 0 or odd(n - 1)

    before = digest(even)

    def odd(n):
        return n > 0 and even(n - 1)

    assert digest(even) != before


def test_what_has_no_end_asks_for_a_version():
    nested = []
    for _ in range(100_000):
        nested = [nested]
    with pytest.raises(tl.InvalidInput, match="give version="):
        digest(functools.partial(print, nested))
