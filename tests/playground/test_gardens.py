"""The gardens' data on the page are what the package computes now."""

import json
from importlib import resources

import numpy as np
import pytest
from strategies import some_of

from tools.site import story as gardens
from tools.site.story import CHALLENGES, STORY, best, lessons, moved, played

KEPT = json.loads(
    resources.files("tutelage.playground")
    .joinpath("page", "gardens.js")
    .read_text(encoding="utf-8")
    .partition("export const GARDENS = ")[2]
    .rstrip()
    .rstrip(";")
)
# Half a unit of the last digit that the page shows.
SHOWN = 0.005


def agree(kept: dict, computed: dict) -> None:
    """Every number agrees to the digits that the page shows, and everything else exactly."""
    assert kept.keys() == computed.keys()
    for key, value in computed.items():
        if isinstance(value, float):
            assert kept[key] == pytest.approx(value, abs=SHOWN / 5), key
        elif isinstance(value, dict) and key == "answers":
            for lesson, answer in value.items():
                agree(kept[key][lesson], answer)
        # Walks are samples of a policy: rounding may change a step. Of the weights, only the star's lesson is shown.
        elif key not in ("walk", "route", "weights"):
            assert kept[key] == value, key


@pytest.mark.parametrize("number", some_of(range(len(CHALLENGES)), [1, 3]))
def test_the_answers_of_a_challenge(number: int):
    agree(KEPT["challenges"][number], played(CHALLENGES[number]))


def test_the_answers_of_the_story():
    computed = played(STORY)
    agree({key: value for key, value in KEPT["story"].items() if key != "moved"}, computed)
    for lesson, answer in computed["answers"].items():
        if lesson.startswith("star"):
            assert np.allclose(KEPT["story"]["answers"][lesson]["weights"], answer["weights"], atol=0.01), lesson


@pytest.mark.parametrize("cell", some_of(range(36), [0, 16, 23]))
def test_the_garden_with_a_moved_square(cell: int):
    agree(KEPT["story"]["moved"][cell], moved(STORY, cell))


@pytest.mark.parametrize("garden", [STORY, *CHALLENGES], ids=lambda garden: garden.name)
def test_lessons_are_those_of_paths_and_no_answer_exceeds_the_bound(garden: gardens.Garden):
    """The lesson of a path is the world's `path_visits`, to the first object; the bound holds for every lesson."""
    features = garden.world.domain("L1").reward_features
    (plus,) = garden.world.objects["plus"] or (None,)
    found = lessons(garden)
    if garden is STORY:
        assert np.allclose(found["plus5"], garden.world.path_visits([32, 31, 30, 24, 18, plus]) @ features)
        assert np.allclose(found["star6"], garden.world.path_visits([32, 33, 27, 26, 20, 14, 15]) @ features)
    kept = KEPT["story"] if garden is STORY else KEPT["challenges"][CHALLENGES.index(garden)]
    assert kept["bound"] == pytest.approx(best(garden, garden.world).bound, abs=SHOWN)
    assert max(answer["reward"] for answer in kept["answers"].values()) <= kept["bound"] + 1e-5


def test_each_challenge_is_what_its_name_says():
    """The second best earns nothing; two paths are worse, or better, than one; the rule is not the nearest one."""
    rewards = [{key: answer["reward"] for key, answer in garden["answers"].items()} for garden in KEPT["challenges"]]
    trap, less, two, average, secret = rewards
    assert max(reward for key, reward in trap.items() if "plus" in key) < 0.01 < trap["dot3"]
    assert less["plus3"] > max(reward for key, reward in less.items() if "star" in key)
    for rising in (two, average):
        single = max(reward for key, reward in rising.items() if "+" not in key)
        assert max(rising.values()) > 1.2 * single
    assert secret["plus2"] > 4 > 1 > secret["star3"]
