"""A road map, and an autopilot that prefers motorways: the first example of the paper.

This example shows how a networkx graph becomes a domain, and how to read a policy as routes. The autopilot drives at
most 10 km off the motorway. Shown the route with the least fuel, it matches its minutes and burns too much.
"""

from itertools import pairwise
from math import prod
from typing import Any

import networkx

import tutelage as tl

roads, goals = networkx.DiGraph(), ["Bourne"]
for road, litres, minutes, slow_km in (
    (("Ashby", "Forest"), 1.5, 25, 16),
    (("Forest", "Bourne"), 1.5, 25, 16),
    (("Ashby", "Ring North"), 0.5, 5, 4),
    (("Ring North", "Bourne"), 6.0, 40, 0),  # motorway
    (("Ashby", "Ring South"), 0.7, 8, 6),
    (("Ring South", "Weir"), 2.0, 14, 0),  # motorway
    (("Weir", "Bourne"), 1.0, 8, 4),
):
    roads.add_edge(*road, litres=litres, minutes=minutes, slow_km=slow_km)
names: Any = {"reward_attributes": ["litres", "minutes"], "preference_attributes": ["slow_km"]}
domain = tl.from_graph(roads, start="Ashby", goals=goals, discount=0.999, **names)
autopilot, burnt = tl.HardLearner(domain, violation_allowance=10), []
true_weights = [-1, 0, 0]  # litres, minutes, and the time "at goal", which from_graph adds
for teacher in (tl.AgnosticTeacher(domain, true_weights), tl.AwareCmdpTeacher(domain, true_weights, autopilot)):
    taught = tl.teach(teacher, autopilot).final
    burnt.append(-taught.response_reward)
    policies: Any = {type(teacher).__name__: taught.lesson.policy, "autopilot": taught.response.policy}
    for who, policy in policies.items():
        chance = {choice[:2]: p for choice, p in zip(tl.graph_choices(roads, goals), policy, strict=True)}
        for route in networkx.all_simple_paths(roads, "Ashby", "Bourne"):
            if (share := prod(chance[road] for road in pairwise(route))) > 0.01:
                print(f"{who:>16} {share:4.0%}: {' - '.join(route)}")
print(f"Litres burnt after the most efficient route: {burnt[0]:.1f}; after the best accepted route: {burnt[1]:.1f}.")
assert burnt[1] < 0.7 * burnt[0]
