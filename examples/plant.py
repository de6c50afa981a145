"""A maintenance plant given as functions, whose states `explore` finds and names.

This example shows how rules become a domain. Three machines wear out in four stages, and one at a time can be serviced.
The crew matches the output and the services of the lesson, but limits the time that machines are broken. Shown the most
profitable policy, it matches the output with too many services. Shown the best policy that it accepts, it follows.
"""

from itertools import product
from math import prod
from typing import Any

import tutelage as tl

LAST, WEAR = 4, (0.2, 0.3, 0.5)  # a machine at the last stage is broken; the chances of wear


def actions(state: tuple[int, ...]) -> list[str]:
    return ["run", *(f"service {machine}" for machine, stage in enumerate(state) if stage)]


def outcomes(state: tuple[int, ...], action: str) -> list[tuple[float, Any]]:
    state = tuple(0 if action == f"service {machine}" else stage for machine, stage in enumerate(state))
    chances = [((p, min(stage + 1, LAST)), (1 - p, stage)) for p, stage in zip(WEAR, state, strict=True)]
    return [(prod(p for p, _ in ways), tuple(stage for _, stage in ways)) for ways in product(*chances)]


def reward(state: tuple[int, ...], action: str) -> dict[str, float]:
    return {"output": (3 - state.count(LAST)) * (action == "run"), "services": action != "run"}


broken: Any = {"preference": lambda state, action: {"broken": state.count(LAST)}}
plant = tl.explore((0, 0, 0), actions, outcomes, discount=0.95, reward=reward, **broken)
crew, true_weights = tl.HardLearner(plant, violation_allowance=3), [1, -4]
teachers = tl.AgnosticTeacher(plant, true_weights), tl.AwareCmdpTeacher(plant, true_weights, crew)
agnostic, aware = (tl.teach(teacher, crew).final for teacher in teachers)
print(f"The crew earns {agnostic.response_reward:.2f} after the best policy,", end=" ")
print(f"{aware.response_reward:.2f} after the best accepted one, which begins:")
for state, action in aware.lesson.demonstrations(1, rng=0)[0].steps[:12]:
    print(f"  {state}: {action}")
assert aware.response_reward > 1.2 * agnostic.response_reward
