"""The teachers, learner models and preferences that the page offers: the registry as data for JSON."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from tutelage.environments.preferences import COLOURS, NAMED, PREFERENCES, preference_names
from tutelage.playground.schema import aware_teacher
from tutelage.registry import LEARNER_MODELS, TEACHERS, Knows, Option


def known_players() -> dict[str, Any]:
    """Teachers and learner models by name, all preferences in their order, and the preferences of L1 .. L5."""
    return {
        "teachers": {
            name: {
                "label": entry.label,
                "about": entry.about,
                "knows": entry.knows.value,
                "needs_penalties": entry.knows is Knows.LEARNER,
                "is_adaptive": entry.is_adaptive,
                "options": _options(entry.options),
            }
            for name, entry in TEACHERS.items()
        },
        "learner_models": {
            name: {
                "label": model.label,
                "about": model.about,
                "aware_teacher": aware_teacher(name),
                "options": _options(model.options),
            }
            for name, model in LEARNER_MODELS.items()
        },
        "preferences": [
            {"name": name, "colour": colour, "distance": distance} for name, (colour, distance) in NAMED.items()
        ],
        "presets": {
            name: {"about": _about(preference_names(name)), "preferences": preference_names(name)}
            for name in PREFERENCES
        },
    }


def _options(options: Mapping[str, Option]) -> dict[str, Any]:
    return {name: asdict(option) for name, option in options.items()}


def _about(names: tuple[str, ...]) -> str:
    """A sentence about preferences; a larger distance includes the smaller ones of its colour."""
    widest = {NAMED[name][0]: name for name in sorted(names, key=lambda name: NAMED[name][1])}
    return "avoids " + (" and ".join(widest[colour] for colour in COLOURS if colour in widest) or "nothing")
