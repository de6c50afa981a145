"""Pictures of any domain: features as bars, policies, and routes on a map, on a grid, or as strips of names."""

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tutelage.arrays import ArrayLike, Indices, Matrix, Readable, Vector, brief
from tutelage.chains.expectations import occupancy, state_occupancy
from tutelage.data.files import AnyPath, write_whole
from tutelage.data.showing import Shown, ShownDemonstration
from tutelage.environments.object_world import ObjectWorld
from tutelage.environments.roads import places, ways
from tutelage.model.mdp import Domain, absorbing_states, combined_features
from tutelage.model.policy import check_policy
from tutelage.outcomes import InvalidInput, as_text
from tutelage.pictures.plots import COLOURS, Style, add_legend, draw_rounds, look, set_frame
from tutelage.pictures.world import draw_world
from tutelage.roles import Lesson, Response
from tutelage.transcripts import Transcript

SHOWN, DONE = COLOURS[:2]
# Hatching and dashes repeat the difference in grey.
BARS: dict[str, Style] = {"shown": {"color": SHOWN}, "done": {"color": DONE, "hatch": "///", "edgecolor": "white"}}
LINES: dict[str, Any] = {"shown": (SHOWN, "solid", 1.0), "done": (DONE, (0, (3, 2)), 0.55)}
ENDS: Style = {"s": 75, "color": "white", "edgecolors": "black", "zorder": 9}


def draw_features(
    axes: Axes,
    names: Sequence[str],
    bars: Mapping[str, Vector],
    *,
    errors: Mapping[str, Vector] | None = None,
    allowed: Vector | None = None,
) -> None:
    """Draw bars, "shown" and "done" or one of them, with standard errors, and a mark at each finite limit `allowed`."""
    height = 0.8 / max(len(bars), 1)
    for number, (kind, values) in enumerate(bars.items()):
        offsets = np.arange(len(names)) + (number - (len(bars) - 1) / 2) * height
        spread = errors.get(kind) if errors else None
        axes.barh(offsets, values, height, xerr=spread, label=kind, capsize=2, ecolor="0.3", **BARS[kind])
    if allowed is not None:
        at = np.flatnonzero(np.isfinite(allowed))
        axes.vlines(allowed[at], at - 0.45, at + 0.45, colors="black", linestyles="--", label="allowed", linewidth=2)
    axes.axvline(0.0, color="0.3", linewidth=0.8)
    add_legend(axes)
    _set_rows(axes, names, "discounted total")


def _set_rows(axes: Axes, names: Sequence[str], across: str) -> None:
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    set_frame(axes, across)


def draw_map(axes: Axes, domain: Domain, *, shown: ArrayLike | None = None, done: ArrayLike | None = None) -> None:
    """Draw the states at their positions and the transitions between them, wider where there are more visits.

    shown, done: (C,), policies, of the lesson and of the learner. The learner's lines are dashed, so that a route that
    both take shows both colours.
    """
    if domain.positions is None:
        raise InvalidInput("the states of this domain have no positions; give Domain(..., positions=...)")
    mdp = domain.mdp
    rows = mdp.transition.tocoo()
    ends, drawn = _draw_ways(axes, domain, domain.positions)
    flows = {}
    for kind, policy in (("shown", shown), ("done", done)):
        if policy is not None:
            flows[kind] = (rows.data * occupancy(mdp, policy)[rows.row])[drawn]
    largest = np.max([*flows.values()], initial=0.0) or 1.0
    handles: list[Artist] = []
    for kind, flow in flows.items():
        colour, dashes, share = LINES[kind]
        is_used = flow > 1e-3 * largest
        widths = share * (0.6 + 6.0 * flow[is_used] / largest)
        lines = LineCollection(list(ends[is_used]), colors=colour, linewidths=widths, linestyles=dashes)
        axes.add_collection(lines).set_zorder(2 + (kind == "done"))
        handles.append(Line2D([], [], color=colour, linewidth=3 * share + 0.5, linestyle=dashes, label=kind))
    is_placed = np.isfinite(domain.positions).all(axis=1)
    for label, marker, where in (("start", "o", mdp.initial > 0), ("goal", "*", absorbing_states(mdp))):
        marked = domain.positions[where & is_placed]
        # With a start in every state, marks would hide the map.
        if 0 < len(marked) <= 20:
            axes.scatter(*marked.T, marker=marker, label=label, **ENDS)
    axes.legend(handles=[*handles, *axes.get_legend_handles_labels()[0]], fontsize="small", frameon=False)


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
    mdp = domain.mdp
    chosen = check_policy(mdp, policy)
    visits = state_occupancy(mdp, chosen)
    states = [int(state) for state in np.argsort(-visits, kind="stable")[:n_states] if visits[state] > 0]
    for place, state in enumerate(states):
        choices = range(*mdp.first_choice[state : state + 2])
        widths = chosen[choices]
        colours = [look(number)["color"] for number in range(len(choices))]
        bars = axes.barh(place, widths, 0.8, np.cumsum(widths) - widths, color=colours, edgecolor="white", alpha=0.6)
        room = np.where(widths > 0.1, 40 * widths, 0).astype(int)
        texts = [as_text(domain.choice_name(choice))[:most] for choice, most in zip(choices, room, strict=True)]
        axes.bar_label(bars, texts, label_type="center", fontsize="small")
    axes.set_xlim(0, 1)
    names = [f"{as_text(domain.state_name(state))[:30]} ({visits[state]:.3g})" for state in states]
    _set_rows(axes, names, "probability of each choice; (discounted visits)")


def routes_picture(domain: Domain, shown: Shown) -> Figure:
    """The first four routes on the map of a domain, on its grid, or else as strips of the names of states."""
    figure = Figure(figsize=(7.0, 6.0), layout="constrained")
    axes = figure.subplots()
    at = places(domain)
    items = list(shown)[:4]
    if not np.isfinite(at).any():
        _draw_strips(axes, items)
        return figure
    _draw_ways(axes, domain, at)
    for number, item in enumerate(items):
        way = at[shown.demonstrations[number].states]
        way = way[np.isfinite(way).all(axis=1)]
        style: Style = {"color": COLOURS[number], "linewidth": 4.5 - number, "zorder": 3 + number}
        axes.plot(*way.T, label=item.text().partition(": ")[0], solid_capstyle="round", **style)
        # Labels that begin with an underscore are not in the legend.
        hidden = "_" * (number > 0)
        axes.scatter(*way[:1].T, marker="o", label=f"{hidden}start", **ENDS)
        axes.scatter(*way[-1:].T, marker="*", label=f"{hidden}end", **ENDS)
    axes.legend(fontsize="small", loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=3, frameon=False)
    return figure


def _draw_ways(axes: Axes, domain: Domain, at: Matrix) -> tuple[Matrix, Indices]:
    """A map of all moves between different places, in grey: (k, 2, 2), their ends, and (k,), the transition of each."""
    pairs, _, entries = ways(domain, np.arange(domain.mdp.n_choices), at)
    # The rests of budgets repeat every way.
    drawn = list(np.unique(at[pairs], axis=0))
    axes.add_collection(LineCollection(drawn, colors="0.85", linewidths=0.7, zorder=1))
    axes.autoscale_view()
    axes.set_aspect("equal")
    axes.set_axis_off()
    return at[pairs], entries


def _draw_strips(axes: Axes, items: Sequence[ShownDemonstration], most: int = 12) -> None:
    for row, item in enumerate(items):
        names = [as_text(state) for state, _ in item.steps]
        if len(names) > most:
            names = [*names[: most // 2], f"... {len(names) - most} more ...", *names[-(most // 2) :]]
        axes.plot(range(len(names)), [-row] * len(names), color=COLOURS[row], marker="o", linewidth=2)
        for place, name in enumerate(names):
            axes.annotate(name, (place, -row), (2, 5), textcoords="offset points", rotation=35, fontsize="x-small")
        heading = item.text().partition(": ")[0]
        axes.annotate(heading, (0, -row), (0, -16), textcoords="offset points", fontsize="small")
    axes.set_ylim(-len(items) + 0.3, 1.2)
    axes.set_xlim(-0.3, most + 1.5)
    axes.set_axis_off()


def save_picture(figure: Figure, stem: AnyPath) -> list[Path]:
    """Write stem.png and stem.svg, and return their paths; the layout of the figure is fixed from then on.

    A stem that ends in .png or .svg is taken without it.
    """
    place = without_suffix(Path(stem))
    if not place.name:
        raise InvalidInput(f"a picture needs a file name, such as {place / 'picture'}, got {str(stem)!r}")
    png = _rendered(figure, "png", dpi=150, metadata={"Software": None})
    # A dot in the stem does not start a suffix.
    contents = {Path(f"{place}.png"): png, Path(f"{place}.svg"): as_svg(figure).encode()}
    for path, content in contents.items():
        write_whole(path, content)
    return list(contents)


def without_suffix(picture: Path) -> Path:
    """The path of a picture without .png or .svg; a dot in its name starts no other suffix."""
    return picture.with_suffix("") if picture.suffix.lower() in (".png", ".svg") else picture


def as_svg(figure: Figure) -> str:
    """The picture as an SVG text; letters are paths, so that it needs no font."""
    # Without a salt, identifiers in an SVG are random.
    with rc_context({"svg.hashsalt": "tutelage", "svg.fonttype": "path"}):
        return _rendered(figure, "svg", metadata={"Date": None, "Creator": "Tutelage"}).decode()


def _rendered(figure: Figure, kind: str, **options: Any) -> bytes:
    # A layout engine starts from its last result, and would move the artists a little in every drawing.
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, **options)
    return buffer.getvalue()


def as_html(value: Any) -> str:
    """The HTML of a public object: its picture and its numbers, its text, or a table of its fields."""
    if isinstance(value, ObjectWorld):
        return _picture(lambda axes: draw_world(axes, value))
    if isinstance(value, Transcript):
        drawn = _picture(lambda axes: draw_rounds(axes, value)) if value.rounds else ""
        return f"{drawn}<pre>{escape(str(value))}</pre>"
    if isinstance(value, Response):
        rows: Iterable[Sequence[Any]] = zip(value.reward_names, value.lesson.expectation, value.compared, strict=True)
        proof = "no certificate" if value.certificate is None else f"certified gap {value.certificate.gap:.2g}"
        return f"{table(('feature', 'shown', 'done'), rows)}<p>{proof}</p>"
    if isinstance(value, Lesson):
        names = range(len(value.expectation)) if value.domain is None else value.domain.reward_names
        rows = zip(names, value.expectation, value.uncertainty, strict=True)
        return table(("feature", "shown", "uncertainty"), rows)
    if isinstance(value, Domain):
        kinds = ["reward"] * value.n_reward + ["preference"] * value.n_preference
        features = combined_features(value)
        rows = zip(kinds, value.names, features.min(axis=0), features.max(axis=0), strict=True)
        drawn = "" if value.positions is None else _picture(lambda axes: draw_map(axes, value))
        return f"<p>{escape(repr(value.mdp))}</p>{table(('kind', 'feature', 'least', 'largest'), rows)}{drawn}"
    kind: Any = type(value)
    if kind.__str__ is not object.__str__ or kind.__repr__ is not Readable.__repr__:
        return f"<pre>{escape(str(value))}</pre>"
    rows = ((part.name, brief(getattr(value, part.name))) for part in fields(kind) if part.repr)
    return table(("field", "value"), rows)


def _picture(draw: Callable[[Axes], None]) -> str:
    figure = Figure(figsize=(5.0, 3.2), layout="constrained")
    draw(figure.subplots())
    svg = as_svg(figure)
    return svg[svg.index("<svg") :]


def table(head: Sequence[str], rows: Iterable[Sequence[Any]], most: int = 12) -> str:
    given = list(rows)
    lines = []
    for number, cells in enumerate([head, *given[:most]]):
        kind = "td" if number else "th"
        texts = (f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in cells)
        lines.append("".join(f"<{kind}>{escape(text)}</{kind}>" for text in texts))
    more = f"<p>and {len(given) - most} more</p>" if len(given) > most else ""
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>{more}"
