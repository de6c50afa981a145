"""Demonstrations for people: by name, turn by turn, with their shares, and as routes in GeoJSON and GPX.

Steps along one street are one turn. A choice of a road map is named by its street, with the next junction where two
choices have the same street, "Broadway to 17"; the street is "Broadway".
"""

import json
import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any
from xml.sax.saxutils import escape

import numpy as np

from tutelage.arrays import Matrix, Readable, Vector
from tutelage.data.demonstrations import Demonstrations
from tutelage.model.names import as_text
from tutelage.outcomes import InvalidInput

Step = tuple[Hashable, Hashable | None]

# The most turns of a route that are printed, and the most places named within a turn.
MOST_TURNS, MOST_BETWEEN = 12, 3
# A choice whose only name is the next state.
UNNAMED = "go"


@dataclass(frozen=True, slots=True, eq=False)
class ShownDemonstration(Readable):
    """One demonstration.

    share: its probability under the policy, or its weight among those shown. steps: the names of the states and
    actions. features: its discounted counts, by name. reward: <true_weights, counts>, or None if these are not known.
    lengths: of each step, in the reward feature `measure`. arrives: whether it ends in a goal; None without goals.
    exceeds: the preferences whose limits it exceeds.
    """

    share: float
    steps: tuple[Step, ...]
    features: Mapping[str, float]
    reward: float | None = None
    lengths: tuple[float, ...] = ()
    measure: str = ""
    arrives: bool | None = None
    exceeds: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.text()

    def text(self, *, full: bool = False) -> str:
        """Share, reward and features in one line, and then a line for each turn; full: every step of every turn."""
        ending = "" if self.reward is None else f", reward {self.reward:.4g}"
        ending += ", does not arrive" if self.arrives is False else ""
        ending += f", exceeds {', '.join(self.exceeds)}" if self.exceeds else ""
        counts = ", ".join(f"{name} {value:.4g}" for name, value in self.features.items())
        lines = turn_lines(self.steps, self.lengths, self.measure, full=full)
        return "\n".join([f"{self.share:.1%}{ending}: {counts}", *(f"    {line}" for line in lines)])

    def as_data(self) -> dict[str, Any]:
        """For JSON; `load_demonstrations` reads the states and actions."""
        states, actions = [state for state, _ in self.steps], [action for _, action in self.steps]
        data = {"share": self.share, "states": states, "actions": [action for action in actions if action is not None]}
        data |= {"features": dict(self.features), "arrives": self.arrives, "exceeds": list(self.exceeds)}
        return data | ({} if self.reward is None else {"reward": self.reward})


@dataclass(frozen=True, slots=True, eq=False)
class Shown(Readable, Sequence[ShownDemonstration]):
    """A few demonstrations; a sequence of `ShownDemonstration`.

    demonstrations: the same as arrays. shares: (n,), sum to one. expectation: (d_r,), the mean of the reward feature
    counts by shares. distance: 2-norm of its difference from the lesson, without the time at a goal. is_whole: whether
    these are all trajectories of the policy. warnings: what a person would not follow, each with what to do. places:
    (N, 2), the coordinates of the visits, or None.
    """

    items: tuple[ShownDemonstration, ...]
    demonstrations: Demonstrations
    shares: Vector
    expectation: Vector
    distance: float
    is_whole: bool
    warnings: tuple[str, ...] = ()
    places: Matrix | None = None

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: Any) -> Any:
        return self.items[index]

    def __str__(self) -> str:
        return self.text()

    def text(self, *, full: bool = False) -> str:
        """All demonstrations, turn by turn; full: every step."""
        kind = "every route of the policy" if self.is_whole else "selected trajectories of the policy"
        number = f"{len(self)} demonstration{'' if len(self) == 1 else 's'}"
        head = f"What to show: {number}, {kind}; their mean is {self.distance:.2g} from the lesson."
        warned = [f"Warning: {sentence}" for sentence in self.warnings]
        return "\n".join([head, *warned, *(f"  {item.text(full=full)}" for item in self.items)])

    def as_data(self) -> dict[str, Any]:
        """For JSON."""
        data = {"shown": [item.as_data() for item in self.items], "shown_distance": self.distance}
        return data | {"warnings": list(self.warnings)}

    def to_frame(self) -> dict[str, list[Any]]:
        """A table with one row per visit, by name, with the share of its demonstration."""
        columns = self.demonstrations.to_frame()
        return columns | {"share": np.repeat(self.shares, self.demonstrations.lengths).tolist()}

    def to_geojson(self) -> str:
        """The routes as lines of GeoJSON, with their shares and features; for domains whose states have positions."""
        features = [
            {
                "type": "Feature",
                "geometry": {"type": "LineString", "coordinates": places.tolist()},
                "properties": {"share": item.share, **item.features},
            }
            for item, places in zip(self.items, self._lines(), strict=True)
        ]
        return json.dumps({"type": "FeatureCollection", "features": features}, ensure_ascii=False)

    def to_gpx(self) -> str:
        """The routes as tracks of GPX; positions must be longitudes and latitudes in degrees."""
        tracks = []
        for item, places in zip(self.items, self._lines(), strict=True):
            if (np.abs(places) > [180.0, 90.0]).any():
                raise InvalidInput("GPX needs longitudes and latitudes, but the positions are not; write .geojson")
            points = "".join(f'<trkpt lat="{y:.7f}" lon="{x:.7f}"/>' for x, y in places.tolist())
            name = escape(f"{as_text(item.steps[0][0])} to {as_text(item.steps[-1][0])}, {item.share:.1%}")
            tracks.append(f"<trk><name>{name}</name><trkseg>{points}</trkseg></trk>")
        head = '<gpx version="1.1" creator="Tutelage" xmlns="http://www.topografix.com/GPX/1/1">'
        return f'<?xml version="1.0" encoding="UTF-8"?>\n{head}{"".join(tracks)}</gpx>\n'

    def _lines(self) -> list[Matrix]:
        """The coordinates of each demonstration, (T, 2), without visits that have none."""
        if self.places is None:
            raise InvalidInput("the states of this domain have no positions, so a route cannot be drawn on a map")
        parts = np.split(self.places, self.demonstrations.offsets[1:-1])
        return [part[np.isfinite(part).all(axis=1)] for part in parts]


def turn_lines(
    steps: tuple[Step, ...], lengths: Sequence[float] = (), measure: str = "", *, full: bool = False
) -> list[str]:
    """A line for each turn: where it starts, the street or action, how often and how far, and where it ends."""
    numbered = list(enumerate(steps[:-1]))
    turns = []
    for street, group in groupby(numbered, key=lambda pair: _street(pair[1][1], steps[pair[0] + 1][0])):
        members = [number for number, _ in group]
        turns += [(street, [number]) for number in members] if full else [(street, members)]
    lines = [_turn(steps, street, members, lengths, measure) for street, members in turns]
    last, action = steps[-1]
    ending = "" if action is None or action == "stay" or len(steps) > 1 else f" ({as_text(action)})"
    if not lines:
        return [as_text(last) + ending]
    if not full and len(lines) > MOST_TURNS:
        n_left = len(lines) - MOST_TURNS
        lines = [*lines[: MOST_TURNS - 1], f"... {n_left} more turns ...", lines[-1]]
    return lines


def _turn(steps: tuple[Step, ...], street: str, members: list[int], lengths: Sequence[float], measure: str) -> str:
    # What is left of a budget is said at the ends of a turn only.
    names = [re.sub(r", [^,]* left$", "", as_text(steps[number][0])) for number in members]
    between = [name for before, name in pairwise(names) if name != before]
    # Where the streets have no names, the places are the way.
    most = MOST_TURNS if street == UNNAMED else MOST_BETWEEN
    via = f" via {', '.join(between[:most])}{', ...' if len(between) > most else ''}" if between else ""
    times = "" if len(members) == 1 else f" x{len(members)}"
    far = f", {sum(lengths[number] for number in members):.4g} {measure}" if lengths else ""
    first, last = steps[members[0]][0], steps[members[-1] + 1][0]
    return f"{as_text(first)} -[{street}{times}{via}{far}]-> {as_text(last)}"


def _street(action: Hashable | None, after: Hashable) -> str:
    """What a choice is called without the junction that it leads to; "go" where it has no other name."""
    text, following = as_text(action), as_text(after)
    if action == after or (isinstance(action, tuple) and action[:1] == (after,)) or following.startswith(f"{text}, "):
        return UNNAMED
    street, _, end = text.rpartition(" to ")
    is_end = following == end or following.startswith(f"{end}, ") or end.startswith(f"({after!r}, ")
    return street if street and is_end else text
