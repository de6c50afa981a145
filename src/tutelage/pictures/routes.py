"""Pictures of demonstrations: routes on a map, in the cells of a grid, or as strips of named states."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from tutelage.arrays import Matrix
from tutelage.data.showing import Shown
from tutelage.model.mdp import Domain
from tutelage.model.names import GridNames, as_text
from tutelage.pictures.rounds import COLOURS

# The most routes of a picture, and the most states of a strip.
MOST_ROUTES, MOST_STATES = 4, 12


def routes_picture(domain: Domain, shown: Shown) -> Figure:
    """The first routes of what is shown, each with its share."""
    figure = Figure(figsize=(7.0, 6.0), layout="constrained")
    draw_routes(figure.subplots(), domain, shown)
    return figure


def draw_routes(axes: Axes, domain: Domain, shown: Shown) -> None:
    """Draw at most four routes on the map of a domain, on its grid, or else as strips of the names of states."""
    places = _places(domain)
    if places is None:
        _draw_strips(axes, shown)
        return
    _draw_ways(axes, domain, places)
    for number, item in list(enumerate(shown))[:MOST_ROUTES]:
        way = places[shown.demonstrations[number].states]
        way = way[np.isfinite(way).all(axis=1)]
        style: dict[str, Any] = {"color": COLOURS[number], "linewidth": 4.5 - number, "zorder": 3 + number}
        axes.plot(*way.T, label=_label(item), solid_capstyle="round", **style)
        ends: dict[str, Any] = {"s": 80, "color": "white", "edgecolors": "black", "zorder": 9}
        axes.scatter(*way[:1].T, marker="o", label="start" if number == 0 else None, **ends)
        axes.scatter(*way[-1:].T, marker="*", label="end" if number == 0 else None, **ends)
    axes.set_aspect("equal")
    axes.set_axis_off()
    axes.legend(fontsize="small", loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=3, frameon=False)


def _label(item: Any) -> str:
    reward = "" if item.reward is None else f", reward {item.reward:.4g}"
    exceeds = f", exceeds {', '.join(item.exceeds)}" if item.exceeds else ""
    return f"{item.share:.0%}{reward}{exceeds}" + (", does not arrive" if item.arrives is False else "")


def _places(domain: Domain) -> Matrix | None:
    """(S, 2), where the states are: their positions, or the cells of a grid with the first row on top."""
    if domain.positions is not None:
        return np.asarray(domain.positions)
    names = domain.mdp.names.states
    if not isinstance(names, GridNames):
        return None
    cells = np.arange(names.n_rows * names.n_columns)
    places = np.column_stack([cells % names.n_columns, -(cells // names.n_columns)]).astype(np.float64)
    return np.vstack([places, np.full((len(names) - len(cells), 2), np.nan)])


def _draw_ways(axes: Axes, domain: Domain, places: Matrix) -> None:
    """All moves of the domain, in grey."""
    rows = domain.mdp.transition.tocoo()
    ends = np.stack([places[domain.mdp.state_of_choice[rows.row]], places[rows.col]], axis=1)
    is_drawn = np.isfinite(ends).all(axis=(1, 2)) & (ends[:, 0] != ends[:, 1]).any(axis=1)
    # The rests of budgets repeat every way.
    axes.add_collection(
        LineCollection(list(np.unique(ends[is_drawn], axis=0)), colors="0.85", linewidths=0.8, zorder=1)
    )
    axes.autoscale_view()


def _draw_strips(axes: Axes, shown: Shown) -> None:
    """One row for each route, with its states from left to right; the middle of a long one is left out."""
    for row, item in list(enumerate(shown))[:MOST_ROUTES]:
        names = [as_text(state) for state, _ in item.steps]
        if len(names) > MOST_STATES:
            half = MOST_STATES // 2
            names = [*names[:half], f"... {len(names) - MOST_STATES} more ...", *names[-half:]]
        axes.plot(range(len(names)), [-row] * len(names), color=COLOURS[row], marker="o", linewidth=2)
        for place, name in enumerate(names):
            axes.annotate(
                name, (place, -row), rotation=35, fontsize="x-small", xytext=(2, 5), textcoords="offset points"
            )
        axes.annotate(_label(item), (0, -row), fontsize="small", xytext=(0, -16), textcoords="offset points")
    axes.set_ylim(-min(len(shown), MOST_ROUTES) + 0.3, 1.2)
    axes.set_xlim(-0.3, MOST_STATES + 1.5)
    axes.set_axis_off()
