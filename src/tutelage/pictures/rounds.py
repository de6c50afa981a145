"""Rewards over rounds (Figures 3 to 5): solid for the learner, dotted for the teacher, flat for fixed teachers."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from tutelage.transcripts import Transcript

# Of the palette of Okabe and Ito, which colour-blind readers can distinguish: blue, vermilion, green and purple first.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
MARKERS = ("o", "s", "^", "D", "v", "*")
DASHES = ((0, (8, 2)), (0, (5, 2, 1, 2)), (0, (3, 3)), (0, (1, 1, 4, 1)))


@dataclass(frozen=True, slots=True)
class Curve:
    """The rewards of one adaptive teacher.

    label: the teacher's name.
    learner, teacher: the reward of the learner's response and of the lesson, in rounds 1 .. n.
    error: the standard error of the learner's reward in each round, or empty.
    """

    label: str
    learner: Sequence[float]
    teacher: Sequence[float]
    error: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class Panel:
    """Several curves in one pair of axes; lines: the constant reward of each teacher that does not adapt."""

    title: str
    curves: Sequence[Curve]
    lines: Mapping[str, float] = field(default_factory=dict)


def draw_curves(axes: Axes, panel: Panel) -> None:
    """Draw the curves without a legend, because several panels may share one."""
    n_rounds = max((len(curve.learner) for curve in panel.curves), default=1)
    for index, (label, height) in enumerate(panel.lines.items()):
        dashes = DASHES[index % len(DASHES)]
        axes.axhline(height, color="0.25", linewidth=1.1, linestyle=dashes, label=label, zorder=1.5)
    for index, curve in enumerate(panel.curves):
        _draw_curve(axes, curve, index)
    margin = 0.5 if n_rounds == 1 else 0.02 * (n_rounds - 1)
    axes.set(xlim=(1 - margin, n_rounds + margin), xticks=round_ticks(n_rounds))
    axes.set(title=panel.title, xlabel="teaching round", ylabel="expected reward")
    axes.spines[["top", "right"]].set_visible(False)


def draw_rounds(axes: Axes, transcript: Transcript) -> None:
    """Draw the true reward of each lesson and of the learner's response to it, and the bound, if there is one."""
    done = [taught.response_reward for taught in transcript.rounds]
    curve = Curve("rounds", done, [taught.lesson_reward for taught in transcript.rounds])
    bound = transcript.final.bound
    draw_curves(axes, Panel("rewards", [curve], {"no lesson gets more": bound} if math.isfinite(bound) else {}))
    axes.set_title("true reward", fontsize="medium")
    handles, labels = axes.get_legend_handles_labels()
    axes.legend(handles, [label.removeprefix("rounds: ") for label in labels], fontsize="small", frameon=False)


def round_ticks(n_rounds: int) -> list[int]:
    """Every round up to 12 rounds; otherwise the first, and about ten multiples of a round number."""
    if n_rounds <= 12:
        return list(range(1, n_rounds + 1))
    step = next(5 * unit * 10**power for power in range(12) for unit in (1, 2, 4) if n_rounds <= 60 * unit * 10**power)
    return [1, *range(step, n_rounds + 1, step)]


def _draw_curve(axes: Axes, curve: Curve, index: int) -> None:
    rounds = np.arange(1, len(curve.learner) + 1)
    colour, marker = COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)]
    # About a dozen markers per curve, shifted between curves so that the markers of close curves do not overlap.
    step = max(1, len(rounds) // 12)
    first = (index * step) // 2 % step
    common: dict[str, Any] = {"color": colour, "marker": marker, "markevery": (first, step), "markersize": 5.0}
    axes.plot(rounds, curve.learner, linewidth=1.8, label=f"{curve.label}: learner", zorder=3, **common)
    dotted: dict[str, Any] = {"linewidth": 1.4, "linestyle": ":", "markerfacecolor": "white"}
    axes.plot(rounds, curve.teacher, label=f"{curve.label}: teacher", zorder=2.5, **dotted, **common)
    if len(curve.error):
        middle, spread = np.asarray(curve.learner, dtype=float), np.asarray(curve.error, dtype=float)
        axes.fill_between(rounds, middle - spread, middle + spread, color=colour, alpha=0.2, linewidth=0, zorder=2)
