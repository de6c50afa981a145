"""Sweeps over a user's domains: every combination once, killed and continued bit for bit, failures as rows."""

import csv
import json
import os
import signal
import subprocess
import sys

import pyarrow.parquet
import pytest
from cli_support import printed, shown
from distributed import LocalCluster
from experiments.tasks import GOOD
from typer.testing import CliRunner

import tutelage as tl
from tutelage.cli.app import make_app
from tutelage.experiments.means import tables_of
from tutelage.experiments.plans import read_plan
from tutelage.experiments.run import compute_row
from tutelage.experiments.store import Store


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
    learner = tl.SoftLearner(domain, mismatch_penalty=3, violation_penalty=4, violation_allowance={"preference 1": 0.2})
    by_hand = tl.teach(tl.BilevelTeacher(domain, [1, 2], learner, max_cells=4), learner).final
    assert (row["reward"], row["bound"]) == (by_hand.response_reward, by_hand.bound)
    limits = [row[f"allowance{name}"] for name in ("", ".preference 0", ".preference 1")]
    assert limits == [None, None, 0.2], "as in Python, a preference that is not named has no limit"


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


def test_curves_of_rows_that_all_failed_are_refused_in_a_sentence(found):
    none = tl.Sweep(tuple(dict(row, failed="no policy") for row in found.rows))
    assert none.curves() == []
    with pytest.raises(tl.InvalidInput, match="no row has a result, so there are no curves to draw"):
        none.curve_picture()


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
        mixed = tuple(row | {"replicate": place} for place, row in zip((0, "north"), found.rows, strict=False))
        tl.Sweep(mixed).to_file(path)
        assert pyarrow.parquet.read_table(path)["replicate"].to_pylist() == ["0", "north"]
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
    text = printed(*command, "--rows", str(rows), "--picture", str(picture), code=3)
    assert "Agnostic" in text and "C_r 5" in text
    assert rows.exists() and picture.with_suffix(".png").exists() and picture.with_suffix(".svg").exists()
    data = shown(*command, code=3)
    assert len(data["rows"]) == len(found.rows) and data["files"] == []


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_script_sees_by_the_exit_code_that_rows_failed(form, folder, tmp_path):
    """All rows are there, and the last lines say why; 0 would be read as success."""
    plan = f"""
        [[domain]]
        file = "{folder / "first.npz"}"
        weights = [1, 0]
        [[learner]]
        model = "hard"
        allowance = [1e6, 0]
        [[teacher]]
        name = "aware_cmdp"
    """
    (tmp_path / "some.toml").write_text(plan)
    command = ["sweep", str(tmp_path / "some.toml"), "--out", str(tmp_path), "--jobs", "1", *form]
    ran = CliRunner().invoke(make_app(), command)
    assert ran.exit_code == 3 and "first" in ran.stdout
    assert form or "1 row failed, first, hard, aware_cmdp: no policy" in " ".join(ran.output.split())
    (tmp_path / "some.toml").write_text(plan.replace("[1e6, 0]", "1e6"))
    assert CliRunner().invoke(make_app(), command).exit_code == 0


def test_the_picture_has_one_point_for_each_mean(found):
    panels, known = found.picture().axes, [mean for mean in found.means() if mean.n]
    assert len(panels) == 3 and sum(len(axes.containers) for axes in panels) == len(known)


def test_a_row_has_flat_columns_for_each_preference_and_what_was_shown(found):
    """Counts and allowances can be compared column by column; three demonstrations are shown in one round."""
    for row in (row for row in found.rows if not row["failed"]):
        names = [name.removeprefix("count.") for name in row if name.startswith("count.") and row[name] is not None]
        assert len(names) == (6 if row["domain"] == "text:0:4" else 2)
        assert {row[f"allowance.{name}"] for name in names} == {row["allowance"]}
        assert (row["n_demonstrations"], row["n_rounds"]) == ((3, 1) if row["n_sampled"] else (None, 1))
        assert row["n_steps"] is None or row["n_steps"] > 3
    sampled = tuple(row for row in found.rows if row["n_sampled"])
    assert {curve.budgets for curve in tl.Sweep(sampled).curves(by="n_demonstrations")} == {(3.0,)}


def test_domains_are_grouped_and_two_of_one_replicate_are_one_case(folder):
    entries = [
        {"file": str(folder / f"{name}.npz"), "weights": [1, 0], "group": "mine"} for name in ("first", "second")
    ]
    plan = GOOD | {"domain": entries, "learner": [{"model": "standard"}]}
    (mean,) = tl.sweep(plan, out=folder / "out").means()
    assert (mean.domain, mean.n) == ("mine", 2)
    same = [entry | {"replicate": 0, "name": "x"} for entry in entries]
    both = tl.sweep(plan | {"domain": same}, out=folder / "out")
    (same_case,) = both.means()
    assert (same_case.n, same_case.reward) == (1, pytest.approx(mean.reward)), "the mean of a case is over its domains"


def test_what_is_no_toml_is_refused_by_name(tmp_path):
    (tmp_path / "plan.toml").write_text("seeds = [")
    with pytest.raises(tl.InvalidInput, match=r"plan\.toml is not a TOML file"):
        tl.sweep(tmp_path / "plan.toml", out=tmp_path)


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


def test_a_mean_over_fewer_seeds_says_so(found):
    failing = [dict(row, failed="no policy") if row["seed"] == 1 and row["teacher"] == "agnostic" else row
               for row in found.rows]  # fmt: skip
    sweep = tl.Sweep(tuple(failing))
    _, header, body = tables_of(sweep.means())[0]
    assert all("1 failed" in row[header.index("Agnostic")] for row in body)
    assert {text.get_text().strip() for text in sweep.picture().axes[0].texts} >= {"1 failed"}
