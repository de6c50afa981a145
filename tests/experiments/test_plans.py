"""Plans of sweeps: every name is checked, each file is read once, and no run disturbs another."""

from pathlib import Path

import numpy as np
import pytest
from experiments.tasks import GOOD
from numpy.testing import assert_array_equal

import tutelage as tl
from tutelage.experiments import plans
from tutelage.experiments.plans import read_plan
from tutelage.experiments.run import compute_row


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"domian": []}, "a plan has no entry 'domian'; did you mean 'domain'"),
        ({"domain": []}, r"has no \[\[domain\]\]"),
        ({"domain": [{"weights": [1]}]}, "needs either file"),
        ({"domain": [{"world": "published:0"}]}, "names no world"),
        ({"learner": [{"model": "sotf"}]}, "no learner model 'sotf'; did you mean 'soft'"),
        ({"learner": [{"preferences": "green"}]}, "no preference 'green'"),
        ({"learner": [{"preferences": "L2", "allowance": {"yellow": 1}}]}, "text:0:4 has no preference 'yellow'"),
        ({"learner": [{"penalty": 3}]}, r"\[\[learner\]\] has no entry 'penalty'"),
        ({"teacher": [{"name": "agnostik"}]}, "did you mean 'agnostic'"),
        ({"teacher": [{"max_rounds": 2}]}, "there is no teacher ''"),
        ({"teacher": [{"name": "bilevel", "cells": 3}]}, "'bilevel' has no option 'cells'"),
        ({"seeds": [0.5]}, "seeds must be a list of integers"),
        ({"seeds": 3}, "seeds must be a list of integers"),
        ({"time_limit": "soon"}, "time_limit must be a float, got 'soon'"),
        ({"domain": 3}, r"\[\[domain\]\] must be a table of names and values, got 3"),
        ({"domain": [{"domain": lambda seed: seed}]}, "domain must be a Domain, or a function of the seed"),
        ({"learner": [{"mismatch_penalty": "high"}]}, "mismatch_penalty must be a float, got 'high'"),
        ({"learner": [{"allowance": {"green within 0 cells": "few"}}]}, "green within 0 cells must be a float"),
        ({"learner": [{"allowance": "5%%"}]}, "an allowance must be a number such as 2.5 or 5%"),
        ({"learner": [{"allowance": {"green_within_0_cells": "200%"}}]}, "a share of 0% to 100%, got '200%'"),
        ({"teacher": [{"name": "agnostic", "max_rounds": "all"}]}, "max_rounds must be a int, got 'all'"),
    ],
)
def test_a_wrong_plan_is_refused_before_anything_is_computed(change, sentence, tmp_path):
    assert len(read_plan(GOOD, tmp_path)) == 1
    with pytest.raises(tl.TutelageError, match=sentence):
        read_plan(GOOD | change, tmp_path)


def test_a_plan_takes_names_and_shares_as_the_command_line_does(folder, tmp_path):
    """What `tutelage teach` takes was refused in a sweep."""
    domain = tl.load(folder / "first.npz")
    domain = domain.with_features(preference={"kind ward": np.arange(domain.mdp.n_states) == 1})
    weights = {name.replace(" ", "_"): 1 for name in domain.reward_names}
    given = {"domain": [{"domain": domain, "weights": weights}], "teacher": [{"name": "agnostic"}]}
    allowances = [{"kind_ward": "95%"}, {"kind ward": 0.95 * domain.mdp.steps}, "100%"]
    learner = {"model": "hard", "preferences": ["kind_ward", "all"], "allowance": allowances}
    tasks = read_plan(given | {"learner": [learner]}, tmp_path)
    assert {task.learner for task in tasks} == {"kind ward", "all"}
    by_share, by_count, _ = (task.model.make(task.world.ground("kind ward").domain, 0) for task in tasks[:3])
    assert_array_equal(by_share.constraints.allowance, by_count.constraints.allowance)
    rows = tl.sweep(given | {"learner": [learner]}, out=tmp_path).rows
    assert not any(row["failed"] for row in rows)
    assert rows[0]["allowance.kind ward"] == "95%" and "kind ward 95%" in rows[0]["learner"]
    assert rows[0]["reward"] == rows[1]["reward"]


@pytest.mark.parametrize("plan", [None, [], 3])
def test_what_is_no_plan_is_refused(plan, tmp_path):
    with pytest.raises(tl.InvalidInput, match="a plan must be a table of names and values"):
        read_plan(plan, tmp_path)


def test_weights_by_name_and_their_number(folder):
    entry = {"file": str(folder / "first.npz")}
    for weights, sentence in ((None, "needs the true weights"), ([1], "2 reward features need 2"), ({"x": 1}, "'x'")):
        with pytest.raises(tl.InvalidInput, match=sentence):
            read_plan(GOOD | {"domain": [entry | {"weights": weights}]}, folder)


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


def test_workers_in_another_folder_read_the_domains_of_a_relative_plan(folder, tmp_path, monkeypatch):
    """A Dask worker has a working directory of its own."""
    monkeypatch.chdir(folder)
    given = [{"file": "first.npz", "weights": [1, 0]}, {"domain": tl.load("second.npz"), "weights": [1, 0]}]
    tasks = read_plan(GOOD | {"domain": given, "learner": [{"model": "standard"}]}, Path("here"))
    monkeypatch.chdir(tmp_path)
    assert [compute_row(task).outcome["ended"] for task in tasks] == ["the teacher has only one lesson"] * 2
