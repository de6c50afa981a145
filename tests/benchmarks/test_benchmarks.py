"""Benchmarks: what a figure means, that a wrong answer ends the run, and that a missing rival is reported."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from strategies import some_of
from typer.testing import CliRunner

import tutelage as tl
from benchmarks import (
    __main__ as command,
)
from benchmarks import (
    kernels,
    learners,
    measure,
    peers,
    report,
    scale,
    tasks,
    teachers,
    traffic,
    unknown,
)
from benchmarks.measure import Figure, Step, WrongAnswer
from benchmarks.problems import problem


def clock(monkeypatch, *durations):
    """Replace the clock: the timed calls take these durations, in order."""
    ticks = [0.0, *np.cumsum([part for each in durations for part in (each, 0.0)])]
    times = iter(ticks)
    monkeypatch.setattr(measure.time, "perf_counter", lambda: next(times))


def test_a_ratio_is_the_median_of_alternating_pairs_with_the_least_and_the_greatest(monkeypatch):
    clock(monkeypatch, 1.0, 10.0, 2.0, 80.0, 1.0, 20.0)
    order = []
    met = measure.duel(lambda: order.append("ours") or "a", lambda: order.append("theirs") or "b", 3)
    assert order == ["ours", "theirs"] * 3 and (met.ours, met.theirs) == ("a", "b")
    row = measure.compared("task", 10, "rival", met.times)
    assert (row.ratio, row.spread, row.ours, row.theirs) == (20.0, (10.0, 40.0), 1.0, 20.0)
    assert row.at_least(20).holds and not row.at_least(21).holds and row.at_least(21).must_hold == ">= 21"
    assert row.at_least(None) == row


def test_what_must_hold_is_asked_of_the_ratio_or_the_value_or_the_seconds():
    assert Figure("memory", 10, value=2.0, unit="GiB").below(2.0).holds is False
    assert Figure("memory", 10, value=2.0, unit="GiB").at_most(2.0).must_hold == "<= 2 GiB"
    assert (
        Figure("time", 10, ours=2.9).below(3.0).holds and Figure("time", 10, ours=2.9).below(3.0).must_hold == "< 3 s"
    )
    assert Figure("missing", 10).at_least(10.0).holds


def test_the_fastest_of_some_calls(monkeypatch):
    clock(monkeypatch, 3.0, 1.0, 2.0)
    assert measure.fastest(lambda: None) == 1.0


@pytest.mark.parametrize("power", [1.0, 1.35, 2.0])
def test_the_exponent_of_synthetic_times_is_found(power):
    states = np.array([1e4, 4e4, 9e4, 1e6])
    assert measure.exponent(states, 3e-7 * states**power) == pytest.approx(power, abs=1e-12)


def test_bytes_of_a_sweep_by_hand():
    """Two states, three choices, four entries: 8 + 4 bytes each, row starts 4 x 4, first choices 3 x 4, doubles."""
    mdp = tl.MDP.from_choices([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]], [0, 2, 3], [1.0, 0.0], 0.9)
    hard = 4 * (8 + 4) + 4 * 4 + 3 * 4 + 3 * 8 + 2 * 2 * 8
    assert traffic.swept_bytes(mdp, with_policy=False) == hard
    assert traffic.swept_bytes(mdp, with_policy=True) == hard + 3 * 8


def test_a_wrong_value_fails_the_bench(monkeypatch):
    right = kernels.solve_soft

    def wrong(mdp, reward, *, accuracy):
        found = right(mdp, reward, accuracy=accuracy)
        object.__setattr__(found, "value", found.value + 1e-6)
        return found

    monkeypatch.setattr(kernels, "solve_soft", wrong)
    with pytest.raises(WrongAnswer, match="a timed answer is wrong: the soft value has the residual"):
        list(kernels.soft(10, 1.0))


def test_a_wrong_policy_fails_the_bench():
    """The uniform policy in place of the best: its value is not the certified bound."""
    asked = problem(10, "L5")
    found = tl.best_policy(asked.domain, asked.weights, asked.limits)
    teachers.check_aware(asked, found)
    object.__setattr__(found, "policy", tl.uniform_policy(asked.domain.mdp))
    with pytest.raises(WrongAnswer, match="a constrained policy"):
        tasks.check_constrained(asked, found, True)


def test_a_loose_certificate_fails_the_bench():
    asked = problem(10, "L3")
    response = learners.soft_learner(asked).respond(asked.best_lesson())
    learners.check_response(response)
    object.__setattr__(response.certificate, "residual", 1e-3)
    with pytest.raises(WrongAnswer, match=r"residual 0\.001"):
        learners.check_response(response)


def test_rivals_agree_in_a_small_world(monkeypatch):
    """Each of these has compared its timed answers with the rival's, or it would have raised."""
    monkeypatch.setattr(learners, "LEARNERS", ("L2",))
    monkeypatch.setattr(teachers, "LEARNERS", ("L2",))
    rows = [*kernels.soft(10, 1.0), *learners.projected(10, 1), *teachers.aware_cmdp(10, 1), *teachers.gradient(6, 1)]
    rows += [*learners.against_published(6, 1), *learners.against_cones(6)]
    assert [row.rival for row in rows[:2]] == ["SciPy value iteration", "SciPy value iteration, plain"]
    assert all(row.ratio > 0 and row.spread[0] <= row.ratio <= row.spread[1] for row in rows)


def test_the_exact_plan_is_compared_with_the_printed_one():
    (row,) = teachers.multi_start(6, teachers.cases(large=False)[:1])
    assert row.holds and row.must_hold == "less in none" and row.note.startswith("of 1 problems it achieves more in")
    assert len(teachers.cases(large=True)) == 300
    assert teachers.against_print({(5, 10, "L1"): [8.0] * 10, (5, 10, "L2"): [1.0] * 10}).endswith("in 1 of 2 cells")
    assert teachers.against_print({(5, 10, "L1"): [8.0]}) == ""


def test_compiled_sweeps_are_a_share_of_the_copy(monkeypatch):
    monkeypatch.setattr(traffic, "COPIED", 2**16)
    soft, hard = traffic.sweeps(30, 3)
    assert soft.what == "compiled soft sweep" and hard.what == "compiled hard sweep"
    assert soft.value > 0 and soft.must_hold == ">= 0.3 of copy bandwidth" and "a copy moves" in soft.note


def test_importing_has_no_grid(monkeypatch):
    monkeypatch.setattr(kernels.subprocess, "run", lambda command, check: None)
    (row,) = kernels.importing(1)
    assert row.must_hold == ">= 2" and row.grid == ""
    (missed,) = report.misses([Figure(row.what, 0, ratio=1.5).at_least(2.0)])
    assert missed == "import tutelage: 1.5 times, but must be >= 2"


def test_without_cvxpy_the_row_says_so(monkeypatch):
    monkeypatch.setattr(learners, "has_cvxpy", lambda: False)
    (row,) = learners.against_cones(10)
    assert row.ratio is None and row.holds and "CVXPY is not installed" in row.note


def test_without_the_peers_the_row_says_so(tmp_path):
    (row,) = learners.against_imitation(6, tmp_path, 1)
    assert row.ratio is None and row.holds and row.note == "imitation is not installed; `make peers` installs it"


def fake_python(folder: Path, body: str) -> Path:
    """An environment whose Python is a shell script."""
    path = folder / "bin" / "python"
    path.parent.mkdir()
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("body", "note"),
    [("exit 3", peers.MISSING), ("echo 'ImportError: torch' >&2; exit 1", "imitation failed: ImportError: torch")],
)
def test_a_peer_that_fails_is_a_note_and_no_failure(tmp_path, body, note):
    (row,) = learners.against_imitation(6, fake_python(tmp_path, body), 1)
    assert row.ratio is None and row.holds and row.note == note


def test_a_peer_is_judged_on_the_same_truncation(monkeypatch):
    """A peer that acts at random, in a hundred seconds."""

    def train(python, domain, visits, effort):
        policy = np.broadcast_to(tl.uniform_policy(domain.mdp), (effort.horizon, domain.mdp.n_choices))
        return peers.Trained(policy, 100.0, 7)

    monkeypatch.setattr(peers, "train_imitation", train)
    monkeypatch.setattr(peers, "peer_python", lambda folder: Path("python"))
    (row,) = learners.against_imitation(6, None, 1)
    assert (
        row.ratio == pytest.approx(100 / row.ours) and row.must_hold == ">= 200" and row.note.endswith("after 7 steps")
    )


def test_visits_of_a_long_truncation_are_the_occupancy():
    mdp = problem(6, "L1").domain.mdp
    policy = tl.uniform_policy(mdp)
    long = peers.truncated_visits(mdp, np.broadcast_to(policy, (3000, mdp.n_choices)))
    assert np.add.reduceat(tl.occupancy(mdp, policy), mdp.first_choice[:-1]) == pytest.approx(long, abs=1e-9)


def test_the_game_that_ends_has_the_same_soft_policy():
    """Planned without a discount over a long horizon, as the peer plans, it is the discounted soft policy."""
    asked = problem(6, "L1")
    transition, reward = peers.ending(asked.domain.mdp), np.append(asked.reward, 0.0)[:, None]
    assert np.allclose(transition.sum(axis=2), 1)
    value = np.zeros(len(transition))
    for _ in range(2500):
        choice_value = reward + transition @ value
        highest = choice_value.max()
        value = np.log(np.exp(choice_value - highest).sum(axis=1)) + highest
    policy = np.exp(choice_value - value[:, None])[:-1].ravel()
    assert policy == pytest.approx(tl.solve_soft(asked.domain.mdp, asked.reward).policy, abs=1e-7)


@pytest.mark.parametrize("name", list(tasks.TASKS))
def test_every_growing_task_passes_its_checks(name, monkeypatch):
    monkeypatch.setattr(scale, "WARM_SIZES", ())
    monkeypatch.setattr(tasks, "MAX_ROUNDS", 2)
    sample = scale.measure(name, 10, 1)
    assert len(sample.seconds) == 1 and sample.seconds[0] > 0


def test_the_limits_of_a_binding_task_bind_at_every_size():
    """The note says how many bind. The larger the world, the smaller the allowance must be."""
    sample = scale.measure(tasks.BINDING_AWARE, 30, 1)
    assert not sample.note.startswith("0 of 6 limits bind")
    far = problem(150, "L5")
    assert far.binding().allowance < far.allowance


@pytest.mark.parametrize("size", some_of([500], []))
def test_in_large_worlds_the_allowance_of_the_paper_does_not_bind(size):
    far = problem(size, "L5")
    assert tl.best_policy(far.domain, far.weights, far.limits).multipliers.max() < 1e-9
    assert far.binding().allowance < far.allowance


def test_growth_is_timed_fitted_and_where_apart_weighed(monkeypatch):
    """With samples made up: time grows as states^1.5, which is too fast, and memory is one GiB."""
    monkeypatch.setattr(scale, "measure", lambda name, size, repeats: scale.Sample([(size**2 + 1) ** 1.5 * 1e-7], 0.0))
    monkeypatch.setattr(
        scale, "measure_apart", lambda name, size, _: scale.Sample([(size**2 + 1) ** 1.5 * 1e-7], 2**30)
    )
    rows = list(scale.growth(tasks.SOFT, scale.SIZES))
    assert [row.size for row in rows] == [100, 200, 300, 500, 1000, 1000, 1000]
    assert rows[-2].value == 1.0 and rows[-2].must_hold == "< 2 GiB" and rows[-2].holds
    assert rows[-1].value == pytest.approx(1.5) and not rows[-1].holds and "states^1.50" in rows[-1].note
    (missed,) = report.misses(rows)
    assert missed == "soft solution: growth exponent at 1000x1000: 1.5, but must be <= 1.35"
    assert list(report.curves(rows)) == [tasks.SOFT] and len(report.draw_growth(rows).axes[0].lines) == 1


def test_quick_growth_stops_at_300():
    assert len(scale.steps(quick=True)) == len(scale.steps(quick=False)) - 1
    assert next(step.run.args for step in scale.steps(quick=True))[1] == [100, 200, 300]


def test_a_process_of_its_own_reports_a_wrong_answer(monkeypatch):
    monkeypatch.setattr(scale.sys, "executable", "false")
    with pytest.raises(WrongAnswer, match="soft solution at 10x10: no reason given"):
        scale.measure_apart(tasks.SOFT, 10, 1)


def test_unknown_learners_are_taught_and_their_rounds_timed(monkeypatch):
    """The mean is judged, and the longest round without its plans; a learner below the agnostic lesson ends the run."""
    found = unknown.taught("exact", *unknown.soft_learner(1, "L2"))
    assert found.ratio >= 0.999 and found.n_rounds >= 1 and found.longest > 0
    made = iter([unknown.Taught(1.0, 0.5, 3, 0.2), unknown.Taught(0.9, 0.5, 4, 1.2)] * 2)
    monkeypatch.setattr(unknown, "soft_learner", lambda seed, name: (None, None))
    monkeypatch.setattr(unknown, "taught", lambda way, learner, weights: next(made))
    mean, least, longest = unknown.unknown("mu_r alone", [0])
    assert mean.value == pytest.approx(95) and not mean.holds and least.value == pytest.approx(90)
    assert longest.ours == 1.2 and not longest.holds and "4 rounds" in mean.note
    monkeypatch.setattr(unknown, "taught", lambda way, learner, weights: unknown.Taught(0.4, 0.5, 3, 0.2))
    with pytest.raises(WrongAnswer, match="below the agnostic lesson"):
        list(unknown.unknown("exact", [0]))
    assert len(unknown.steps(large=False)) == 3


def made_up(*rows: Figure):
    return lambda name, **_: [Step("made up", partial(list, rows))]


GOOD = Figure("task", 10, "rival", 0.5, 10.0, 20.0, (19.0, 21.0)).at_least(10)
BAD = Figure("other", 10, value=3.0, unit="GiB").below(2)
ABSENT = measure.missing("third", 10, "imitation", "imitation is not installed")


def test_the_command_prints_one_object(monkeypatch, tmp_path):
    monkeypatch.setattr(command, "steps_of", made_up(GOOD, ABSENT))
    result = CliRunner().invoke(command.app, ["kernels", "--json", "--out", str(tmp_path)])
    assert result.exit_code == 0
    found, end = json.JSONDecoder().raw_decode(result.stdout)
    assert result.stdout[end:] == "\n" and found["benchmark"] == "kernels" and found["holds"] is True
    first, second = found["rows"]
    assert first["ratio"] == 20.0 and first["spread"] == [19.0, 21.0] and first["must_hold"] == ">= 10"
    assert second["ratio"] is None and second["note"] == "imitation is not installed"
    assert found["files"] == [str(tmp_path / "bench_kernels.json"), str(tmp_path / "bench_kernels.md")]
    assert json.loads((tmp_path / "bench_kernels.json").read_text())["rows"] == found["rows"]
    assert "| task | 10x10 | rival | 500 ms | 10 s | 20.0 times |" in (tmp_path / "bench_kernels.md").read_text()


def test_a_figure_that_misses_is_shown_and_fails(monkeypatch, tmp_path):
    timed = [Figure(tasks.SOFT, size, ours=size / 100) for size in (100, 200)]
    monkeypatch.setattr(command, "steps_of", made_up(GOOD, BAD, *timed))
    result = CliRunner().invoke(command.app, ["scale", "--out", str(tmp_path)])
    assert result.exit_code == 1 and "FAILS" in result.stdout
    assert "other at 10x10: 3 GiB, but must be < 2 GiB" in " ".join(result.stderr.split())
    assert {path.name for path in tmp_path.iterdir()} == {
        f"bench_scale.{kind}" for kind in ("json", "md", "png", "svg")
    }


def test_a_wrong_answer_is_a_sentence_and_exit_code_1(monkeypatch):
    def wrong():
        measure.check(False, "the soft value has the residual 0.1")

    monkeypatch.setattr(command, "steps_of", lambda name, **_: [Step("wrong", wrong)])
    result = CliRunner().invoke(command.app, ["kernels", "--json"])
    assert result.exit_code == 1 and result.stdout == ""
    assert "a timed answer is wrong: the soft value has the residual 0.1" in " ".join(result.stderr.split())


def test_an_unknown_suite_is_refused():
    result = CliRunner().invoke(command.app, ["wings"])
    assert result.exit_code == 2 and "wings" in result.stderr


def test_suites_have_the_options_that_they_know():
    names = ("kernels", "learners", "teachers", "scale")
    small = {name: len(command.steps_of(name, large=False, quick=True, peers=None)) for name in names}
    large = {name: len(command.steps_of(name, large=True, quick=False, peers=None)) for name in names}
    assert all(small[name] <= large[name] for name in names) and large["kernels"] == small["kernels"] + 1
