"""Shared by the tests of the playground: small worlds, requests as the page makes them, and jobs run in place."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linprog

import tutelage as tl
from tutelage.environments.preferences import NAMED, preference_names
from tutelage.playground import jobs

# The star has the largest reward and lies on green; the plus and the dot do not.
SMALL = tl.ObjectWorld(
    4,
    6,
    {"star": [0], "plus": [11], "dot": [13]},
    {"green": [0, 12], "yellow": [3]},
    discount=0.9,
    end_probability=0.25,
    weights=(1.0, 0.75, 0.3),
)
# Neither L1 .. L5 nor in the order of the columns.
CHOSEN = ("yellow within 1 cell", "green within 0 cells")


def world_fields(world: tl.ObjectWorld) -> dict[str, Any]:
    """A world as the page sends it."""
    found: dict[str, Any] = json.loads(world.to_json())
    return found


def learner_fields(
    model: str, preferences: str | Sequence[str], allowances: float | Sequence[float] = 0.0, **penalties: float
) -> dict[str, Any]:
    """A learner as the page sends it. preferences: L1 .. L5, or names."""
    names = preference_names(preferences)
    granted = [allowances] * len(names) if isinstance(allowances, int | float) else list(allowances)
    avoided = [
        {"colour": NAMED[name][0], "distance": NAMED[name][1], "allowance": allowance}
        for name, allowance in zip(names, granted, strict=True)
    ]
    return {"model": model, "preferences": avoided, **penalties}


def teaching(
    teacher: str, learner: Mapping[str, Any], world: tl.ObjectWorld = SMALL, max_rounds: int = 20
) -> dict[str, Any]:
    """A request for a teacher's rounds."""
    return {"world": world_fields(world), "learner": learner, "teacher": teacher, "max_rounds": max_rounds}


def performed(name: str, request: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The events of a job, each having crossed a pipe as a JSON text."""
    sent: list[tuple[str, dict[str, Any]]] = []
    jobs.run_job(
        name,
        json.dumps(request),
        lambda event, data: sent.append((event, json.loads(json.dumps(data, allow_nan=False)))),
    )
    return sent


def taught(request: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """All events of a teacher: of the job `teach` and of its continuation."""
    events = performed("teach", request)
    if events[-1][0] == "later":
        events[-1:] = performed("bound", events[-1][1])
    return events


def beyond(points: ArrayLike, place: ArrayLike) -> float:
    """How far, in any coordinate, a place (d,) is from the convex hull of points (n, d): a linear program."""
    corners, aim = np.asarray(points, dtype=float), np.asarray(place, dtype=float)
    n, d = corners.shape
    # Variables: convex weights of the points, and the distance.
    rows = np.block([[corners.T, -np.ones((d, 1))], [-corners.T, -np.ones((d, 1))]])
    found = linprog(np.eye(n + 1)[n], A_ub=rows, b_ub=np.concatenate([aim, -aim]), A_eq=[[1.0] * n + [0.0]], b_eq=[1.0])
    assert found.success
    return float(found.fun)
