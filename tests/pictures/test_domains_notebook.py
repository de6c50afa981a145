"""What people see of objects: at most ten lines, and the picture or the table in a notebook."""

import copy
import pickle
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

import tutelage as tl
from tutelage.arrays import Readable, brief

WORLD = tl.object_world(size=6, seed=1)
DOMAIN = WORLD.domain("L5")
LEARNER = tl.HardLearner(DOMAIN, violation_allowance=2.5)
TRANSCRIPT = tl.teach(tl.AwareCmdpTeacher(DOMAIN, WORLD.true_weights, LEARNER), LEARNER)
PLACED = replace(DOMAIN, positions=np.random.default_rng(0).random((DOMAIN.mdp.n_states, 2)))
SEEN = [
    (TRANSCRIPT, "the best policy that keeps"),
    (TRANSCRIPT.final, "<td>lesson_reward</td>"),
    (TRANSCRIPT.final.response, "certified gap"),
    (tl.Response.of(DOMAIN, TRANSCRIPT.final.lesson, tl.uniform_policy(DOMAIN.mdp)), "no certificate"),
    (TRANSCRIPT.final.lesson, "<td>star</td>"),
    (tl.Lesson.from_expectation([1.0, 2.0, 3.0]), "<td>2</td><td>3</td>"),
    (DOMAIN, "<td>preference</td><td>green within 0 cells</td>"),
    (PLACED, "<svg"),
    (WORLD, "<svg"),
    (LEARNER, "violation_allowance"),
    (DOMAIN.mdp, "MDP(37 states, 185 choices"),
    (tl.solve_hard(DOMAIN.mdp, np.ones(37)), "array of shape (185,)"),
    (TRANSCRIPT.final.lesson.demonstrations(3, rng=0), "Demonstrations(3 of"),
    (tl.best_policy(DOMAIN, WORLD.true_weights, tl.preference_limits(DOMAIN, 2.5)), "multipliers"),
    (TRANSCRIPT.final.lesson.show(2), "What to show: 2 demonstrations"),
]


@pytest.mark.parametrize(("value", "text"), SEEN, ids=lambda value: type(value).__name__)
def test_an_object_is_a_few_lines_and_its_html_is_well_formed(value, text):
    lines = repr(value).splitlines()
    assert len(lines) <= 10 and max(map(len, lines)) <= 120
    html = value._repr_html_()
    assert text in html
    ElementTree.fromstring(f"<div>{html.replace('xlink:href', 'href')}</div>")


def test_text_of_a_person_is_escaped():
    taught = replace(TRANSCRIPT, ended="<script>alert(1)</script>")
    assert "<script>" not in taught._repr_html_() and "&lt;script&gt;" in taught._repr_html_()


def test_long_values_are_shown_by_their_size():
    assert brief(np.zeros((3, 4))) == "array of shape (3, 4)" and brief(0.1 + 0.2) == "0.3"
    assert brief(["a" * 60] * 50) == "50 of str" and len(brief("a" * 500)) == 90
    assert brief([f"name {i}" for i in range(50)]) == "['name 0', 'name 1', and 48 more]"
    assert brief(np.zeros((2, 2))) == "array([[0., 0.], [0., 0.]])"


def test_a_subclass_keeps_the_short_form_and_may_have_its_own():
    @dataclass(frozen=True, slots=True)
    class Many(Readable):
        a: object = field(default_factory=lambda: np.zeros(100))
        b: int = 3

    @dataclass(frozen=True)
    class Own(Many):
        def __repr__(self) -> str:
            return "Own"

    @dataclass(frozen=True)
    class Child(Own):
        c: int = 0

    assert repr(Many()) == "Many(a=array of shape (100,), b=3)"
    assert repr(Own()) == repr(Child()) == "Own"
    response = TRANSCRIPT.final.response
    assert repr(pickle.loads(pickle.dumps(response))) == repr(copy.copy(response)) == repr(response)
