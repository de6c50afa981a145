"""The teachers, learner models and preferences that the page offers: the registry as data for JSON."""

from dataclasses import asdict
from typing import Any

from tutelage.environments.preferences import COLOURS, NAMED, PREFERENCES, preference_names
from tutelage.playground.schema import aware_teacher
from tutelage.registry import LEARNER_MODELS, TEACHERS, Knows, LearnerEntry, TeacherEntry


def known_players() -> dict[str, Any]:
    """Teachers and learner models by name, all preferences in their order, and the preferences of L1 .. L5."""
    teachers, models, presets = {}, {}, {}
    for name, entry in TEACHERS.items():
        needs_penalties = entry.knows is Knows.LEARNER
        knows = {"knows": entry.knows.value, "needs_penalties": needs_penalties, "is_adaptive": entry.is_adaptive}
        teachers[name] = _described(entry) | knows
    for name, model in LEARNER_MODELS.items():
        models[name] = _described(model) | {"aware_teacher": aware_teacher(name)}
    for name in PREFERENCES:
        presets[name] = {"about": _about(preference_names(name)), "preferences": preference_names(name)}
    preferences = [{"name": name, "colour": colour, "distance": distance} for name, (colour, distance) in NAMED.items()]
    return {"teachers": teachers, "learner_models": models, "preferences": preferences, "presets": presets}


def _described(entry: TeacherEntry | LearnerEntry) -> dict[str, Any]:
    options = {name: asdict(option) for name, option in entry.options.items()}
    return {"label": entry.label, "about": entry.about, "options": options}


def _about(names: tuple[str, ...]) -> str:
    """A sentence about preferences; a larger distance includes the smaller ones of its colour."""
    widest = {NAMED[name][0]: name for name in sorted(names, key=lambda name: NAMED[name][1])}
    return "avoids " + (" and ".join(widest[colour] for colour in COLOURS if colour in widest) or "nothing")
