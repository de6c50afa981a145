"""What to show to people: a few demonstrations by name, turn by turn, with their shares, features and rewards.

A policy that mixes a few routes is shown as these routes, each with its probability. Steps along one street are one
turn; a choice of a road map is named by its street, or by street and next junction.
"""

import json
import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any
from xml.sax.saxutils import escape

import numpy as np

from tutelage.arrays import Matrix, Readable, Vector, freeze, whole_number
from tutelage.chains.expectations import journey_of
from tutelage.data.demonstrations import Demonstrations
from tutelage.data.empirical import trajectory_counts
from tutelage.data.sampling import compared, is_followed, routes, select
from tutelage.model.mdp import Domain, Weights, per_choice, reward_vector
from tutelage.model.names import AT_GOAL
from tutelage.outcomes import InvalidInput, as_text

Step = tuple[Hashable, Hashable | None]
# The most turns of a route that are printed, and the most places named within a turn.
MOST_TURNS, MOST_BETWEEN = 12, 3
UNNAMED = "go"


@dataclass(frozen=True, slots=True, eq=False)
class ShownDemonstration(Readable):
    """One demonstration.

    share: its probability under the policy, or its weight among those shown. steps: the names of the states and
    actions. features: its discounted counts, by name. reward: <true_weights, counts>, or None if these are not known.
    lengths: of each step, in the reward feature `measure`. arrives: whether it ends in a goal; None without goals.
    exceeds: the preferences whose limits it exceeds. is_named: whether actions have names, and not numbers only.
    """

    share: float
    steps: tuple[Step, ...]
    features: Mapping[str, float]
    reward: float | None = None
    lengths: tuple[float, ...] = ()
    measure: str = ""
    arrives: bool | None = None
    exceeds: tuple[str, ...] = ()
    is_named: bool = True

    def text(self, *, full: bool = False) -> str:
        """Share, reward and features in one line, and then a line for each turn; full: every step of every turn."""
        ending = "" if self.reward is None else f", reward {self.reward:.4g}"
        ending += ", does not arrive" if self.arrives is False else ""
        ending += f", exceeds {', '.join(self.exceeds)}" if self.exceeds else ""
        counts = ", ".join(f"{name} {value:.4g}" for name, value in self.features.items())
        lines = turn_lines(self.steps, self.lengths, self.measure, full=full, named=self.is_named)
        return "\n".join([f"{self.share:.1%}{ending}: {counts}", *(f"    {line}" for line in lines)])

    __str__ = text

    def as_data(self) -> dict[str, Any]:
        """For JSON; `load_demonstrations` reads the states and actions."""
        actions = [action for _, action in self.steps if action is not None]
        data = {"share": self.share, "states": [state for state, _ in self.steps], "actions": actions}
        data |= {"features": dict(self.features), "arrives": self.arrives, "exceeds": list(self.exceeds)}
        return data if self.reward is None else data | {"reward": self.reward}


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

    def text(self, *, full: bool = False) -> str:
        """All demonstrations, turn by turn; full: every step."""
        kind = "every route of the policy" if self.is_whole else "selected trajectories of the policy"
        number = f"{len(self)} demonstration{'' if len(self) == 1 else 's'}"
        exact = self.distance <= 1e-9 * np.linalg.norm(self.expectation)
        mean = "equals the lesson" if exact else f"is {self.distance:.2g} from the lesson"
        head = f"What to show: {number}, {kind}; their mean {mean}."
        warned = [f"Warning: {sentence}" for sentence in self.warnings]
        return "\n".join([head, *warned, *(f"  {item.text(full=full)}" for item in self.items)])

    __str__ = text

    def as_data(self) -> dict[str, Any]:
        """For JSON."""
        shown = [item.as_data() for item in self.items]
        return {"shown": shown, "shown_distance": self.distance, "warnings": list(self.warnings)}

    def to_frame(self) -> dict[str, list[Any]]:
        """A table with one row per visit, by name, with the share of its demonstration."""
        columns = self.demonstrations.to_frame()
        return columns | {"share": np.repeat(self.shares, self.demonstrations.lengths).tolist()}

    def to_geojson(self) -> str:
        """The routes as lines of GeoJSON, with their shares and features; for domains whose states have positions."""
        features = []
        for item, places in zip(self.items, self._lines(), strict=True):
            line = {"type": "LineString", "coordinates": places.tolist()}
            told = {"share": item.share, **item.features}
            features.append({"type": "Feature", "geometry": line, "properties": told})
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


def show(
    domain: Domain,
    lesson: Any,
    n: int,
    *,
    true_weights: Weights | None,
    limits: Mapping[str, float],
    rng: int | np.random.Generator,
) -> Shown:
    """At most n demonstrations whose mean reward feature counts are close to those of a lesson.
    limits: of preference features, by name. Of journeys to goals, those that keep them and arrive come first; without
    goals, chance and not a choice may decide which trajectory keeps a limit, so none is preferred."""
    # A count that exceeds its limit by rounding keeps it.
    limits = {name: limit * (1 + 1e-9) + 1e-9 for name, limit in limits.items() if len(domain.mdp.goals)}
    count = whole_number(n, "the number of demonstrations", least=1)
    policy = lesson.policy if lesson.recorded is None else None
    whole = None if policy is None else routes(domain, policy, count)
    shown, shares = whole or _grouped(select(domain, lesson, count, limits=limits, rng=rng).demonstrations)
    order = np.argsort(~is_followed(domain, shown, limits), kind="stable")
    shown, shares = shown.take(order), shares[order]
    weights = None if true_weights is None else reward_vector(domain, true_weights, "true_weights")
    rewards, preferences = trajectory_counts(domain, shown)
    items = _items(domain, shown, shares, np.hstack([rewards, preferences]), weights, limits)
    mean = shares @ rewards
    distance = float(np.linalg.norm((mean - lesson.expectation)[compared(domain)]))
    places = None if domain.positions is None else domain.positions[shown.states]
    warnings = _warnings(domain, policy, items, shown)
    return Shown(items, shown, freeze(shares), freeze(mean), distance, whole is not None, warnings, places)


def _items(
    domain: Domain,
    shown: Demonstrations,
    shares: Vector,
    counts: Matrix,
    weights: Vector | None,
    limits: Mapping[str, float],
) -> tuple[ShownDemonstration, ...]:
    goals, measure, items = domain.mdp.goals, domain.reward_names[0], []
    measured = per_choice(domain.mdp, domain.reward_features[:, 0])
    # On a road map the first reward feature is a length, or a time.
    is_map = domain.positions is not None or domain.mdp.duration is not None
    has_lengths = is_map and measured.min() >= 0 and measure != AT_GOAL and shown.choices is not None
    for trajectory, share, row in zip(shown, shares.tolist(), counts, strict=True):
        features = dict(zip(domain.names, row.tolist(), strict=True))
        item = ShownDemonstration(
            share,
            tuple(trajectory.steps),
            features,
            reward=None if weights is None else float(weights @ row[: len(weights)]),
            lengths=tuple(measured[trajectory.choices].tolist()) if has_lengths else (),
            measure=measure if has_lengths else "",
            arrives=bool(trajectory.states[-1] in goals) if len(goals) else None,
            exceeds=tuple(name for name, limit in limits.items() if features[name] > limit),
            is_named=domain.mdp.names.choices is not None,
        )
        items.append(item)
    return tuple(items)


def _grouped(demonstrations: Demonstrations) -> tuple[Demonstrations, Vector]:
    """The different trajectories, with the share of each."""
    numbers: dict[bytes, list[int]] = {}
    for number, trajectory in enumerate(demonstrations):
        key = trajectory.states.tobytes() + (b"" if trajectory.choices is None else trajectory.choices.tobytes())
        numbers.setdefault(key, []).append(number)
    groups = sorted(numbers.values(), key=lambda group: -len(group))
    shares = np.array([len(group) / demonstrations.n for group in groups])
    return demonstrations.take([group[0] for group in groups]), shares


def _warnings(
    domain: Domain, policy: Vector | None, items: Sequence[ShownDemonstration], shown: Demonstrations
) -> tuple[str, ...]:
    """What a person would not follow in these demonstrations, each in a sentence with what to do."""
    said = []
    journey = journey_of(domain.mdp, policy)
    missed = sum(item.share for item in items if item.arrives is False)
    remedy = "give each step a cost"
    if np.max(domain.mdp.discount) < 1:
        remedy = "what is put off counts less, so use discount 1 or durations (--duration)"
    if journey is not None and (journey.probability < 0.99 or journey.is_endless):
        said.append(f"the lesson {journey}; {remedy}")
    elif missed > 0.01:
        said.append(f"{missed:.0%} of what is shown does not arrive; {remedy}")
    for trajectory in shown if len(domain.mdp.goals) else ():
        states, times = np.unique(trajectory.states[:-1], return_counts=True)
        if times.max(initial=0) > 2:
            place = as_text(domain.state_name(int(states[times.argmax()])))
            said.append(f"a demonstration goes back and forth: it visits {place} {times.max()} times; {remedy}")
            break
    for name in dict.fromkeys(name for item in items for name in item.exceeds):
        share = sum(item.share for item in items if name in item.exceeds)
        said.append(
            f"{name} is kept on average only: {share:.0%} of what is shown exceeds its limit; "
            f"with_budget, or --allowance {name.replace(' ', '_')}=LIMIT/journey, keeps it on every journey"
        )
    return tuple(said)


def turn_lines(
    steps: tuple[Step, ...], lengths: Sequence[float] = (), measure: str = "", *, full: bool = False, named: bool = True
) -> list[str]:
    """A line for each turn: where it starts, the street or action, how often and how far, and where it ends."""
    moves = ((action, after) for (_, action), (after, _) in pairwise(steps))
    streets = [_street(action, after) if named else as_text(action) for action, after in moves]
    turns = groupby(range(len(streets)), key=None if full else streets.__getitem__)
    lines = [_turn(steps, streets, list(members), lengths, measure) for _, members in turns]
    if not lines:
        state, action = steps[0]
        return [as_text(state) + ("" if action in (None, "stay") else f" ({as_text(action)})")]
    if not full and len(lines) > MOST_TURNS:
        lines[MOST_TURNS - 1 : -1] = [f"... {len(lines) - MOST_TURNS} more turns ..."]
    return lines


def _turn(
    steps: tuple[Step, ...], streets: list[str], members: list[int], lengths: Sequence[float], measure: str
) -> str:
    street = streets[members[0]]
    texts = [as_text(state) for state, _ in steps[members[0] : members[-1] + 2]]
    names = [re.sub(r", [^,]* left$", "", text) for text in texts]
    between = [name for before, name in pairwise(names[:-1]) if name != before]
    # Where the streets have no names, the places are the way.
    most = MOST_TURNS if street == UNNAMED else MOST_BETWEEN
    via = ", ".join(between[:most]) + (", ..." if len(between) > most else "")
    turn = street + (f" x{len(members)}" if len(members) > 1 else "") + (f" via {via}" if via else "")
    if lengths:
        turn += f", {sum(lengths[number] for number in members):.4g} {measure}"
    # What is left of a budget is said at the start, and after a turn that changes it.
    first, last = texts[0].removeprefix(names[0]), texts[-1].removeprefix(names[-1])
    begin = texts[0] if members[0] == 0 else names[0]
    end = names[-1] if last == first else texts[-1]
    return f"{begin} -[{turn}]-> {end}"


def _street(action: Hashable | None, after: Hashable) -> str:
    """What a choice is called without the junction that it leads to; "go" where it has no other name."""
    text, following = as_text(action), as_text(after)
    if action == after or (isinstance(action, tuple) and action[:1] == (after,)) or following.startswith(f"{text}, "):
        return UNNAMED
    street, _, end = text.rpartition(" to ")
    is_end = following == end or following.startswith(f"{end}, ") or end.startswith(f"({after!r}, ")
    return street if street and is_end else text
