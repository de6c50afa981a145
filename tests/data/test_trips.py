"""Trips as they are recorded: junctions alone, actions by number, name or next state, and what is wrong with them."""

import json

import numpy as np
import pytest
from cities import city
from cli_support import shown
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

import tutelage as tl


def town():
    """Five places; two streets lead from home to the market, one of them a main road; work is the goal."""
    import networkx

    graph = networkx.MultiDiGraph()
    for start, end, km, main in (
        ("home", "market", 1.0, 0.0),
        ("home", "market", 0.7, 0.7),
        ("home", "park", 0.4, 0.0),
        ("park", "school", 0.5, 0.0),
        ("market", "work", 0.5, 0.5),
        ("school", "work", 0.6, 0.1),
        ("school", "park", 0.5, 0.0),
    ):
        graph.add_edge(start, end, km=km, main_km=main)
    options = {"reward_attributes": ["km"], "preference_attributes": ["main_km"]}
    return tl.from_graph(graph, start="home", goals=["work"], discount=0.95, **options)


def table(*rows, columns=("episode", "state", "action")):
    return {name: [row[i] for row in rows] for i, name in enumerate(columns)}


WAY = [("a", "home", "park"), ("a", "park", "school"), ("a", "school", "work"), ("a", "work", "stay")]


@pytest.mark.parametrize("jobs", [3, 300])
def test_junctions_alone_equal_trips_with_actions(tmp_path, jobs):
    """A log of positions has the same counts as the same log with every choice: 340,000 steps with jobs = 300."""
    graph = city(34, 0)
    nodes = list(graph.nodes)
    start = dict.fromkeys(nodes, 1 / len(nodes))
    options = {"reward_attributes": ["km"], "preference_attributes": {"highway": ["primary"]}, "measure": "km"}
    domain = tl.from_graph(graph, start=start, discount=0.99, **options)
    trips = tl.sample_demonstrations(domain, tl.uniform_policy(domain.mdp), jobs, rng=0)
    frame = trips.to_frame()
    lines = ["episode,state", *(f"{e},{s}" for e, s in zip(frame["episode"], frame["state"], strict=True))]
    (tmp_path / "trips.csv").write_text("\n".join(lines), encoding="utf-8")
    read = tl.load_demonstrations(tmp_path / "trips.csv", domain)
    assert_array_equal(read.states, trips.states)
    known = read.determined(domain.mdp)
    is_followed = trips.is_followed
    assert_array_equal(known.choices[is_followed], trips.choices[is_followed])
    # The last choice of a trip is not recorded by its positions.
    ends = tl.Demonstrations(trips.states, trips.offsets, np.where(is_followed, trips.choices, -1), domain.mdp)
    one, other = (tl.empirical_expectation(domain, trip) for trip in (read, ends))
    assert_allclose(one.reward, other.reward, rtol=1e-12)
    assert_allclose(one.preference_standard_error, other.preference_standard_error, rtol=1e-12)


@pytest.mark.parametrize("action", ["name", "number", "next state"])
def test_actions_are_numbers_names_or_next_states(action):
    domain = town().with_features(preference={"steps": lambda state, action: 1.0})
    streets = ["to the market", "main road", "path", "avenue", "lane", "back", "bridge", "rest"]
    order = np.argsort([str(domain.state_name(s)) for s in domain.mdp.state_of_choice], kind="stable")
    named = tl.Domain(
        domain.mdp, domain.reward_features, domain.preference_features, domain.reward_names, domain.preference_names,
        choice_names=[streets[i] for i in np.argsort(order)],
    )  # fmt: skip
    steps = {"name": [], "number": [], "next state": []}
    for state, after in (("home", "park"), ("park", "school"), ("school", "work")):
        s = named.state(state)
        first, end = named.mdp.first_choice[s : s + 2]
        choice = next(c for c in range(first, end) if named.mdp.transition.indices[c] == named.state(after))
        for kind, value in (("name", named.choice_name(choice)), ("number", choice - first), ("next state", after)):
            steps[kind].append(("a", state, value))
    frame = table(*steps[action], ("a", "work", None))
    read = tl.Demonstrations.from_frame(named, frame)
    assert [step[0] for step in read[0].steps] == ["home", "park", "school", "work"]
    assert_allclose(tl.empirical_expectation(named, read).preference[-1], 1 + 0.95 + 0.95**2 + 0.95**3 / 0.05)


BROKEN = {
    "an unknown place": ([*WAY[:1], ("a", "parc", "school")], "trip 'a', step 1.*no state 'parc'.*'park'"),
    "a missing place": ([*WAY[:2], ("a", "", "work"), WAY[3]], "trip 'a', step 2.*the state is missing"),
    "an unknown action": ([("a", "home", "pork")], "trip 'a', step 0.*'home'.*no action 'pork'.*'park'"),
    "an action of another place": ([("a", "home", "school")], "trip 'a', step 0.*'home'.*no action 'school'"),
    "a missing action": ([WAY[0], ("a", "park", None), *WAY[2:]], "trip 'a', step 1.*action is missing"),
    "a jump": ([("a", "home", "park"), ("a", "school", "work")], "trip 'a', step 0.*'home'.*never leads.*'school'"),
    "a place twice": ([("b", "park", "school"), ("b", "park", "school")], "trip 'b', step 0.*'park'.*'park'"),
    "several streets": ([("a", "home", "market"), ("a", "market", "work")], "trip 'a', step 0.*'home'.*no action"),
    "an unhashable place": ([("a", ["home"], "park")], "trip 'a', step 0.*not hashable"),
    "a number too large": ([("a", 17, None)], "trip 'a', step 0.*no state 17"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_recording_is_answered_by_a_sentence_with_trip_step_and_names(kind):
    rows, message = BROKEN[kind]
    with pytest.raises(tl.InvalidModel, match=message.replace("trip", "(episode|demonstration)")):
        tl.Demonstrations.from_frame(town(), table(*rows))


def test_junctions_that_do_not_tell_the_street_are_named_with_their_candidates():
    domain = town()
    states = ("episode", "state")
    read = tl.Demonstrations.from_frame(domain, table(("a", "home"), ("a", "market"), columns=states), action=None)
    message = r"demonstration 0, step 0, from .*'home'.* to .*'market'.*, may be \('market', 0\) or \('market', 1\)"
    with pytest.raises(tl.InvalidModel, match=message):
        tl.empirical_expectation(domain, read)
    with pytest.raises(tl.InvalidModel, match=r"no choice of .*'home'.* leads to .*'school'"):
        tl.Demonstrations.from_frame(domain, table(("a", "home"), ("a", "school"), columns=states), action=None)


def test_the_recorded_allowance_is_the_mean_with_student_s_error():
    """By hand: trips over the park have 0.1 after two steps, those over the market 0.7 and 0.5 after one step."""
    domain = town()
    park = 0.95**2 * 0.1
    trips = [["home", "park", "school", "work"]] * 3 + [["home", "market", "work"]]
    states = [[domain.state(name) for name in trip] for trip in trips]
    # The places by their order in the graph; the main road is the second street to the market.
    actions = [[2, 0, 0]] * 3 + [[1, 0]]
    log = tl.Demonstrations.from_sequences(domain.mdp, states, actions)
    counts = np.array([park] * 3 + [0.7 + 0.95 * 0.5])
    found = tl.allowance_from(log, domain, confidence=0.9)
    # Three equal counts and a larger one: Johnson's correction for skewed counts.
    t = stats.t.ppf(0.9, 3)
    error = counts.std(ddof=1) / 2 * (t + stats.skew(counts) * (1 + 2 * t**2) / 12)
    assert_allclose([found.mean["main_km"], found.error["main_km"]], [counts.mean(), error])
    assert_allclose(found["main_km"], counts.mean() + error)
    assert dict(tl.allowance_from(tl.Lesson.from_demonstrations(domain, log), confidence=0.9)) == dict(found)
    assert isinstance(found, tl.RecordedAllowance) and "main_km: 0.3614 +" in str(found)
    # A long tail to the other side makes the limit no smaller.
    mirrored = tl.allowance_from(tl.Demonstrations.from_sequences(domain.mdp, states[2:], actions[2:]), domain)
    assert mirrored.error["main_km"] == pytest.approx(stats.t.ppf(0.95, 1) * counts[2:].std(ddof=1) / np.sqrt(2))
    assert tl.HardLearner(domain, found).constraints.allowance == found["main_km"]
    alone = tl.allowance_from(log[:1], domain)
    assert alone["main_km"] == pytest.approx(park)
    assert np.isnan(alone.confidence) and "says nothing of others" in str(alone)
    with pytest.raises(tl.InvalidInput, match="their domain"):
        tl.allowance_from(log)


def test_recordings_to_limits_to_a_lesson_in_one_command(tmp_path):
    domain = town()
    tl.save(domain, tmp_path / "town.npz")
    way = ["home", "park", "school"]
    trips = [{"states": [*way, "work"]}, {"states": [*way, "park", "school", "work"]}]
    (tmp_path / "trips.jsonl").write_text("\n".join(map(json.dumps, trips)), encoding="utf-8")
    files = ["--domain", str(tmp_path / "town.npz"), "--weights", "km=-1", "--allowance", "recorded"]
    found = shown("learn", *files, "--demonstrations", str(tmp_path / "trips.jsonl"), "--then-teach")
    assert found["recorded"]["main_km"]["mean"] == pytest.approx(0.1 * (0.95**2 + 0.95**4) / 2)
    assert found["instead"]["reward"] >= found["reward"] - 1e-9
    taught = shown("teach", *files, "--recordings", str(tmp_path / "trips.jsonl"))
    assert taught["arrival"]["probability"] == 1.0
    about = shown("info", str(tmp_path / "town.npz"), "--recordings", str(tmp_path / "trips.jsonl"))
    assert about["recorded"]["km"]["most"] > about["recorded"]["km"]["least"]
