"""Allowances in words: shares, counts and names mean the numbers that they stand for, in every learner and teacher."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from strategies import random_domain, random_policy

import tutelage as tl
from tutelage.model.allowances import read_allowance, total_time
from tutelage.outcomes import InvalidModel


def domain_of(seed: int = 0, discount: float = 0.75) -> tl.Domain:
    domain = random_domain(np.random.default_rng(seed), max_states=8, n_preference=3)
    return replace(
        domain, mdp=replace(domain.mdp, discount=discount), preference_names=("mud", "main_km", "service_km")
    )


# The total is 1 / (1 - 0.75) = 4.
IN_WORDS = {
    "a count": (tl.count(2.5), [2.5, 2.5, 2.5]),
    "a share": (tl.share(0.5), [2.0, 2.0, 2.0]),
    "by name": ({"main_km": tl.share(0.125), "mud": 3, "others": 0}, [3.0, 0.5, 0.0]),
    "a list": ([1, tl.share(0.25), tl.count(0.5)], [1.0, 1.0, 0.5]),
    "numbers": ([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]),
    "others": ({"others": tl.count(1)}, [1.0, 1.0, 1.0]),
}


@pytest.mark.parametrize("kind", IN_WORDS)
def test_words_mean_numbers_in_every_learner_and_teacher(kind):
    words, numbers = IN_WORDS[kind]
    domain = domain_of()
    lesson = tl.Lesson.from_policy(domain, random_policy(np.random.default_rng(1), domain.mdp))
    learners = (
        lambda delta: tl.SoftLearner(domain, mismatch_penalty=2, violation_penalty=3, violation_allowance=delta),
        lambda delta: tl.PublishedLearner(
            domain, mismatch_penalty=2, violation_penalty=3, violation_allowance=delta, max_steps=30
        ),
        lambda delta: tl.GenericLearner(
            domain, tl.Mismatch(2, 5.0), tl.Preference(norm=2, penalty=4.0, allowance=delta)
        ),
    )
    for make in learners:
        one, other = (make(delta).respond(lesson) for delta in (words, numbers))
        assert_array_equal(one.policy, other.policy)
    assert_allclose(tl.HardLearner(domain, words).constraints.allowance, numbers, rtol=1e-15)
    assert_allclose(tl.preference_limits(domain, words).offsets, numbers, rtol=1e-15)
    teachers = [tl.ConservativeTeacher(domain, np.ones(3), allowance=delta) for delta in (words, numbers)]
    assert_array_equal(*(teacher.limits.offsets for teacher in teachers))


def test_preferences_that_are_not_named_have_no_limit():
    """The learner with named limits is the learner of a domain that has only the named preferences."""
    domain = domain_of()
    few = domain.with_features(preference={"mud": None, "service_km": None})
    lesson = tl.Lesson.from_policy(domain, random_policy(np.random.default_rng(1), domain.mdp))
    soft = {"mismatch_penalty": 2, "violation_penalty": 3}
    for make in (lambda d, a: tl.SoftLearner(d, violation_allowance=a, **soft), lambda d, a: tl.HardLearner(d, a)):
        answer, wanted = make(domain, {"main_km": 0.5}).respond(lesson), make(few, 0.5).respond(lesson)
        assert_allclose(answer.policy, wanted.policy, atol=1e-9)
        assert answer.constraint_names == ("main_km",)
    assert tl.preference_limits(domain, {"main_km": 0.5}).names == ("main_km",)
    learner = tl.HardLearner(domain, {"main_km": 0.5})
    transcript = tl.teach(tl.AwareCmdpTeacher(domain, np.ones(3), learner), learner)
    assert transcript.unlimited == ("mud", "service_km")
    assert "Without a limit on average: mud, service_km." in transcript.explain()
    with pytest.raises(InvalidModel, match="others"):
        tl.PublishedLearner(domain, violation_allowance={"main_km": 0.5}, **soft)


def test_a_mismatch_may_be_allowed_by_the_names_of_rewards():
    domain = domain_of()
    mismatch = tl.Mismatch(allowance={"reward 1": tl.share(0.25)}).on(domain)
    assert_allclose(mismatch.allowance, [0.0, 1.0, 0.0])


def test_the_share_of_all_time_is_what_a_feature_that_is_always_one_counts():
    """With one discount every policy counts it exactly 1 / (1 - discount) times, so share(1) just allows it."""
    domain = domain_of(3, 0.97)
    always = replace(domain, preference_features=np.ones((domain.mdp.n_states, 1)), preference_names=("always",))
    counted = tl.expectation(always, tl.uniform_policy(domain.mdp)).preference
    assert_allclose(counted, total_time(domain.mdp), rtol=1e-12)
    assert_allclose(tl.preference_limits(always, tl.share(1.0)).offsets, counted, rtol=1e-12)


def test_with_durations_the_total_is_the_discounted_time_of_every_policy():
    """The sum over choices of z(c) times the integral of discount^t over its duration is -1 / log discount."""
    rng = np.random.default_rng(5)
    plain = random_domain(rng, max_states=12).mdp
    times = rng.uniform(0.2, 4, size=plain.n_choices)
    mdp = tl.MDP.from_choices(plain.transition, plain.first_choice, plain.initial, 0.95, duration=times)
    inside = (1 - mdp.discount) / -np.log(0.95)
    for policy in (tl.uniform_policy(mdp), random_policy(rng, mdp)):
        assert tl.occupancy(mdp, policy) @ inside == pytest.approx(total_time(mdp), rel=1e-10)
    assert total_time(mdp) == pytest.approx(-1 / np.log(0.95), rel=1e-12)
    same = tl.MDP.from_choices(plain.transition, plain.first_choice, plain.initial, 0.95, duration=3.0)
    assert total_time(same) == pytest.approx(3 / (1 - 0.95**3), rel=1e-12)


def test_a_share_needs_a_total():
    domain = domain_of()
    mixed = replace(domain, mdp=replace(domain.mdp, discount=np.linspace(0.5, 0.9, domain.mdp.n_choices)))
    with pytest.raises(InvalidModel, match="give a duration for each choice, or give the allowance as a count"):
        tl.HardLearner(mixed, tl.share(0.1))
    assert_allclose(tl.HardLearner(mixed, tl.count(2.0)).constraints.allowance, 2.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda d: tl.HardLearner(d, {"main": 1}), "names 'main', which is not one of .*; did you mean 'main_km'"),
        (lambda d: tl.preference_limits(d, {"zebra": 1}), "there are 'mud', 'main_km', 'service_km'"),
        (lambda d: tl.HardLearner(d, {"mud": -1}), "allowance of 'mud' must be a number of at least zero"),
        (lambda d: tl.HardLearner(d, {"mud": "much"}), "allowance of 'mud' must be a number"),
        (lambda d: tl.HardLearner(d, [tl.share(0.1)]), "violation_allowance has 1 entries, but there are 3"),
        (lambda d: tl.HardLearner(d, -1.0), "none negative"),
        (lambda d: tl.HardLearner(d, [[1], [1, 2]]), "its rows have different lengths"),
        (lambda _: tl.share(5), "a share must be a number from 0 to 1, got 5; 5 per cent is share"),
        (lambda _: tl.share(True), "a share must be"),
        (lambda _: tl.share("a tenth"), "a share must be"),
        (lambda _: tl.count(-1), "a count must be a number of at least zero"),
        (lambda _: tl.count(np.inf), "a count must be"),
    ],
)
def test_wrong_words_are_refused(make, message):
    with pytest.raises(InvalidModel, match=message):
        make(domain_of())


def test_allowances_on_the_command_line():
    assert read_allowance("2.5") == 2.5
    assert read_allowance(" 5% ") == tl.share(0.05)
    assert read_allowance("0.1, 5%") == (0.1, tl.share(0.05))
    assert read_allowance("service_km=0.1,main_km=5%") == {"service_km": 0.1, "main_km": tl.share(0.05)}
    assert read_allowance("green = within 1=2") == {"green = within 1": 2.0}
    for text in ("much", "1,", "1,much", "a=", "=1", "a=1,a=2", "a=1,2", "200%", "-1", "a=-1", "5%%", "a=5 % %"):
        with pytest.raises(InvalidModel):
            read_allowance(text)
    # On the command line advice in Python, and a message without the name, would not help.
    for text, sentence in {
        "a=200%": "a share of 0% to 100%, got 'a=200%'",
        "b=-1": "at least zero, got 'b=-1'",
    }.items():
        with pytest.raises(InvalidModel, match=f"an allowance must be .*{sentence}"):
            read_allowance(text)
