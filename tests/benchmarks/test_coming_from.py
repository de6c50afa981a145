"""The models that are given to other packages, by values known in closed form; and packages that are missing."""

import pytest

import tutelage as tl
from benchmarks import coming_from


def test_the_walker_needs_five_steps_to_the_right_and_two_to_climb():
    """Four moves that succeed with 0.8 take 5; four climbs of 0.5 take 2. Without climbs, up takes 5 as well."""
    domain = coming_from.walker()
    assert tl.best_policy(domain, [-1.0], tl.no_limits(domain)).value == pytest.approx(-7.0, abs=1e-9)
    assert tl.best_policy(domain, [-1.0], tl.preference_limits(domain, 0.0)).value == pytest.approx(-10.0, abs=1e-9)


def test_the_grid_with_a_clock_ends_after_its_steps():
    mdp = coming_from.clocked().mdp
    assert mdp.horizon == pytest.approx(coming_from.STEPS)


def test_a_package_that_is_missing_is_named(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("TUTELAGE_PEERS", str(tmp_path))
    monkeypatch.setitem(coming_from.COMPARED, "no-such-package", coming_from.storm)
    coming_from.main(["no-such-package", "imitation"])
    printed = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in printed] == ["no-such-package", "imitation"]
    assert all("not compared" in line for line in printed)
