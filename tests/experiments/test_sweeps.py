"""Sweeps over a user's domains: every combination once, killed and continued bit for bit, failures as rows."""

import csv
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pyarrow.parquet
import pytest
from cli_support import printed, shown
from distributed import LocalCluster
from numpy.testing import assert_array_equal
from strategies import add_features, build_mdp

import tutelage as tl
from tutelage.experiments import plans
from tutelage.experiments.plans import read_plan
from tutelage.experiments.run import compute_row
from tutelage.experiments.store import Store
from tutelage.experiments.sweeps import table_rows

PLAN = """
seeds = [0, 1]

[[domain]]
file = ["first.npz", "second.npz"]
weights = {"reward 0" = 1, "reward 1" = -0.5}

[[domain]]
world = "text:0:4"

[[learner]]
model = "soft"
mismatch_penalty = [1, 5]
n_sampled = 3

[[learner]]
model = "hard"
allowance = 1e4
preferences = ["all"]

[[teacher]]
name = ["agnostic", "aware-cmdp"]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two domains of a user, and a plan beside them."""
    folder = tmp_path_factory.mktemp("sweep")
    for number, name in enumerate(("first", "second")):
        rng = np.random.default_rng(number)
        mdp = build_mdp(rng, rng.integers(1, 4, size=6), 0.8)
        kinds = {"reward_on_choices": True, "preference_on_choices": False}
        tl.save(add_features(rng, mdp, n_reward=2, n_preference=2, **kinds), folder / f"{name}.npz")
    (folder / "plan.toml").write_text(PLAN)
    return folder


@pytest.fixture(scope="module")
def found(folder):
    """The whole sweep, in this process."""
    return tl.sweep(folder / "plan.toml", out=folder / "serial")


def test_every_combination_is_a_row_with_what_was_asked(folder, found):
    assert len(found.rows) == 3 * 3 * 2 * 2
    asked = {(r["domain"], r["learner"], r["teacher"], r["seed"]) for r in found.rows}
    assert len(asked) == len(found.rows)
    assert {row["domain"] for row in found.rows} == {"first", "second", "text:0:4"}
    assert {row["mismatch_penalty"] for row in found.rows if row["model"] == "soft"} == {1, 5}
    # With hard preferences that never bind, both teachers show what the learner repeats: the optimum.
    hard = [row for row in found.rows if row["model"] == "hard"]
    for row in (row for row in hard if row["domain"] == "first"):
        domain = tl.load(folder / "first.npz")
        best = tl.best_policy(domain, [1, -0.5], tl.no_limits(domain)).value
        assert row["reward"] == pytest.approx(best, abs=1e-6)


def test_a_row_is_that_of_teaching_by_hand(folder):
    plan = {
        "domain": [{"file": str(folder / "first.npz"), "weights": [1, 2]}],
        "learner": [{"mismatch_penalty": 3, "violation_penalty": 4, "allowance": {"preference 1": 0.2}}],
        "teacher": [{"name": "bilevel", "max_cells": 4}],
    }
    (row,) = tl.sweep(plan, out=folder / "by hand").rows
    domain = tl.load(folder / "first.npz")
    learner = tl.SoftLearner(domain, mismatch_penalty=3, violation_penalty=4, violation_allowance=[0.0, 0.2])
    by_hand = tl.teach(tl.BilevelTeacher(domain, [1, 2], learner, max_cells=4), learner).final
    assert (row["reward"], row["bound"]) == (by_hand.response_reward, by_hand.bound)


def test_a_domain_may_be_an_object_and_its_content_is_what_counts(folder):
    domain = tl.load(folder / "first.npz")
    other = domain.mdp.from_choices(domain.mdp.transition, domain.mdp.first_choice, domain.mdp.initial, 0.5)
    changed = tl.Domain(other, domain.reward_features, domain.preference_features)
    players = {"learner": [{"model": "standard"}], "teacher": [{"name": "agnostic"}]}
    seen = []
    for one, n_new in ((domain, 1), (domain, 0), (changed, 1)):
        plan = {"domain": [{"name": "mine", "domain": one, "weights": [1, 1]}], **players}
        tl.sweep(plan, out=folder / "objects", on_row=seen.append)
        assert len(seen) == n_new, "a changed domain of the same name is computed, an equal one is not"
        seen.clear()


def _program(folder, jobs=2):
    code = "import sys, tutelage as tl; tl.sweep(sys.argv[1], out=sys.argv[2], jobs=int(sys.argv[3]), on_row=print)"
    arguments = [sys.executable, "-c", code, str(folder / "plan.toml"), str(folder / "killed"), str(jobs)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, start_new_session=True)


def test_a_sweep_that_is_killed_is_continued_bit_for_bit(folder, found):
    with _program(folder) as killed:
        killed.stdout.readline()
        os.killpg(killed.pid, signal.SIGKILL)
    kept = len(Store(folder / "killed" / "sweep.sqlite").rows())
    assert 1 <= kept < len(found.rows)
    new = []
    continued = tl.sweep(folder / "plan.toml", out=folder / "killed", on_row=new.append)
    assert len(new) == len(found.rows) - kept
    assert continued.rows == found.rows


def test_a_cluster_computes_the_same_rows(folder, found):
    """The cluster in processes of its own, and what it may lose, is in test_run.py."""
    threads = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with LocalCluster(**threads, host="tcp://127.0.0.1") as cluster:
        address = cluster.scheduler_address
        assert tl.sweep(folder / "plan.toml", out=folder / "cluster", address=address).rows == found.rows


def test_a_task_that_fails_is_a_row_that_says_why(folder):
    plan = {
        "domain": [{"file": str(folder / "first.npz"), "weights": [1, 2]}],
        "learner": [{"model": "hard", "allowance": [0.0, 1e4]}],
        "teacher": [{"name": "agnostic"}],
    }
    found = tl.sweep(plan, out=folder / "out")
    (failed,) = found.failed
    assert "no policy satisfies the 2 constraints" in failed["failed"] and failed["reward"] is None
    assert sum(mean.n_failed for mean in found.means()) == 1
    again = []
    tl.sweep(plan, out=folder / "out", on_row=again.append)
    assert not again
    tl.sweep(plan, out=folder / "out", retry=True, on_row=again.append)
    assert len(again) == 1


def test_a_task_beyond_its_time_limit_is_a_row(folder):
    plan = {
        "time_limit": 1e-6,
        "domain": [{"world": "published:0:10"}],
        "learner": [{"preferences": "L3"}],
        "teacher": [{"name": "bilevel"}],
    }
    (row,) = tl.sweep(plan, out=folder / "out").rows
    assert "the time limit was reached" in row["failed"]


@pytest.mark.parametrize("suffix", [".csv", ".json", ".jsonl", ".parquet"])
def test_rows_are_read_back_by_others(folder, found, suffix):
    path = folder / f"rows{suffix}"
    found.to_file(path)
    if suffix == ".parquet":
        assert pyarrow.parquet.read_table(path)["reward"].to_pylist() == [row["reward"] for row in found.rows]
        return
    text = path.read_text()
    if suffix == ".csv":
        read = list(csv.DictReader(text.splitlines()))
        assert [float(row["reward"]) if row["reward"] else None for row in read] == [
            row["reward"] for row in found.rows
        ]
        return
    read = json.loads(text) if suffix == ".json" else [json.loads(line) for line in text.splitlines()]
    assert [row["reward"] for row in read] == [row["reward"] for row in found.rows]


def test_rows_of_another_format_are_refused(folder):
    found = tl.Sweep(({"failed": ""},))
    with pytest.raises(tl.InvalidInput, match=r"rows are written to \.csv"):
        found.to_file(folder / "rows.xlsx")


def test_the_command_prints_means_and_writes_files(folder, found):
    rows, picture = folder / "shown.csv", folder / "means"
    command = ["sweep", str(folder / "plan.toml"), "--out", str(folder / "serial"), "--jobs", "1"]
    text = printed(*command, "--rows", str(rows), "--picture", str(picture))
    assert "Agnostic" in text and "C_r 5" in text
    assert rows.exists() and picture.with_suffix(".png").exists() and picture.with_suffix(".svg").exists()
    data = shown(*command)
    assert len(data["rows"]) == len(found.rows) and data["files"] == []


def test_the_picture_has_one_bar_for_each_mean(found):
    (axes,) = found.picture().axes
    assert sum(len(group) for group in axes.containers if hasattr(group, "patches")) == len(found.means())


GOOD = {
    "domain": [{"world": "text:0:4"}],
    "learner": [{"preferences": "L2"}],
    "teacher": [{"name": "agnostic"}],
}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"domian": []}, "no entry of a plan 'domian'; did you mean domain"),
        ({"domain": []}, r"has no \[\[domain\]\]"),
        ({"domain": [{"weights": [1]}]}, "needs either file"),
        ({"domain": [{"world": "published:0"}]}, "names no world"),
        ({"learner": [{"model": "sotf"}]}, "no learner model 'sotf'; did you mean soft"),
        ({"learner": [{"preferences": "green"}]}, "no preference 'green'"),
        ({"learner": [{"preferences": "L2", "allowance": {"yellow": 1}}]}, "no preference of text:0:4 'yellow'"),
        ({"learner": [{"penalty": 3}]}, "no entry of"),
        ({"teacher": [{"name": "agnostik"}]}, "did you mean agnostic"),
        ({"teacher": [{"max_rounds": 2}]}, "needs a name"),
        ({"teacher": [{"name": "bilevel", "cells": 3}]}, "option of 'bilevel'"),
        ({"seeds": [0.5]}, "seeds must be a list of integers"),
    ],
)
def test_a_wrong_plan_is_refused_before_anything_is_computed(change, sentence, tmp_path):
    assert len(read_plan(GOOD, tmp_path)) == 1
    with pytest.raises(tl.TutelageError, match=sentence):
        read_plan(GOOD | change, tmp_path)


def test_what_is_no_toml_is_refused_by_name(tmp_path):
    (tmp_path / "plan.toml").write_text("seeds = [")
    with pytest.raises(tl.InvalidInput, match=r"plan\.toml is not a TOML file"):
        tl.sweep(tmp_path / "plan.toml", out=tmp_path)


def test_weights_by_name_and_their_number(folder):
    entry = {"file": str(folder / "first.npz")}
    for weights, sentence in ((None, "needs the true weights"), ([1], "2 reward features need 2"), ({"x": 1}, "'x'")):
        with pytest.raises(tl.InvalidInput, match=sentence):
            read_plan(GOOD | {"domain": [entry | {"weights": weights}]}, folder)


def test_a_domain_file_that_is_replaced_during_a_run_is_refused(folder, tmp_path):
    """A row must not be stored under the checksum of another domain."""
    own = tmp_path / "own.npz"
    own.write_bytes((folder / "first.npz").read_bytes())
    (task,) = read_plan(GOOD | {"domain": [{"file": str(own), "weights": [1, 0]}], "learner": [{}]}, tmp_path)
    before = compute_row(task).outcome
    own.write_bytes((folder / "second.npz").read_bytes())
    assert "own.npz has changed since the plan was read" in compute_row(task).outcome["refused"]
    own.write_bytes((folder / "first.npz").read_bytes())
    assert compute_row(task).outcome == before


def test_two_sweeps_that_save_their_domains_at_once_keep_their_own(folder, tmp_path, monkeypatch):
    """The second saves its domain between the first one's saving and naming."""
    first, second = (tl.load(folder / name) for name in ("first.npz", "second.npz"))
    others = []

    def interrupted(domain, path):
        tl.save(domain, path)
        if domain is first:
            others.append(plans.read_plan(given(second), tmp_path))

    def given(domain):
        return GOOD | {"domain": [{"domain": domain, "weights": [1, 0]}], "learner": [{}]}

    monkeypatch.setattr(plans, "save", interrupted)
    (mine,), ((other,),) = plans.read_plan(given(first), tmp_path), others
    for task, domain in ((mine, first), (other, second)):
        assert_array_equal(tl.load(task.world.path).reward_features, domain.reward_features)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_plan_reads_each_file_once(folder, monkeypatch):
    loaded = []
    monkeypatch.setattr(plans, "load", lambda path: loaded.append(path) or tl.load(path))
    assert len(plans.read_plan(folder / "plan.toml", folder / "domains")) == 36
    assert len(loaded) == 2


def test_a_mean_over_fewer_seeds_says_so(found):
    failing = [dict(row, failed="no policy") if row["seed"] == 1 and row["teacher"] == "agnostic" else row
               for row in found.rows]  # fmt: skip
    sweep = tl.Sweep(tuple(failing))
    header, *body = table_rows(sweep.means())
    assert all("1 failed" in row[header.index("Agnostic")] for row in body)
    assert "1 failed" in {text.get_text() for text in sweep.picture().axes[0].texts}
