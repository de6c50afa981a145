"""Pictures of any domain: features shown, done and allowed as bars, policies, and a map where states have positions."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D

from tutelage.arrays import ArrayLike, Vector
from tutelage.chains.expectations import occupancy, state_occupancy
from tutelage.environments.object_world import ObjectWorld
from tutelage.model.mdp import Domain
from tutelage.model.names import as_text
from tutelage.model.policy import check_policy
from tutelage.outcomes import InvalidInput
from tutelage.pictures.rounds import COLOURS
from tutelage.pictures.world import draw_world

# Hatching repeats the difference in grey.
SHOWN, DONE = COLOURS[:2]
ALLOWED = "black"
# A transition with less than this share of the most visits is not drawn.
RARELY_USED = 1e-3


def draw_features(
    axes: Axes,
    names: Sequence[str],
    bars: Mapping[str, Vector],
    *,
    errors: Mapping[str, Vector] | None = None,
    allowed: Vector | None = None,
) -> None:
    """Draw one group of bars for each feature. bars: "shown" and "done", or one of them. allowed: a mark in each group.

    errors: one standard error for each bar of a kind. Infinite limits have no mark.
    """
    styles = {"shown": {"color": SHOWN}, "done": {"color": DONE, "hatch": "///", "edgecolor": "white"}}
    height, places = 0.8 / max(len(bars), 1), np.arange(len(names))
    for number, (kind, values) in enumerate(bars.items()):
        offsets = places + (number - (len(bars) - 1) / 2) * height
        spread = (errors or {}).get(kind)
        style: dict[str, Any] = styles[kind]
        axes.barh(offsets, values, height, xerr=spread, label=kind, capsize=2, ecolor="0.3", **style)
    for place, limit in zip(places, allowed if allowed is not None else [], strict=False):
        if np.isfinite(limit):
            axes.plot([limit, limit], [place - 0.45, place + 0.45], color=ALLOWED, linewidth=2, linestyle="--")
    if allowed is not None:
        axes.plot([], [], color=ALLOWED, linewidth=2, linestyle="--", label="allowed")
    axes.set_yticks(places, names)
    axes.invert_yaxis()
    axes.axvline(0.0, color="0.3", linewidth=0.8)
    axes.set_xlabel("discounted total")
    axes.spines[["top", "right"]].set_visible(False)


def draw_map(axes: Axes, domain: Domain, *, shown: ArrayLike | None = None, done: ArrayLike | None = None) -> None:
    """Draw the states at their positions and the transitions between them, wider where there are more visits.

    shown, done: (C,), policies, of the lesson and of the learner. The learner's lines are dashed, so that a route that
    both take shows both colours.
    """
    if domain.positions is None:
        raise InvalidInput("the states of this domain have no positions; give Domain(..., positions=...)")
    mdp, rows = domain.mdp, domain.mdp.transition.tocoo()
    start, end = mdp.state_of_choice[rows.row], rows.col
    ends = np.stack([domain.positions[start], domain.positions[end]], axis=1)
    is_drawn = (start != end) & np.isfinite(ends).all(axis=(1, 2))
    # The rests of budgets repeat every way.
    axes.add_collection(
        LineCollection(list(np.unique(ends[is_drawn], axis=0)), colors="0.85", linewidths=0.6, zorder=1)
    )
    given = {kind: policy for kind, policy in (("shown", shown), ("done", done)) if policy is not None}
    flows = {kind: (rows.data * occupancy(mdp, policy)[rows.row])[is_drawn] for kind, policy in given.items()}
    largest = max((float(flow.max(initial=0.0)) for flow in flows.values()), default=0.0) or 1.0
    styles: dict[str, Any] = {"shown": (SHOWN, "solid", 1.0), "done": (DONE, (0, (3, 2)), 0.55)}
    handles: list[Artist] = []
    for kind, flow in flows.items():
        colour, dashes, share = styles[kind]
        is_used = flow > RARELY_USED * largest
        widths = share * (0.6 + 6.0 * flow[is_used] / largest)
        style: dict[str, Any] = {"colors": colour, "linewidths": widths, "linestyles": dashes}
        axes.add_collection(LineCollection(list(ends[is_drawn][is_used]), zorder=2 + (kind == "done"), **style))
        handles.append(Line2D([], [], color=colour, linewidth=3 * share + 0.5, linestyle=dashes, label=kind))
    _mark_ends(axes, domain)
    handles += axes.get_legend_handles_labels()[0]
    axes.legend(handles=handles, fontsize="small", frameon=False)
    axes.set_aspect("equal")
    axes.autoscale_view()
    axes.set_axis_off()


def draw_policy(axes: Axes, domain: Domain | ObjectWorld, policy: ArrayLike, *, n_states: int = 12) -> None:
    """Draw what a policy (C,) does: arrows in an object world, routes where states have positions, otherwise bars.

    The bars are the choices of the most visited states, with names. n_states: how many states at most.
    """
    if isinstance(domain, ObjectWorld):
        draw_world(axes, domain, policy=policy)
        return
    if domain.positions is not None:
        draw_map(axes, domain, done=policy)
        return
    mdp, chosen = domain.mdp, check_policy(domain.mdp, policy)
    visits = state_occupancy(mdp, chosen)
    states = [int(state) for state in np.argsort(-visits, kind="stable")[:n_states] if visits[state] > 0]
    for place, state in enumerate(states):
        left = 0.0
        for number, choice in enumerate(range(mdp.first_choice[state], mdp.first_choice[state + 1])):
            probability = float(chosen[choice])
            axes.barh(place, probability, 0.8, left, color=COLOURS[number % len(COLOURS)], edgecolor="white", alpha=0.6)
            if probability > 0.1:
                name = as_text(domain.choice_name(choice))[: int(40 * probability)]
                axes.text(left + probability / 2, place, name, ha="center", va="center", fontsize="small")
            left += probability
    names = [f"{as_text(domain.state_name(state))[:30]} ({visits[state]:.3g})" for state in states]
    axes.set_yticks(range(len(states)), names)
    axes.invert_yaxis()
    axes.set(xlim=(0, 1), xlabel="probability of each choice; (discounted visits)")
    axes.spines[["top", "right"]].set_visible(False)


def _mark_ends(axes: Axes, domain: Domain) -> None:
    """Mark the possible starts, and the states that every choice leads back to."""
    assert domain.positions is not None
    mdp = domain.mdp
    diagonal = np.asarray(mdp.transition[np.arange(mdp.n_choices), mdp.state_of_choice]).ravel()
    is_goal = np.logical_and.reduceat(diagonal == 1.0, mdp.first_choice[:-1])
    kinds = (("start", "o", mdp.initial > 0), ("goal", "*", is_goal))
    for label, marker, where in kinds:
        places = domain.positions[where]
        places = places[np.isfinite(places).all(axis=1)]
        # With a start in every state, marks would hide the map.
        if 0 < len(places) <= 20:
            style: dict[str, Any] = {"marker": marker, "s": 70, "color": "white", "edgecolors": "black", "zorder": 5}
            axes.scatter(places[:, 0], places[:, 1], label=label, **style)
