"""Python programs that repeat the results of the page."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tutelage.environments.object_world import ObjectWorld, object_world
from tutelage.environments.placement import PREFERENCES, preference_names
from tutelage.playground import schema
from tutelage.registry import LEARNER_MODELS, TEACHERS, Knows, Maker

# What a teacher is given in addition to the domain and the true weights, if it is not the learner.
GIVEN = {Knows.NOTHING: "", Knows.EVERY_PREFERENCE: ', world.domain("L5").preference_features'}

OPENED = """from dataclasses import replace

import numpy as np

import tutelage as tl

whole = tl.load("domain.npz")  # the file of the domain
names = {names}
columns = [whole.preference_names.index(name) for name in names]
features = whole.preference_features[:, columns]
domain = replace(whole, preference_features=features, preference_names=tuple(names))
true_weights = np.array({weights})"""

PICTURE = """
figure = Figure(figsize=(10, 5))
left, right = figure.subplots(1, 2)
avoided = domain.preference_features.any(axis=1)
tl.draw_world(left, world, avoided=avoided, policy=response.policy)
tl.draw_world(right, world, avoided=avoided, reward=tl.combined_features(domain) @ response.learned_weights)
tl.save_picture(figure, "taught")
"""


def teaching(asked: schema.Teaching | schema.DomainTeaching) -> str:
    return _answered(
        asked,
        f"teacher = {_teacher(asked.teacher)}",
        f"transcript = tl.teach(teacher, learner, max_rounds={asked.max_rounds})",
        "response = transcript.final.response",
        "print(transcript)",
        'tl.save_transcript(transcript, "transcript.npz")',
        *_compared(asked.learner, asked.teacher),
    )


def demonstrating(asked: schema.Demonstrating) -> str:
    return _answered(
        asked,
        f"paths = {asked.paths}",
        "visits = sum(world.path_visits(path) for path in paths) / len(paths)",
        "lesson = tl.Lesson.from_expectation(visits @ domain.reward_features)",
        "response = learner.respond(lesson)",
        'print("reward", world.true_weights @ response.expectation.reward)',
        *_compared(asked.learner),
    )


def _answered(asked: schema.Reaching | schema.DomainReaching, *lines: str) -> str:
    """A program: the domain, the learner, the lines that define `response`, its explanation; of a world, a picture."""
    options = asked.learner.options
    allowances = set(asked.learner.allowances)
    if "violation_allowance" in options and len(allowances) < 2:
        options["violation_allowance"] = allowances.pop() if allowances else 0.0
    lines = (*lines, "print(response.explain())")
    learner = f"learner = {_call(LEARNER_MODELS[asked.learner.model].maker, 'domain', options)}"
    if isinstance(asked, schema.Reaching):
        head = ("from matplotlib.figure import Figure", "", "import tutelage as tl", "")
        names = asked.learner.names
        called: list[Any] = [preset for preset in PREFERENCES if preference_names(preset) == tuple(names)]
        domain = f"domain = world.domain({(called or [names])[0]!r})"
        return "\n".join([*head, f"world = {_world(asked.world.make())}", domain, learner, *lines, PICTURE])
    program = "\n".join([OPENED.format(names=asked.learner.names, weights=asked.domain.weights), learner, *lines, ""])
    return program.replace('world.domain("L5")', "whole").replace("world.true_weights", "true_weights")


def walking(asked: schema.Walking) -> str:
    lines = [
        "import tutelage as tl",
        "",
        f"world = {_world(asked.world.make())}",
        'domain = world.domain("L1")  # the teacher knows no preferences',
        f"teacher = {_teacher(asked.teacher)}",
        f"walks = {asked.walks}",
        "answers = (world.path_visits(walk) @ domain.reward_features for walk in walks)",
        "learner = tl.CallbackLearner(domain, lambda lesson: next(answers))",
    ]
    taught = "transcript = tl.teach(teacher, learner, max_rounds=len(walks))\nprint(transcript)\n"
    return "\n".join([*lines, taught if asked.walks else "print(teacher.open().lesson.expectation)\n"])


def _world(world: ObjectWorld) -> str:
    """A generated world by its seed, any other in full."""
    generator: Any = world.generator
    if world.seed is not None and world == object_world(world.size, world.seed, generator):
        return f"tl.object_world(size={world.size}, seed={world.seed}, generator={world.generator!r})"
    fields = json.loads(replace(world, generator="hand", seed=None).to_json())
    lines = (f"    {name}={value!r},\n" for name, value in fields.items())
    return f"tl.ObjectWorld(\n{''.join(lines)})"


def _teacher(name: str) -> str:
    entry = TEACHERS[name]
    return _call(entry.maker, f"domain, world.true_weights{GIVEN.get(entry.knows, ', learner')}", entry.fixed)


def _call(maker: Maker, given: str, options: Mapping[str, Any]) -> str:
    module, _, name = (maker if isinstance(maker, str) else f"{maker.__module__}:{maker.__qualname__}").partition(":")
    made = f"tl.{name}" if module == "tutelage" else f'__import__("{module}", fromlist=["{name}"]).{name}'
    return f"{made}({', '.join([given, *(f'{option}={value!r}' for option, value in options.items())])})"


def _compared(learner: schema.AnyLearner[Any], taught_by: str = "") -> list[str]:
    """Lines that print the reward of the aware lesson. A lesson that `transcript` has is not planned again."""
    name = schema.aware_teacher(learner.model)
    planned = (f"{_teacher(name)}.plan()", "achieved")
    plan, reward = ("transcript.final", "response_reward") if taught_by == name else planned
    printed = f'print("the aware lesson earns", aware.{reward}, "and no lesson more than", aware.bound)'
    return [f"aware = {plan}", printed]
