"""An object world as a JSON text: what a person may write, and nothing that would be passed over in silence.

    {"size": 5, "start": 0, "objects": {"star": [24]}, "distractors": {"green": [18]}}

is a whole world. Cells are counted row by row from 0 at the top left. A type or a colour that is not named has none.
"discount", "end_probability" and "weights" (of star, plus and dot) may follow, and so may "generator" and "seed", which
a generated world writes of itself.
"""

import json
from collections.abc import Mapping
from typing import Any

from tutelage.outcomes import InvalidModel

REQUIRED = ("size", "start", "objects", "distractors")
OPTIONAL = ("discount", "end_probability", "weights", "generator", "seed")


def world_text(fields: Mapping[str, Any]) -> str:
    """One line per field, in the order given."""
    lines = (f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in fields.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def world_fields(text: str) -> dict[str, Any]:
    """The fields of a world, by name; what they hold is for the world to judge."""
    try:
        fields = json.loads(text, object_pairs_hook=_without_repeats)
    except InvalidModel:
        raise
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidModel(f"a world must be a JSON text: {error}") from error
    if not isinstance(fields, dict):
        raise InvalidModel(f"a world must be a JSON object with {', '.join(REQUIRED)}, got {type(fields).__name__}")
    missing = [name for name in REQUIRED if name not in fields]
    if missing:
        raise InvalidModel(f"the world lacks {', '.join(missing)}")
    unknown = [name for name in fields if name not in REQUIRED + OPTIONAL]
    if unknown:
        raise InvalidModel(f"a world has no {unknown[0]!r}; it may have {', '.join(REQUIRED + OPTIONAL)}")
    return fields


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name in fields:
            raise InvalidModel(f"the world gives {name!r} twice")
        fields[name] = value
    return fields
