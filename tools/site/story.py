"""The story and the gardens of the page, with every answer that it shows without a server.

A path on the page ends at the first object, and stays there. So the lesson of a path depends only on the kind of the
object and on the number of steps, and all lessons of one or two paths are few: `python tools/site/story.py` computes
the answers of the learner to all of them and writes them to `page/gardens.js`. `site_page` is the page of the site.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from tutelage.arrays import Vector
from tutelage.chains.expectations import state_occupancy
from tutelage.data.sampling import sample_demonstrations
from tutelage.environments.object_world import ObjectWorld
from tutelage.interaction import teach
from tutelage.model.mdp import Domain
from tutelage.playground.jobs import run_job
from tutelage.playground.schema import aware_teacher, known_players
from tutelage.playground.server import bundled
from tutelage.playground.workers import as_json
from tutelage.registry import make_learner, make_teacher
from tutelage.roles import Learner, Lesson, Round

# The longest path that a reader draws, and the steps of a walk that the page replays.
LONGEST, WALK_STEPS = 12, 24
N_WALKS = 24
NOTHING = "none"


@dataclass(frozen=True)
class Garden:
    """A world and a learner. most_paths: of a lesson. hides_rules: whether the learner's rules must be guessed."""

    name: str
    about: str
    world: ObjectWorld
    preferences: tuple[str, ...]
    model: str = "soft"
    allowances: tuple[float, ...] = ()
    most_paths: int = 1
    hides_rules: bool = False

    def learner(self, domain: Domain) -> Learner:
        """The learner, in the domain of the garden or in that of a garden with a moved square."""
        options: dict[str, Any] = {"mismatch_penalty": 5.0, "violation_penalty": 10.0}
        if self.model == "hard":
            options = {"violation_allowance": list(self.allowances) or 0.0}
        return make_learner(self.model, domain, **options)


def _world(objects: Mapping[str, Sequence[int]], green: Sequence[int], yellow: Sequence[int] = ()) -> ObjectWorld:
    """A garden of six by six cells."""
    colours = {"green": green, "yellow": yellow}
    return ObjectWorld(6, 32, objects, colours, discount=0.95, weights=(1.0, 0.9, 0.2))


NEAR = ("green within 1 cell", "yellow within 1 cell")
STORY = Garden("story", "", _world({"star": [15], "plus": [12], "dot": [35]}, [16]), NEAR[:1])
CHALLENGES = (
    Garden(
        "The trap",
        "The best thing lies beside green, the second best beside yellow. Pip minds both.",
        _world({"star": [15], "plus": [12], "dot": [35]}, [16], [6]),
        NEAR,
    ),
    Garden(
        "Less is more",
        "You may draw two paths, but you need not. Does Pip learn more from two?",
        _world({"star": [14], "plus": [24], "dot": [35]}, [8]),
        NEAR[:1],
        most_paths=2,
    ),
    Garden(
        "Two beat one",
        "Pip visits each coloured place a little, but not for long. One path is half a lesson.",
        _world({"star": [15], "plus": [12], "dot": [35]}, [16], [6]),
        NEAR,
        "hard",
        (2.0, 2.0),
        most_paths=2,
    ),
    Garden(
        "On average",
        "Pip goes near green now and then: two visits on average, no more. What about the rest of its time?",
        _world({"star": [14], "dot": [35]}, [8]),
        NEAR[:1],
        "hard",
        (2.0,),
        most_paths=2,
    ),
    Garden(
        "Its secret",
        "Pip minds something here and does not say what. Show it a path, see what it does, and find out.",
        _world({"star": [14], "plus": [27], "dot": [35]}, [28], [8]),
        NEAR[1:],
        hides_rules=True,
    ),
)


def lessons(garden: Garden) -> dict[str, Vector]:
    """The lessons of up to `most_paths` paths by their keys, such as "plus5" or "none+star4": (d_r,) each."""
    world, size = garden.world, garden.world.size
    features = world.domain("L1").reward_features
    start = np.array(divmod(world.start, size))
    single = {NOTHING: np.zeros(features.shape[1])}
    for k, (kind, cells) in enumerate(world.objects.items()):
        distances = [int(np.abs(np.array(divmod(cell, size)) - start).sum()) for cell in cells]
        for steps in range(min(distances, default=LONGEST + 1), LONGEST + 1, 2):
            stay = 1.0 / (1.0 - world.discount * (1.0 - world.end_probability))
            single[f"{kind}{steps}"] = np.eye(features.shape[1])[k] * world.discount**steps * stay
    found = dict(single)
    if garden.most_paths == 2:
        for one, other in combinations_with_replacement(sorted(set(single) - {NOTHING}), 2):
            found[f"{one}+{other}"] = (single[one] + single[other]) / 2
    return found


def answer(garden: Garden, world: ObjectWorld, domain: Domain, lesson: Lesson) -> dict[str, Any]:
    """What the learner makes of a lesson: its reward, the weights it infers, and a typical walk."""
    response = garden.learner(domain).respond(lesson)
    weights = () if response.learned_weights is None else response.learned_weights
    return {
        "reward": _rounded(float(world.true_weights @ response.expectation.reward)),
        "weights": [_rounded(weight) for weight in weights],
        "walk": _typical_walk(world, domain, response.policy),
    }


def played(garden: Garden) -> dict[str, Any]:
    """The garden as the page plays it: the world, the most that any lesson can get, and the answer to each lesson."""
    world = garden.world
    domain = world.domain(garden.preferences)
    shown = {key: Lesson.from_expectation(counts) for key, counts in lessons(garden).items()}
    return {
        "name": garden.name,
        "about": garden.about,
        "world": json.loads(world.to_json()),
        "preferences": list(garden.preferences),
        "model": garden.model,
        "allowances": list(garden.allowances),
        "mostPaths": garden.most_paths,
        "hidesRules": garden.hides_rules,
        "bound": _rounded(best(garden, world).bound),
        "answers": {key: answer(garden, world, domain, lesson) for key, lesson in shown.items()},
    }


def best(garden: Garden, world: ObjectWorld) -> Round:
    """The lesson of the teacher that knows the learner, its answer, and the proven bound of every lesson."""
    domain = world.domain(garden.preferences)
    learner = garden.learner(domain)
    teacher = make_teacher(aware_teacher(garden.model), domain, world.true_weights, learner)
    return teach(teacher, learner, max_rounds=1).final


def moved(garden: Garden, cell: int) -> dict[str, Any]:
    """The garden with its green square in another cell: the best lesson there, and what the learner does with it."""
    world = _world(garden.world.objects, [cell])
    domain = world.domain(garden.preferences)
    found = best(garden, world)
    assert found.lesson.policy is not None
    return answer(garden, world, domain, found.lesson) | {
        "route": _route(world, domain, found.lesson.policy),
        "bound": _rounded(found.bound),
    }


def _typical_walk(world: ObjectWorld, domain: Domain, policy: Vector) -> list[int]:
    """Of some walks of a policy, the one whose visits are nearest to those expected, without its stay at the end."""
    sampled = sample_demonstrations(domain, policy, N_WALKS, rng=0)
    expected = state_occupancy(domain.mdp, policy)[: world.terminal]

    def distance(walk: np.ndarray) -> float:
        counts = np.bincount(walk, world.discount ** np.arange(len(walk)), minlength=world.terminal)
        return float(np.abs(counts - expected).sum())

    walks = [walk[walk < world.terminal][: WALK_STEPS + 1] for walk in np.split(sampled.states, sampled.offsets[1:-1])]
    whole = [walk for walk in walks if len(walk) > WALK_STEPS // 2] or walks
    return [int(state) for state in min(whole, key=distance)]


def _route(world: ObjectWorld, domain: Domain, policy: Vector) -> list[int]:
    """The most probable moves of a policy, until it stays or comes back."""
    mdp, route = domain.mdp, [world.start]
    while len(route) <= LONGEST:
        choices = np.flatnonzero(mdp.state_of_choice == route[-1])
        chosen = mdp.transition[[choices[np.argmax(policy[choices])]]].toarray()[0, : world.terminal]
        if (state := int(np.argmax(chosen))) in route:
            break
        route.append(state)
    return route


def _rounded(value: float) -> float:
    return float(np.round(value, 5)) + 0.0


def written() -> str:
    """The text of `page/gardens.js`."""
    n_cells = STORY.world.terminal
    data = {
        "story": played(STORY) | {"moved": [moved(STORY, cell) for cell in range(n_cells)]},
        "challenges": [played(garden) for garden in CHALLENGES],
    }
    head = "// Written by `python tools/site/story.py`: all that the page shows without a server."
    text = json.dumps(data, separators=(",", ":")).replace('},"', '},\n"')
    return f"{head}\n\n// prettier-ignore\nexport const GARDENS = {text};\n"


def site_page() -> str:
    """The page for a website: the story, the gardens, and the rounds of an adaptive teacher."""
    places = ["story", "play", "rounds"]
    recording = {"scene": {"place": "story-0"}, "places": places, "answers": dict(_answers())}
    return bundled(recording, "Tutelage: teach someone who has a mind of their own")


def _answers() -> Iterator[tuple[str, Any]]:
    """The answers that the places of the site's page ask for, by the page's own keys."""
    yield "/api/players ", known_players()
    rules = [{"colour": "green", "distance": 1, "allowance": 0}]
    learner = {"model": "soft", "preferences": rules, "mismatch_penalty": 5, "violation_penalty": 10}
    scene = {"world": _as_on_the_page(STORY.world), "learner": learner}

    def events(job: str, request: str) -> list[Any]:
        sent: list[Any] = []
        run_job(job, request, lambda name, data: sent.append([name, json.loads(as_json(data))]))
        return sent[:-1] + events("bound", request) if sent[-1][0] == "later" else sent

    for teacher, most in (("volume_search", 20), ("bilevel", 1)):
        request = json.dumps(scene | {"teacher": teacher, "max_rounds": most}, separators=(",", ":"))
        yield f"/api/teach {request}", events("teach", request)
    request = json.dumps(scene, separators=(",", ":"))
    yield f"/api/reach {request}", events("reach", request)[0][1]


def _as_on_the_page(world: ObjectWorld) -> dict[str, Any]:
    """The fields of a painted world, with numbers as JavaScript writes them: 1 for 1.0."""
    text = re.sub(r"\b(\d+)\.0\b", r"\1", world.to_json())
    return {name: value for name, value in json.loads(text).items() if name not in ("generator", "seed")}


if __name__ == "__main__":
    with resources.as_file(resources.files("tutelage.playground").joinpath("page", "gardens.js")) as page:
        page.write_text(written(), encoding="utf-8")
