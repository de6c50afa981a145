"""What to show: routes with their probabilities, or selected trajectories, near the lesson and as far as stated."""

import json
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pandas
import pytest
from numpy.testing import assert_allclose
from strategies import random_deterministic_policy, random_domain, random_policy

import tutelage as tl
from tutelage.data.showing import turn_lines


def ladder(n=6):
    """A road that forks n times into a short and a long way, then ends: 2^n routes."""

    def outcomes(state, action):
        return [(1.0, state + 1)]

    return tl.explore(
        0,
        lambda state: ["short", "long"] if state < n else [],
        outcomes,
        discount=0.9,
        reward=lambda state, action: {"steps": 1, "long": action == "long"},
        preference=lambda state, action: {"early": state == 0 and action == "long"},
    )


def test_a_policy_that_mixes_a_few_routes_is_shown_as_these_with_their_probabilities():
    domain = ladder(6)
    policy = np.append(np.tile([1.0, 0.0], 6), 1.0)
    policy[:2], policy[4:6] = (0.25, 0.75), (0.5, 0.5)
    shown = tl.Lesson.from_policy(domain, policy).show(5, true_weights=[-1.0, -2.0])
    assert shown.is_whole and shown.distance < 1e-12
    assert sorted(item.share for item in shown) == pytest.approx([0.125, 0.125, 0.375, 0.375])
    for item in shown:
        actions = [action for _, action in item.steps]
        long = sum(0.9**t for t, action in enumerate(actions) if action == "long")
        assert item.features["long"] == pytest.approx(long) and item.features["steps"] == pytest.approx(4.68559)
        assert item.features["early"] == float(actions[0] == "long") and actions[-1] == "stay"
        assert item.reward == pytest.approx(-4.68559 - 2 * long)
        assert item.share == pytest.approx((0.75 if actions[0] == "long" else 0.25) * 0.5)


@pytest.mark.parametrize("seed", range(20))
def test_the_mean_is_as_far_from_the_lesson_as_stated(seed):
    """On ragged random domains, with mixed and with deterministic policies, also where routes are selected."""
    rng = np.random.default_rng(seed)
    domain = random_domain(rng)
    domain = replace(domain, mdp=replace(domain.mdp, discount=np.minimum(domain.mdp.discount, 0.95)))
    for policy in (random_policy(rng, domain.mdp), random_deterministic_policy(rng, domain.mdp)):
        lesson = tl.Lesson.from_policy(domain, policy)
        shown = lesson.show(4)
        counted = [tl.empirical_expectation(domain, shown.demonstrations[i : i + 1]) for i in range(len(shown))]
        mean = sum(item.share * one.reward for item, one in zip(shown, counted, strict=True))
        assert_allclose(mean, shown.expectation, rtol=1e-9, atol=1e-12)
        assert np.linalg.norm(mean - lesson.expectation) == pytest.approx(shown.distance, rel=1e-6, abs=1e-12)
        assert sum(item.share for item in shown) == pytest.approx(1)
        assert all(item.reward is None for item in shown)
        shown.demonstrations.checked_against(domain.mdp)


@pytest.mark.parametrize("seed", range(10))
def test_every_route_of_a_deterministic_world_is_found(seed):
    """The probability of each route is the product of those of its choices; all sum to one."""
    rng = np.random.default_rng(seed)
    domain = ladder(4)
    weights = np.where(np.arange(domain.mdp.n_choices) < 8, rng.random(domain.mdp.n_choices), 1.0)
    policy = weights / np.repeat(np.add.reduceat(weights, domain.mdp.first_choice[:-1]), domain.mdp.choices_per_state)
    shown = tl.Lesson.from_policy(domain, policy).show(16)
    assert shown.is_whole and len(shown) == 16 and len({item.steps for item in shown}) == 16
    for item, trajectory in zip(shown, shown.demonstrations, strict=True):
        assert item.share == pytest.approx(np.prod(policy[trajectory.choices]))
    assert [item.share for item in shown] == sorted((item.share for item in shown), reverse=True)
    assert shown.distance < 1e-9 and "their mean equals the lesson." in shown.text()
    assert not tl.Lesson.from_policy(domain, policy).show(15).is_whole


def test_equal_trajectories_are_shown_once_with_their_share():
    domain = ladder(1)
    recorded = tl.Demonstrations.from_sequences(domain.mdp, [[0, 1]] * 3, [[0], [0], [1]])
    shown = tl.Lesson.from_demonstrations(domain, recorded).show(3)
    assert sorted(item.share for item in shown) == pytest.approx([1 / 3, 2 / 3]) and not shown.is_whole
    with pytest.raises(tl.InvalidInput, match="has only 3 demonstrations"):
        tl.Lesson.from_demonstrations(domain, recorded).show(4)


def test_a_lesson_with_an_expectation_only_needs_the_domain():
    domain = ladder(3)
    lesson = tl.Lesson.from_expectation([2.71, 0.5])
    with pytest.raises(tl.InvalidInput, match="does not know its domain"):
        lesson.show(3)
    shown = lesson.show(8, domain=domain)
    assert shown.distance == pytest.approx(np.linalg.norm(shown.expectation - [2.71, 0.5]))
    with pytest.raises(tl.InvalidInput, match="true_weights has 3 entries"):
        lesson.show(3, domain=domain, true_weights=[1, 2, 3])
    with pytest.raises(tl.InvalidInput, match="at least 1"):
        lesson.show(0, domain=domain)


def test_an_endless_route_ends_where_the_rest_hardly_counts():
    domain = tl.explore(0, lambda s: ["on"], lambda s, a: [(1, 1 - s)], discount=0.9, reward=lambda s, a: s)
    shown = tl.Lesson.from_policy(domain, [1.0, 1.0]).show(2)
    assert shown.is_whole and len(shown) == 1 and shown.distance <= 1e-3


def test_what_is_shown_survives_json_and_a_frame(tmp_path):
    domain = ladder(3)
    shown = tl.Lesson.from_policy(domain, np.append([0.5] * 6, 1.0)).show(8, true_weights=[1, 0])
    path = tmp_path / "shown.jsonl"
    path.write_text("".join(json.dumps(item.as_data()) + "\n" for item in shown))
    again = tl.load_demonstrations(path, domain)
    assert again.states.tolist() == shown.demonstrations.states.tolist()
    assert again.choices.tolist() == shown.demonstrations.choices.tolist()
    frame = pandas.DataFrame(shown.to_frame())
    assert list(frame.columns) == ["episode", "step", "state", "action", "share"]
    assert frame.groupby("episode").share.first().sum() == pytest.approx(1)
    assert pandas.read_json(path, lines=True).share.sum() == pytest.approx(1)


def test_a_lesson_of_a_transcript_can_be_shown_after_a_file(tmp_path):
    world = tl.object_world(size=6, seed=1)
    domain = world.domain("L2")
    learner = tl.HardLearner(domain, violation_allowance=2.5)
    transcript = tl.teach(tl.AwareCmdpTeacher(domain, world.true_weights, learner), learner)
    tl.save_transcript(transcript, tmp_path / "rounds.npz")
    again = tl.load_transcript(tmp_path / "rounds.npz", domain)
    before, after = (one.final.lesson.show(6) for one in (transcript, again))
    assert [item.steps for item in before] == [item.steps for item in after]
    assert before[0].steps[0][0] == domain.state_name(world.start)


def test_steps_along_one_street_are_one_turn():
    steps = (("a", "up"), ("b", "up"), ("c", "left"), ("d", None))
    assert turn_lines(steps) == ["a -[up x2 via b]-> c", "c -[left]-> d"]
    assert turn_lines(steps, full=True) == ["a -[up]-> b", "b -[up]-> c", "c -[left]-> d"]
    streets = ((1, "Elm to 2"), (2, "Elm"), (3, (4, 0)), (4, 5), (5, "stay"))
    lines = ["1 -[Elm x2 via 2, 0.75 km]-> 3", "3 -[go x2 via 4, 0.5 km]-> 5"]
    assert turn_lines(streets, (0.5, 0.25, 0.4, 0.1, 0.0), "km") == lines
    long = turn_lines(tuple((i, f"to {i}") for i in range(40)))
    assert len(long) == 13 and long[-2] == "... 27 more turns ..." and long[-1] == "38 -[to 38]-> 39"
    assert turn_lines((("a", "wait"),)) == ["a (wait)"]


def two_ways(discount=0.99):
    """A way of 1 km over a main road of 0.6 km, and one of 2 km without."""
    import networkx

    graph = networkx.DiGraph()
    for name, x, y in (("home", 0.0, 50.0), ("road", 0.01, 50.0), ("lane", 0.01, 50.01), ("work", 0.02, 50.0)):
        graph.add_node(name, x=x, y=y)
    graph.add_edge("home", "road", km=0.6, main_km=0.6)
    graph.add_edge("road", "work", km=0.4, main_km=0.0)
    graph.add_edge("home", "lane", km=1.0, main_km=0.0)
    graph.add_edge("lane", "work", km=1.0, main_km=0.0)
    graph.add_edge("lane", "home", km=1.0, main_km=0.0)
    options = {"reward_attributes": ["km"], "preference_attributes": ["main_km"], "discount": discount}
    return tl.from_graph(graph, start="home", goals=["work"], duration="km", **options)


def test_demonstrations_that_keep_the_limits_come_first_and_an_average_is_warned_of():
    """A limit of 0.2 km is kept by mixing 0 km with 0.6 km, which the driver would refuse."""
    domain = two_ways()
    learner = tl.HardLearner(domain, {"main_km": 0.2})
    lesson = tl.AwareCmdpTeacher(domain, [-1.0, 0.0], learner).open().lesson
    shown = lesson.show(5, learner=learner)
    assert [item.exceeds for item in shown] == [(), ("main_km",)] and shown.is_whole
    assert_allclose(shown.shares, [2 / 3, 1 / 3], atol=1e-6)
    assert all(item.arrives for item in shown)
    assert len(shown.warnings) == 1 and "main_km is kept on average only: 33%" in shown.warnings[0]
    assert "Warning: main_km" in str(shown) and "home -[go x2 via lane, 2 km]-> work" in str(shown)
    only = lesson.show(1, learner=learner)
    assert only[0].exceeds == () and not only.warnings
    budgeted = tl.with_budget(domain, {"main_km": 0.2})
    kept = tl.AwareCmdpTeacher(budgeted, [-1.0, 0.0], tl.HardLearner(budgeted, {})).open().lesson
    assert not kept.show(5, learner=learner).warnings


def test_a_lesson_that_dithers_or_does_not_arrive_is_warned_of():
    domain = two_ways()
    back = np.zeros(domain.mdp.n_choices)
    for state, action in (("home", "lane"), ("road", "work"), ("lane", "home"), ("work", "stay")):
        back[domain.choice(state, action)] = 1.0
    said = tl.Lesson.from_policy(domain, back).show(1).warnings
    assert "the lesson never arrives" in said[0] and "back and forth: it visits" in said[1]
    assert all("use discount 1 or durations (--duration)" in sentence for sentence in said)


@pytest.mark.parametrize("seed", range(5))
def test_a_numbered_action_is_never_taken_for_the_name_of_the_next_state(seed):
    """State 1 after action 1 was printed as "go", and the same action elsewhere as "1"."""
    domain = random_domain(np.random.default_rng(seed))
    shown = tl.Lesson.from_policy(domain, tl.uniform_policy(domain.mdp)).show(5, rng=seed)
    for item in shown:
        turns = [line for line in item.text(full=True).splitlines() if "-[" in line]
        actions = [action for _, action in item.steps[:-1]]
        assert [line.partition("-[")[2].partition("]")[0] for line in turns] == list(map(str, actions))


def test_routes_are_lines_of_geojson_and_tracks_of_gpx():
    domain = two_ways()
    shown = tl.Lesson.from_policy(domain, tl.solve_hard(domain.mdp, -domain.reward_features[:, 0]).policy).show(2)
    line = json.loads(shown.to_geojson())["features"][0]
    assert line["geometry"]["coordinates"] == [[0.0, 50.0], [0.01, 50.0], [0.02, 50.0]]
    assert line["properties"]["share"] == 1.0
    track = ElementTree.fromstring(shown.to_gpx())
    points = [(float(p.get("lon")), float(p.get("lat"))) for p in track.iter() if p.tag.endswith("trkpt")]
    assert points == [(0.0, 50.0), (0.01, 50.0), (0.02, 50.0)]
    far = replace(domain, positions=domain.positions * 1000)
    with pytest.raises(tl.InvalidInput, match="longitudes and latitudes"):
        tl.Lesson.from_policy(far, tl.uniform_policy(far.mdp)).show(1).to_gpx()
    with pytest.raises(tl.InvalidInput, match="no positions"):
        tl.Lesson.from_policy(replace(domain, positions=None), tl.uniform_policy(domain.mdp)).show(1).to_geojson()


@pytest.mark.parametrize("cls", [tl.Shown, tl.ShownDemonstration])
def test_the_public_names_are_those_of_the_results(cls):
    shown = tl.Lesson.from_policy(ladder(1), [1.0, 0.0, 1.0]).show(1)
    assert isinstance(shown, cls) or isinstance(shown[0], cls)
    assert "What to show: 1 demonstration, every route" in str(shown) and "0 -[short]-> 1" in str(shown)


def test_what_is_left_of_a_budget_is_said_at_the_start_and_where_it_changes():
    """At corners where nothing was used, the same rest is not repeated."""
    rests = ("0.3 km left", "0.3 km left", "0.1 km left", "0.1 km left")
    steps = tuple((f"{name}, {rest}", street) for name, rest, street in zip("abcd", rests, "xyz-", strict=True))
    assert turn_lines(steps) == ["a, 0.3 km left -[x]-> b", "b -[y]-> c, 0.1 km left", "c -[z]-> d"]
