"""Streets of Manhattan, and a cyclist who avoids the avenues.

This example shows how a street network becomes a domain with street names, and how to read a lesson as routes. The map,
data/streets.csv, has 83 segments of streets around West 88th Street, with their classes and lengths. Map data copyright
OpenStreetMap contributors, Open Database Licence (openstreetmap.org/copyright), as packaged by momepy.

The cyclist matches the length on each class of street, but accepts only 0.2 km of avenues. The teacher wants speed.
"""

from itertools import groupby
from pathlib import Path

import networkx

import tutelage as tl

MINUTES_PER_KM = {"primary": 2.5, "secondary": 3.0, "tertiary": 3.75, "residential": 5.0}
graph = tl.read_graph(Path(__file__).parent / "data" / "streets.csv")
graph = graph.subgraph(max(networkx.strongly_connected_components(graph), key=len))
domain = tl.from_graph(
    graph,
    start="7106818623",  # Central Park West and West 87th Street
    goals=["42431078"],  # West End Avenue and West 92nd Street
    discount=0.999,
    duration="km",
    measure="km",
    reward_attributes={"highway": list(MINUTES_PER_KM)},
    preference_attributes={"highway": {"avenues": ["primary"]}},
    choice_names="name",
)
true_weights = [-minutes for minutes in MINUTES_PER_KM.values()] + [0]  # the last is the time "at goal"
cyclist, minutes = tl.HardLearner(domain, violation_allowance=0.2), []
for teacher in (tl.AgnosticTeacher(domain, true_weights), tl.AwareCmdpTeacher(domain, true_weights, cyclist)):
    taught = tl.teach(teacher, cyclist).final
    minutes.append(-taught.response_reward)
    assert taught.lesson.policy is not None and tl.arrival(domain, taught.lesson.policy).is_certain
    streets = [str(action).split(" to ")[0] for _, action in taught.lesson.demonstrations(1, rng=0)[0].steps[:-1]]
    print(f"{type(teacher).__name__}: {', '.join(street for street, _ in groupby(streets))}")
print(f"The cyclist needs {minutes[0]:.2f} minutes after the fastest way, {minutes[1]:.2f} after an accepted one.")
assert minutes[1] < minutes[0] - 0.1
