"""The study of people's walks, on walks that are made here: what a person avoids is judged dangerous."""

import json

import pytest

from benchmarks.showing_and_doing import Experiment, Reader, kinds, learners, main, own_share

GRID = [".oooo.", ".oppp.", ".opccy", ".oppc.", ".cccc."]
STRAIGHT, ABOVE, BELOW = ">>>>>", "^^>>>>>vv", "vv>>>>>^^"
# (told to, person, dangers, moves): straight on where nothing is dangerous, round what is.
WALKS = [
    ("do", 0, "ooo", STRAIGHT),
    ("do", 0, "oxx", ABOVE),
    ("do", 1, "ooo", STRAIGHT),
    ("do", 1, "oxx", ABOVE),
    ("show", 2, "ooo", STRAIGHT),
    ("show", 2, "xxo", BELOW),
    ("show", 3, "ooo", STRAIGHT),
    ("show", 3, "xxo", BELOW),
]


def stored(told_to, person, dangers, moves):
    cell, cells = (0, 2), []
    for move in moves:
        cells.append(cell)
        step = {">": (1, 0), "^": (0, 1), "v": (0, -1)}[move]
        cell = cell[0] + step[0], cell[1] + step[1]
    return {"told_to": told_to, "person": person, "colours": dangers, "cells": cells, "moves": list(moves)}


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "walks.json"
    walks = [stored(*walk) for walk in WALKS]
    file.write_text(json.dumps({"grid_top_row_first": GRID, "start": [0, 2], "goal": [5, 2], "demonstrations": walks}))
    return file


def test_walks_that_avoid_a_colour_give_it_a_negative_weight(path):
    """Over the top one meets o alone, so p and c are judged dangerous: the sign of the weights."""
    experiment = Experiment.read(path)
    reader = Reader.of(experiment, 5.0, has_goal=False)
    o, p, c = reader.answer(experiment.walks[1]).learned_weights[:3]
    assert p < -1 < o
    assert c < -1
    assert reader.judged_right(reader.answer(experiment.walks[1]), "oxx", -1.0) == 1.0
    assert reader.judged_right(reader.answer(experiment.walks[1]), "xoo", -1.0) == 0.0


def test_optimal_walks_earn_the_whole_optimum(path):
    """All walks here are shortest walks without danger, so that their share is one without an error."""
    doing, showing, difference = own_share(Experiment.read(path))
    assert doing.mean == pytest.approx(1.0, abs=1e-9)
    assert showing.mean == pytest.approx(1.0, abs=1e-9)
    assert difference.error == pytest.approx(0.0, abs=1e-9)


def test_a_learner_that_never_enters_purple_does_not(path):
    experiment = Experiment.read(path)
    answer = Reader(experiment, learners(experiment)["hard, never on purple"], {}).answer(experiment.walks[0])
    assert answer.expectation.preference == pytest.approx([0.0], abs=1e-6)


def test_the_best_walks_for_an_imitator_earn_the_whole_optimum(path):
    """Here they are optimal in every task. Every kind of learner has a row."""
    experiment = Experiment.read(path)
    rows = {line[:25].strip(): line[25:].split() for line in kinds(experiment, -1.0)}
    assert list(rows)[1:] == list(learners(experiment))
    assert rows["hard, without limits"][-2] == "1.000"


def test_without_a_file_the_command_says_what_it_needs():
    with pytest.raises(SystemExit, match="showing_and_doing FILE"):
        main([])
