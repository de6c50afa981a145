"""The paper's figures, and pictures of what was taught. Only Figures 1, 6 and 7, of one world, are computed here."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase

import tutelage as tl
from tutelage.arrays import ArrayLike
from tutelage.model.mdp import combined_features
from tutelage.model.names import AT_GOAL
from tutelage.pictures.domains import draw_features, draw_map
from tutelage.pictures.plots import Panel, draw_curves, draw_pushes, draw_reachable, draw_rounds, polygon, scale
from tutelage.pictures.world import deepest, draw_world, reward_scale, world_key
from tutelage.roles import limits_of
from tutelage.teachers.base import optimal_lesson

# The world of Figures 1, 6 and 7: only the stars have a green cell next to them, and objects never end the episode.
WORLD = tl.ObjectWorld(
    6, 0, {"star": (8, 34), "plus": (11, 24)}, {"green": (9, 28), "yellow": (30,)}, discount=0.95, end_probability=0.0
)
# The largest share of discounted time near a green cell, and pushes of the line search that are large enough to see.
LIMIT, PUSHES = 0.1, (2.0, 20.0)
LABELS = (r"$\pi_1 = \pi^*$", r"$\pi_2$", r"$\pi_3$")
MEANINGS = ("the best of all", r"the learner's answer to $\pi^*$", "the best that the learner accepts")


def illustrated() -> dict[str, Any]:
    """What Figures 1, 6 and 7 show of a learner that avoids green within one cell: corners (n, 2) and points (2,).

    Figure 6 pushes a learner at its optimum, where no push is realised, and at its first response. Figure 7 pushes from
    inside the accepted set: "start", "lesson" and "answer" are mu_L^i, mu_T^i+1 and mu_L^i+1. "avoided": (S,).
    """
    whole, weights = WORLD.domain(["green within 1 cell"]), WORLD.true_weights[:2]
    domain = replace(whole, reward_features=whole.reward_features[:, :2], reward_names=whole.reward_names[:2])
    learner = tl.HardLearner(domain, LIMIT * domain.mdp.steps)
    teacher = tl.LineSearchTeacher(domain, weights, *PUSHES)
    optimal = optimal_lesson(domain, weights)
    aware = tl.AwareCmdpTeacher(domain, weights, learner).plan().lesson
    answered = learner.respond(optimal).expectation.reward
    start = tl.expectation(domain, tl.uniform_policy(domain.mdp)).reward
    cases = []
    for point in (learner.respond(aware).expectation.reward, answered, start):
        push = teacher.push(point)
        aim = point + push.size * weights
        lesson = tl.Lesson.from_policy(domain, push.policy)
        cases.append({"start": point, "aim": aim, "lesson": lesson.expectation, "is_realised": push.is_realised})
    return {
        "reachable": tl.vertices(domain, tl.no_limits(domain)),
        "feasible": tl.vertices(domain, tl.preference_limits(domain, learner.violation_allowance)),
        "weights": weights,
        "avoided": domain.preference_features[:, 0] > 0,
        "points": {"optimal": optimal.expectation, "answered": answered, "aware": aware.expectation},
        "cases": cases[:2],
        "start": start,
        "lesson": lesson.expectation,
        "answer": learner.respond(lesson).expectation.reward,
    }


def figure1(world: tl.ObjectWorld, result: Mapping[str, Any]) -> Figure:
    """Figure 1: a world with the cells that the learner avoids, and the reachable expectations with three policies."""
    figure = Figure(figsize=(12.0, 4.6), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1.0, 1.7), squeeze=False)[0]
    grid = left.subplots()
    draw_world(grid, world, avoided=result["avoided"])
    grid.set_title("(a) the world and what the learner avoids", fontsize="medium")
    left.legend(handles=world_key(), loc="outside lower center", ncols=3, frameon=False, fontsize="small")
    plane = right.subplots()
    points = dict(zip(LABELS, result["points"].values(), strict=True))
    draw_reachable(plane, result["reachable"], result["feasible"], points, arrows=[LABELS[:2]])
    plane.set_title("(b) what policies collect", fontsize="medium")
    for drawn, meaning in zip(plane.lines, MEANINGS, strict=True):
        drawn.set_label(f"{drawn.get_label()}: {meaning}")
    legend(right, plane, loc="outside right center")
    return figure


def figure2(world: tl.ObjectWorld, weights: Mapping[str, Mapping[str, ArrayLike]]) -> Figure:
    """Figure 2: the cells that each learner avoids, and what it infers. weights: by teacher, then learner."""
    learners = list(next(iter(weights.values())))
    figure = Figure(figsize=(2.15 * len(learners) + 1.2, 2.15 * (1 + len(weights)) + 0.6), layout="constrained")
    grid = figure.subplots(1 + len(weights), len(learners), squeeze=False)
    for axes, learner in zip(grid[0], learners, strict=True):
        draw_world(axes, world, avoided=learner)
        axes.set_title(learner)
    inferred = [(learner, given[learner]) for given in weights.values() for learner in learners]
    _draw_inferred(figure, world, dict(zip(grid[1:].flat, inferred, strict=True)))
    for title, first in zip(("world", *weights), grid[:, 0], strict=True):
        first.set_ylabel(title)
    return figure


def rounds_figure(panels: Sequence[Panel]) -> Figure:
    """Figures 3 to 5, part (a), and the curves of sweeps: rewards over rounds, with one legend for all panels."""
    figure, drawn = panels_of(len(panels), 5.0, 3.8)
    groups: dict[str, list[Axes]] = {}
    for axes, panel in zip(drawn, panels, strict=True):
        draw_curves(axes, panel)
        groups.setdefault(panel.group, []).append(axes)
    for same in groups.values():
        limits = scale(end for axes in same for end in axes.get_ylim())
        for axes in same:
            axes.set_ylim(*limits)
    legend(figure, *drawn, ncols=max(1, int(figure.get_figwidth() // 2.8)))
    return figure


def panels_of(n: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """A figure with n panels, at most three beside each other. width, height: of one, in inches."""
    n_columns = min(n, 3)
    n_rows = math.ceil(n / n_columns)
    figure = Figure(figsize=(max(6.0, n_columns * width), n_rows * height + 0.6))
    # Without this room, letters would touch the edge of a picture that is drawn in more points than it was laid out.
    figure.set_layout_engine("constrained", w_pad=0.1)
    return figure, [figure.add_subplot(n_rows, n_columns, number + 1) for number in range(n)]


def line_search_figure(result: Mapping[str, Any]) -> Figure:
    """Figure 6: the line search (App. C.2)."""
    figure, (axes,) = panels_of(1, 6.4, 5.0)
    draw_pushes(axes, result["reachable"], result["cases"], result["weights"])
    axes.set_title(r"Each lesson is the learner's point, pushed along the true weights $w^*$", fontsize="medium")
    legend(figure, axes, ncols=2)
    return figure


def proof_figure(result: Mapping[str, Any]) -> Figure:
    """Figure 7: the triangle in the proof of Proposition 1 (App. C.2.1), turned so that the true weights point up."""
    up = np.asarray(result["weights"]) / np.linalg.norm(result["weights"])
    turn = np.array([[up[1], -up[0]], up])
    if turn[0] @ np.subtract(result["answer"], result["start"]) < 0:
        turn[0] *= -1
    start, lesson, answer = (turn @ result[name] for name in ("start", "lesson", "answer"))
    corners = polygon(result["feasible"]) @ turn.T
    # The right-angled corner, at the height of the answer: the slopes of both sides at it multiply to -1.
    gain = answer[1] - start[1]
    steepest = math.sqrt(gain / (lesson[1] - answer[1]))
    corner = np.array([start[0] + gain / steepest, answer[1]])
    figure = Figure(figsize=(8.4, 5.2), layout="constrained")
    axes = figure.subplots()
    axes.fill(*corners.T, color="0.9", label=r"$\Omega_r^L$, what the learner accepts")
    axes.plot(*np.array([start, lesson, corner, start]).T, "k-", lw=1, label=r"the right triangle of the proof")
    axes.plot([start[0], corner[0]], [answer[1]] * 2, "r-", lw=3, label=r"where $\mu_L^{i+1}$ can be")
    ends = np.array([start[0], corners[:, 0].max()])
    slope = (answer[0] - lesson[0]) / (lesson[1] - answer[1])
    axes.plot(ends, answer[1] + slope * (ends - answer[0]), "b--", label=r"$\ell$: no accepted point is above")
    axes.plot(ends, start[1] + steepest * (ends - start[0]), "b:", label=r"$\tilde\ell$: at least as steep as $\ell$")
    labels = {r"$\mu_L^i$": start, r"$\mu_T^{i+1}$": lesson, r"$\mu_L^{i+1}$": answer, r"$\tilde\mu$": corner}
    for (label, point), beside in zip(labels.items(), ((9, -8), (9, 2), (-34, 8), (9, -10)), strict=True):
        axes.plot(*point, "ko", ms=5)
        axes.annotate(label, tuple(point), xytext=beside, textcoords="offset points")
    axes.annotate("", (start[0], answer[1]), start, arrowprops={"arrowstyle": "<->", "color": "r"})
    axes.annotate(r"$\Delta R_i$", (start[0], (start + answer)[1] / 2), xytext=(-34, 0), textcoords="offset points")
    axes.set(xlabel="across the true weights", ylabel=r"reward, in units of $\Vert w^* \Vert_2$", aspect="equal")
    figure.legend(loc="outside right center", frameon=False)
    return figure


def demo_picture(world: tl.ObjectWorld, weights: Sequence[ArrayLike], panel: Panel) -> Figure:
    """The cells that L3 avoids, the rewards that it infers from the agnostic and the aware teacher, and a panel."""
    figure = Figure(figsize=(12.0, 7.4), layout="constrained")
    upper, lower = figure.subfigures(2, 1, height_ratios=(1.25, 1.0), squeeze=False)[:, 0]
    first, *others = upper.subplots(1, 3)
    draw_world(first, world, avoided="L3")
    first.set_title("Learner L3 collects objects\nand avoids the grey cells", fontsize="medium")
    for axes, what in zip(others, ("ignores", "knows"), strict=True):
        axes.set_title(f"The reward that it infers from a teacher\nthat {what} its preferences", fontsize="medium")
    inferred = {axes: ("L3", given) for axes, given in zip(others, weights, strict=True)}
    _draw_inferred(upper, world, inferred, is_outlined=True)
    axes = lower.subplots()
    draw_curves(axes, panel)
    legend(lower, axes, loc="outside right center")
    return figure


def domain_picture(
    domain: tl.Domain,
    transcript: tl.Transcript,
    limits: Mapping[str, float],
    world: tl.ObjectWorld | None = None,
    learner: str = "L5",
) -> Figure:
    """The last round in any domain. limits: the learner's, if they are known. world: the object world, if it is one."""
    lesson = transcript.final.lesson
    response = transcript.final.response
    parts: dict[str, Callable[[Axes], object]] = {}
    # The time at a goal would make all other bars too short to be seen.
    drawn = [i for i, name in enumerate(domain.reward_names) if name != AT_GOAL] or [0]
    bars = {"shown": lesson.expectation[drawn], "done": response.expectation.reward[drawn]}
    errors = {"shown": lesson.uncertainty[drawn]} if lesson.uncertainty.any() else None
    names = [domain.reward_names[i] for i in drawn]
    parts["what is rewarded"] = lambda axes: draw_features(axes, names, bars, errors=errors)
    if domain.n_preference:
        avoided = domain.preference_names
        allowed = np.array([limits.get(name, np.inf) for name in avoided]) if limits else None
        counts = {} if lesson.policy is None else {"shown": tl.expectation(domain, lesson.policy).preference}
        counts["done"] = response.expectation.preference
        parts["what the learner avoids"] = lambda axes: draw_features(axes, avoided, counts, allowed=allowed)
    parts["true reward"] = lambda axes: draw_rounds(axes, transcript)
    if domain.positions is not None:
        parts["where they go"] = lambda axes: draw_map(axes, domain, shown=lesson.policy, done=response.policy)
    if world is not None:
        parts[f"what {learner} does"] = lambda axes: draw_world(axes, world, avoided=learner, policy=response.policy)
        weights = response.feature_weights
        if weights is not None:
            parts["the reward that it acts as if it had"] = lambda axes: _draw_inferred(
                figure, world, {axes: (learner, weights)}, is_outlined=True
            )
    figure, panels = panels_of(len(parts), 4.4, 4.2)
    for axes, (title, draw) in zip(panels, parts.items(), strict=True):
        draw(axes)
        axes.set_title(title, fontsize="medium")
    return figure


def plane_picture(domain: tl.Domain, learner: tl.Learner, final: tl.TaughtRound, names: tuple[str, str]) -> Figure:
    """What policies collect of two features, the lesson and the response; what a learner with linear limits accepts."""
    columns = [domain.reward_names.index(name) for name in names]
    flat = replace(domain, reward_features=domain.reward_features[:, columns], reward_names=names)
    known = getattr(learner, "preference", None)
    accepted = None
    if isinstance(known, tl.Preference) and known.is_hard and known.rows is None and not known.functions:
        accepted = tl.vertices(flat, tl.preference_limits(flat, limits_of(learner, domain)))
    reached = {"shown": final.lesson.expectation, "done": final.response.expectation.reward}
    points = {name: values[columns].tolist() for name, values in reached.items()}
    figure, (axes,) = panels_of(1, 7.0, 4.4)
    reachable = tl.vertices(flat, tl.no_limits(flat))
    draw_reachable(axes, reachable, accepted, points, arrows=[("shown", "done")], labels=names)
    legend(figure, axes, ncols=4)
    return figure


def legend(figure: FigureBase, *several: Axes, loc: Any = "outside lower center", **options: Any) -> None:
    """One legend for the labelled artists of the axes, each label once."""
    labelled = [pair for axes in several for pair in zip(*axes.get_legend_handles_labels(), strict=True)]
    handles = {label: handle for handle, label in labelled}
    figure.legend(handles.values(), handles, loc=loc, frameon=False, **options)


def _draw_inferred(
    figure: FigureBase, world: tl.ObjectWorld, inferred: Mapping[Axes, tuple[str, ArrayLike]], is_outlined: bool = False
) -> None:
    """The rewards <w_lambda, phi(s)> in one scale of colours. inferred: learners with their weights (d_r + d_c,)."""
    rewards = [combined_features(world.domain(name)) @ np.asarray(weights) for name, weights in inferred.values()]
    largest, limit = float(np.max(rewards)), deepest(world, *rewards)
    # Penalties of several preferences add up to several times the rewards, which would then be pale.
    limit = min(limit, 2 * largest) if largest > 1e-9 * limit else limit
    for (axes, (learner, _)), reward in zip(inferred.items(), rewards, strict=True):
        draw_world(axes, world, avoided=learner if is_outlined else None, reward=reward, vmax=limit)
    bar = figure.colorbar(reward_scale(limit), ax=list(inferred), extend="both", shrink=0.9, aspect=30)
    bar.set_label("inferred reward (red and $-$: negative)")
    figure.legend(handles=world_key(), loc="outside lower center", ncols=7, frameon=False)
