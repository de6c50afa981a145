"""The Python that does again what the page shows, for whoever wants to go on from there."""

from dataclasses import replace
from typing import Any

from tutelage.environments.object_world import ObjectWorld, object_world
from tutelage.environments.preferences import PREFERENCES, preference_names
from tutelage.playground import schema

TEACHERS = {
    "agnostic": "tl.AgnosticTeacher(domain, world.true_weights)",
    "conservative": 'tl.ConservativeTeacher(domain, world.true_weights, world.domain("L5").preference_features)',
    "aware_cmdp": "tl.AwareCmdpTeacher(domain, world.true_weights, learner)",
    "bilevel": "tl.BilevelTeacher(domain, world.true_weights, learner)",
    "volume_search": "tl.VolumeSearchTeacher(domain, world.true_weights)",
    "line_search": "tl.LineSearchTeacher(domain, world.true_weights)",
}

# The aware lesson, against which the page measures all others.
AWARE = {
    "soft": [
        "aware = tl.BilevelTeacher(domain, world.true_weights, learner).plan()",
        'print("the aware lesson gets", aware.achieved, "and no lesson more than", aware.bound)',
    ],
    "hard": [
        "aware = tl.AwareCmdpTeacher(domain, world.true_weights, learner).plan()",
        'print("the aware lesson gets", aware.value, "and no lesson more than", aware.bound)',
    ],
}

PICTURE = """
figure = Figure(figsize=(10, 5))
left, right = figure.subplots(1, 2)
avoided = domain.preference_features.any(axis=1)
tl.draw_world(left, world, avoided=avoided, policy=response.policy)
tl.draw_world(right, world, avoided=avoided, reward=tl.combined_features(domain) @ response.learned_weights)
tl.save_picture(figure, "taught")
"""


def teaching(asked: schema.Teaching) -> str:
    """A teacher's rounds."""
    return _answered(
        asked.world,
        asked.learner,
        f"teacher = {TEACHERS[asked.teacher]}",
        f"transcript = tl.teach(teacher, learner, max_rounds={asked.max_rounds})",
        "response = transcript.final.response",
        "print(transcript)",
        'tl.save_transcript(transcript, "transcript.npz")',
    )


def demonstrating(asked: schema.Demonstrating) -> str:
    """Paths that a person drew, and the learner's answer."""
    return _answered(
        asked.world,
        asked.learner,
        f"paths = {asked.paths}",
        "visits = sum(world.path_visits(path) for path in paths) / len(paths)",
        "lesson = tl.Lesson.from_expectation(visits @ domain.reward_features)",
        "response = learner.respond(lesson)",
        'print("reward", world.true_weights @ response.expectation.reward)',
    )


def _answered(world: schema.World, learner: schema.LearnerAsked, *lines: str) -> str:
    """A whole program: the scene, the lines that come to a `response`, and what there is to say of that."""
    return "\n".join(
        [
            "from matplotlib.figure import Figure",
            "",
            "import tutelage as tl",
            "",
            f"world = {_world(world.make())}",
            f"domain = world.domain({_minded(learner.names)})",
            f"learner = {_learner(learner)}",
            *lines,
            "print(response.explain())",
            *AWARE[learner.model],
            PICTURE,
        ]
    )


def walking(asked: schema.Walking) -> str:
    """A person's walks, and the teacher that they were for."""
    lines = [
        "import tutelage as tl",
        "",
        f"world = {_world(asked.world.make())}",
        'domain = world.domain("L1")  # the teacher knows of no preferences',
        f"teacher = {TEACHERS[asked.teacher]}",
        f"walks = {asked.walks}",
        "answers = (world.path_visits(walk) @ domain.reward_features for walk in walks)",
        "learner = tl.CallbackLearner(domain, lambda lesson: next(answers))",
    ]
    if asked.walks:
        lines += ["transcript = tl.teach(teacher, learner, max_rounds=len(walks))", "print(transcript)"]
    else:
        lines += ["print(teacher.open().expectation)"]
    return "\n".join(lines) + "\n"


def _world(world: ObjectWorld) -> str:
    """A generated world by its seed, and any other in full."""
    if world.generator != "hand" and world.seed is not None:
        generator: Any = world.generator
        if world == object_world(world.size, world.seed, generator):
            return f"tl.object_world(size={world.size}, seed={world.seed}, generator={world.generator!r})"
    plain = replace(world, generator="hand", seed=None)
    fields = {
        "size": plain.size,
        "start": plain.start,
        "objects": {kind: list(cells) for kind, cells in plain.objects.items()},
        "distractors": {colour: list(cells) for colour, cells in plain.distractors.items()},
        "discount": plain.discount,
        "end_probability": plain.end_probability,
        "weights": plain.weights,
    }
    lines = (f"    {name}={value!r},\n" for name, value in fields.items())
    return f"tl.ObjectWorld(\n{''.join(lines)})"


def _minded(names: list[str]) -> str:
    """A learner of the paper by its name, and any other by what it minds."""
    for learner in PREFERENCES:
        if tuple(names) == preference_names(learner):
            return repr(learner)
    return repr(names)


def _learner(asked: schema.LearnerAsked) -> str:
    allowances = set(asked.allowances)
    granted = repr(asked.allowances if len(allowances) > 1 else allowances.pop() if allowances else 0.0)
    if asked.model == "hard":
        return f"tl.HardLearner(domain, violation_allowance={granted})"
    penalties = f"mismatch_penalty={asked.mismatch_penalty}, violation_penalty={asked.violation_penalty}"
    return f"tl.SoftLearner(domain, {penalties}, violation_allowance={granted})"
