"""Showing and doing: what learners make of people's demonstrations.

`python -m benchmarks.showing_and_doing FILE [PICTURE PICTURE_OF_PEOPLE]`

The people of Ho, Littman, MacGlashan, Cushman and Austerweil, "Showing versus doing: Teaching by demonstration" (NIPS
2016), experiment 1, walked from one side of a 6x5 grid to the goal on the other. Between them lie cells of three
colours. In each of eight tasks another set of colours was dangerous. Half of the people were told to do the task; the
other half to show a partner which colours are dangerous. FILE has their 464 walks as JSON; the authors of the paper
have the data, and this project does not ship them.

Each walk is a lesson of one demonstration for a soft learner without preferences. The learner judges a colour to be
dangerous if its learned weight is below a *cut*. Means and errors are over people: each has eight walks.
"""

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

import tutelage as tl

COLOURS, WIDTH, HEIGHT, DISCOUNT = "opc", 6, 5, 0.95
MOVES = {">": (1, 0), "<": (-1, 0), "^": (0, 1), "v": (0, -1)}
# The points of the experiment.
GOAL_POINTS, DANGER_POINTS = 10.0, -2.0
PENALTIES, CUTS = (1.0, 2.0, 5.0, 10.0), (0.0, -0.5, -1.0, -2.0)
# The trial of one learner that the table begins with: it knows of colours alone.
TRIAL_PENALTY, TRIAL_CUT = 5.0, 0.0
# An allowance that is more than all discounted steps together.
FREE = 2.0 / (1.0 - DISCOUNT)
Vector = NDArray[np.float64]
Cell = tuple[int, int]


class Walk(NamedTuple):
    """told_to: "do" or "show". dangers: three letters, x for a dangerous colour. cells: visited before the goal."""

    told_to: str
    person: int
    dangers: str
    cells: tuple[Cell, ...]
    moves: str


class Estimate(NamedTuple):
    """A mean over people, and its standard error."""

    mean: float
    error: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} ± {self.error:.3f}"


@dataclass(frozen=True, eq=False)
class Experiment:
    """The grid, bottom row first, with its start and goal; and the walks."""

    rows: tuple[str, ...]
    start: Cell
    goal: Cell
    walks: tuple[Walk, ...]

    @classmethod
    def read(cls, path: Path) -> "Experiment":
        stored: dict[str, Any] = json.loads(path.read_text())
        walks = tuple(
            Walk(w["told_to"], w["person"], w["colours"], tuple((x, y) for x, y in w["cells"]), "".join(w["moves"]))
            for w in stored["demonstrations"]
        )
        rows = tuple(reversed(stored["grid_top_row_first"]))
        (x, y), (goal_x, goal_y) = stored["start"], stored["goal"]
        return cls(rows, (x, y), (goal_x, goal_y), walks)

    @cached_property
    def cells(self) -> list[Cell]:
        return [(x, y) for y in range(HEIGHT) for x in range(WIDTH)]

    def after(self, cell: Cell, move: str) -> Cell:
        """The next cell; the border and the goal hold one."""
        x, y = cell[0] + MOVES[move][0], cell[1] + MOVES[move][1]
        return cell if cell == self.goal else (min(max(x, 0), WIDTH - 1), min(max(y, 0), HEIGHT - 1))

    def domain(self, *, has_goal: bool) -> tl.Domain:
        """Features of a choice: the colour of the cell that it enters and, where wanted, whether that is the goal.

        The one preference feature, "purple", is that of p.
        """
        transition = np.zeros((len(self.cells), len(MOVES), len(self.cells)))
        features = np.zeros((len(self.cells) * len(MOVES), len(COLOURS) + has_goal))
        for i, cell in enumerate(self.cells):
            for j, move in enumerate(MOVES):
                entered = self.after(cell, move)
                transition[i, j, self.cells.index(entered)] = 1.0
                kind = (COLOURS + "y" * has_goal).find(self.rows[entered[1]][entered[0]])
                if kind >= 0 and cell != self.goal:
                    features[len(MOVES) * i + j, kind] = 1.0
        initial = np.array([float(cell == self.start) for cell in self.cells])
        mdp = tl.MDP.from_arrays(transition, initial=initial, discount=DISCOUNT)
        names = ("o", "p", "c", "goal")[: features.shape[1]]
        return tl.Domain(mdp, features, features[:, [COLOURS.index("p")]], names, ["purple"])

    def lesson(self, domain: tl.Domain, walk: Walk) -> tl.Lesson:
        states = [*map(self.cells.index, walk.cells), self.cells.index(self.goal)]
        actions = [list(MOVES).index(move) for move in walk.moves]
        return tl.Lesson.from_demonstrations(domain, tl.Demonstrations.from_sequences(domain.mdp, [states], [actions]))

    def over_people(self, told_to: str, score: Callable[[Walk], float]) -> dict[int, float]:
        """The mean score of each person's walks."""
        by_person: dict[int, list[float]] = {}
        for walk in self.walks:
            if walk.told_to == told_to:
                by_person.setdefault(walk.person, []).append(score(walk))
        return {person: float(np.mean(scores)) for person, scores in by_person.items()}


def estimate(values: Iterable[float]) -> Estimate:
    each = np.array(list(values))
    return Estimate(float(each.mean()), float(each.std(ddof=1) / np.sqrt(len(each))))


def true_weights(dangers: str, n_features: int) -> Vector:
    """(n_features,), the points of each colour and of the goal in a task."""
    return np.array([DANGER_POINTS * (letter == "x") for letter in dangers] + [GOAL_POINTS])[:n_features]


@dataclass(frozen=True, eq=False)
class Reader:
    """A learner that reads walks; its answer to equal walks is computed once."""

    experiment: Experiment
    learner: Any
    answers: dict[tuple[tuple[Cell, ...], str], tl.Response]

    @classmethod
    def of(cls, experiment: Experiment, penalty: float, *, has_goal: bool) -> "Reader":
        """A soft learner without preferences: it may enter purple as often as it likes."""
        domain = experiment.domain(has_goal=has_goal)
        free = {"violation_penalty": 1.0, "violation_allowance": FREE}
        return cls(experiment, tl.SoftLearner(domain, mismatch_penalty=penalty, **free), {})

    def answer(self, walk: Walk) -> tl.Response:
        key = walk.cells, walk.moves
        if key not in self.answers:
            self.answers[key] = self.learner.respond(self.experiment.lesson(self.learner.domain, walk))
        return self.answers[key]

    def judged_right(self, response: tl.Response, dangers: str, cut: float) -> float:
        """The share of the three colours that the learner judges rightly."""
        weights = np.asarray(response.learned_weights)[: len(COLOURS)]
        return float(np.mean((weights < cut) == np.array([letter == "x" for letter in dangers])))

    def compared(self, cut: float) -> tuple[Estimate, Estimate, Estimate]:
        """Judged right after doing, after showing, and the difference."""
        return difference(self.experiment, lambda walk: self.judged_right(self.answer(walk), walk.dangers, cut))


def difference(experiment: Experiment, score: Callable[[Walk], float]) -> tuple[Estimate, Estimate, Estimate]:
    """Doing, showing, and showing less doing."""
    doing, showing = (estimate(experiment.over_people(told, score).values()) for told in ("do", "show"))
    return doing, showing, Estimate(showing.mean - doing.mean, float(np.hypot(doing.error, showing.error)))


def best_reward(domain: tl.Domain, weights: Vector) -> float:
    """The reward of an optimal policy."""
    return float(domain.mdp.initial @ tl.solve_hard(domain.mdp, domain.reward_features @ weights).value)


def own_share(experiment: Experiment) -> tuple[Estimate, Estimate, Estimate]:
    """What the people earned themselves, as a share of the optimum of their task."""
    domain = experiment.domain(has_goal=True)
    tasks = sorted({walk.dangers for walk in experiment.walks})
    weights = {dangers: true_weights(dangers, domain.n_reward) for dangers in tasks}
    optimum = {dangers: best_reward(domain, w) for dangers, w in weights.items()}
    lessons = {(w.cells, w.moves): experiment.lesson(domain, w).expectation for w in experiment.walks}

    def share(walk: Walk) -> float:
        return float(weights[walk.dangers] @ lessons[walk.cells, walk.moves]) / optimum[walk.dangers]

    return difference(experiment, share)


def judgements(experiment: Experiment) -> Iterator[str]:
    """The trial first, then every learner and cut."""
    yield "learner knows of        C_r   cut   after doing      after showing    difference"
    yield _row("colours", TRIAL_PENALTY, TRIAL_CUT, Reader.of(experiment, TRIAL_PENALTY, has_goal=False)) + "   (trial)"
    for knows, has_goal in (("colours", False), ("colours and goal", True)):
        for penalty in PENALTIES:
            reader = Reader.of(experiment, penalty, has_goal=has_goal)
            yield from (_row(knows, penalty, cut, reader) for cut in CUTS)


def _row(knows: str, penalty: float, cut: float, reader: Reader) -> str:
    return f"{knows:<20} {penalty:6g} {cut:5g}   " + "   ".join(map(str, reader.compared(cut)))


def teaching(experiment: Experiment, penalty: float, cut: float) -> Iterator[str]:
    """What a teacher would have shown who knows the learner, beside what people showed.

    Two aims. Reward: what the learner then earns; Aware-BiL plans for it. Judgement: how many colours are judged
    rightly; the best walk is chosen among all that people made in any task.
    """
    reader = Reader.of(experiment, penalty, has_goal=True)
    tasks = [Task.of(reader, dangers, cut) for dangers in sorted({walk.dangers for walk in experiment.walks})]
    yield "         aware lesson          optimum shown    best walk        walks with all colours judged rightly"
    yield "dangers  earns  bound judged   earns judged     judged moves     doing   showing"
    yield from map(str, tasks)
    aware = float(np.mean([task.plan.achieved for task in tasks]))

    def earned(walk: Walk) -> float:
        weights = true_weights(walk.dangers, reader.learner.domain.n_reward)
        return float(weights @ reader.answer(walk).expectation.reward) / aware

    def judged(walk: Walk) -> float:
        return reader.judged_right(reader.answer(walk), walk.dangers, cut)

    for what, score in (("learner's reward, as a share of the aware lesson's", earned), ("judged rightly", judged)):
        for told in ("do", "show"):
            scores = experiment.over_people(told, score).values()
            yield f"{what}, told to {told}: {estimate(scores)}, best person {max(scores):.3f}"


@dataclass(frozen=True, eq=False)
class Task:
    """A set of dangers: the plan of Aware-BiL, the answer to an optimal policy, and the best of all walks.

    judged: the share of colours judged rightly after the plan, the optimal policy and the best walk. all_right: the
    share of the walks made for this task after which all are, told to do and told to show.
    """

    dangers: str
    plan: tl.BilevelPlan
    agnostic: float
    best: Walk
    judged: tuple[float, float, float]
    all_right: tuple[float, float]

    @classmethod
    def of(cls, reader: Reader, dangers: str, cut: float) -> "Task":
        domain, walks = reader.learner.domain, reader.experiment.walks
        weights = true_weights(dangers, domain.n_reward)
        plan = tl.BilevelTeacher(domain, weights, reader.learner).plan()
        agnostic = tl.teach(tl.AgnosticTeacher(domain, weights), reader.learner).final.response
        judged = {walk: reader.judged_right(reader.answer(walk), dangers, cut) for walk in walks}
        best = max(walks, key=lambda walk: (judged[walk], -len(walk.moves)))
        right = [reader.judged_right(response, dangers, cut) for response in (plan.response, agnostic)]
        shares = [
            float(np.mean([judged[walk] == 1 for walk in walks if (walk.dangers, walk.told_to) == (dangers, told)]))
            for told in ("do", "show")
        ]
        reward = float(weights @ agnostic.expectation.reward)
        return cls(dangers, plan, reward, best, (right[0], right[1], judged[best]), (shares[0], shares[1]))

    def __str__(self) -> str:
        aware, agnostic, best = self.judged
        doing, showing = self.all_right
        return (
            f"{self.dangers:<7} {self.plan.achieved:6.2f} {self.plan.bound:6.2f} {aware:6.2f}  {self.agnostic:6.2f} "
            f"{agnostic:6.2f}     {best:6.2f} {len(self.best.moves):5d}     {doing:5.2f} {showing:9.2f}"
        )


def learners(experiment: Experiment) -> dict[str, Any]:
    """Learners of several kinds, who know of colours and goal; two of them avoid purple themselves."""
    domain = experiment.domain(has_goal=True)
    candidates = [true_weights(f"{o}{p}{c}", domain.n_reward) for o in "ox" for p in "ox" for c in "ox"]
    soft: Any = {"mismatch_penalty": TRIAL_PENALTY, "violation_penalty": TRIAL_PENALTY}
    return {
        "soft": Reader.of(experiment, TRIAL_PENALTY, has_goal=True).learner,
        "soft, avoids purple": tl.SoftLearner(domain, violation_allowance=0.0, **soft),
        "hard, without limits": tl.HardLearner(domain, FREE),
        "hard, never on purple": tl.HardLearner(domain, 0.0),
        "Bayesian, rationality 1": tl.BayesianLearner(domain, candidates),
        "Bayesian, rationality 5": tl.BayesianLearner(domain, candidates, rationality=5.0),
        "cloning": tl.CloningLearner(domain),
    }


def kinds(experiment: Experiment, cut: float) -> Iterator[str]:
    """Judgements and rewards of every kind of learner, the latter as shares of the optimum of all tasks together.

    Best walks: in each task the walk, of all that people made, after which the learner earns most.
    """
    tasks = sorted({walk.dangers for walk in experiment.walks})
    weights = {dangers: true_weights(dangers, len(COLOURS) + 1) for dangers in tasks}
    whole = float(np.mean([best_reward(experiment.domain(has_goal=True), weights[dangers]) for dangers in tasks]))
    heads = ("judged: doing", "showing", "earned: doing", "showing")
    yield f"{'learner':<25} {' '.join(f'{head:<15}' for head in heads)} best walks, best person"
    for name, learner in learners(experiment).items():
        reader = Reader(experiment, learner, {})

        def judged(walk: Walk, reader: Reader = reader) -> float:
            return reader.judged_right(reader.answer(walk), walk.dangers, cut)

        def earned(walk: Walk, dangers: str | None = None, reader: Reader = reader) -> float:
            return float(weights[dangers or walk.dangers] @ reader.answer(walk).expectation.reward) / whole

        # The multipliers of a projection are no weights of points, and a cloning learner has none.
        can_judge = isinstance(learner, tl.SoftLearner | tl.BayesianLearner)
        judgements_of = difference(experiment, judged)[:2] if can_judge else ("-", "-")
        rewards = difference(experiment, earned)[:2]
        best = np.mean([max(earned(walk, dangers) for walk in experiment.walks) for dangers in tasks])
        people = max(max(experiment.over_people(told, earned).values()) for told in ("do", "show"))
        cells = [f"{cell!s:<15}" for cell in (*judgements_of, *rewards)]
        yield f"{name:<25} {' '.join(cells)} {best:8.3f} {people:12.3f}"


def people_picture(experiment: Experiment, cut: float, path: Path) -> None:
    """One dot for each person: what the learner judges rightly after their walks, and what it earns."""
    reader = Reader.of(experiment, TRIAL_PENALTY, has_goal=True)
    figure = Figure(figsize=(6.5, 4.4), layout="constrained")
    axes = figure.subplots()
    for told, name, colour in (("do", "told to do", "#2b6cb0"), ("show", "told to show", "#dd6b20")):
        judged = experiment.over_people(told, lambda w: reader.judged_right(reader.answer(w), w.dangers, cut))
        earned = experiment.over_people(
            told, lambda w: float(true_weights(w.dangers, 4) @ reader.answer(w).expectation.reward)
        )
        # Shares are multiples of 1/24; a small shift by person keeps dots apart.
        at = np.array(list(judged.values())) + 0.008 * np.linspace(-1, 1, len(judged))
        axes.plot(at, list(earned.values()), "o", color=colour, alpha=0.7, label=name)
    tasks = sorted({walk.dangers for walk in experiment.walks})
    plans = [Task.of(reader, dangers, cut) for dangers in tasks]
    aware = float(np.mean([task.judged[0] for task in plans])), float(np.mean([task.plan.achieved for task in plans]))
    axes.plot(*aware, "k*", markersize=15, label="aware teacher (plans for reward)")
    axes.set(xlabel="colours judged rightly", ylabel="points that the learner earns itself, per task")
    axes.legend(loc="upper left")
    figure.savefig(path, dpi=110)


def picture(experiment: Experiment, dangers: str, path: Path) -> None:
    """The most frequent walk of a task among those told to do it and those told to show it, on the grid."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    paint = {"o": "#f4b183", "p": "#c5a5cf", "c": "#9fd3d3", "y": "#f7e463", ".": "white"}
    for axes, told, title in zip(figure.subplots(1, 2), ("do", "show"), ("told to do", "told to show"), strict=True):
        walks = [walk.moves for walk in experiment.walks if (walk.told_to, walk.dangers) == (told, dangers)]
        moves, n = Counter(walks).most_common(1)[0]
        for x, y in experiment.cells:
            letter = experiment.rows[y][x]
            axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=paint[letter], edgecolor="0.6"))
            name = "goal" if letter == "y" else letter + "!" * (dangers[COLOURS.find(letter)] == "x")
            axes.text(x - 0.4, y + 0.2, name if letter in COLOURS + "y" else "", color="0.35", fontsize=8)
        cells = [experiment.start]
        for move in moves:
            cells.append(experiment.after(cells[-1], move))
        at = np.array(cells, dtype=float) + np.linspace(-0.12, 0.12, len(cells))[:, None]
        axes.plot(*at.T, "o-", color="#1f4e79", linewidth=2, markersize=4)
        axes.set(xlim=(-0.6, 5.6), ylim=(-0.6, 4.6), aspect="equal", title=f"{title}: {n} of {len(walks)} people")
        axes.axis("off")
    figure.savefig(path, dpi=110)


def main(arguments: Sequence[str]) -> None:
    if len(arguments) not in (1, 3):
        usage = "usage: python -m benchmarks.showing_and_doing FILE [PICTURE PICTURE_OF_PEOPLE]"
        raise SystemExit(f"{usage}   (FILE: the walks of Ho et al. 2016 as JSON)")
    experiment = Experiment.read(Path(arguments[0]))
    if len(arguments) == 3:
        picture(experiment, "xoo", Path(arguments[1]))
        people_picture(experiment, CUTS[2], Path(arguments[2]))
    doing, showing, less = own_share(experiment)
    print(f"share of the optimum that people earned: doing {doing}, showing {showing}, difference {less}\n")
    print(*judgements(experiment), sep="\n")
    print(f"\nC_r = {TRIAL_PENALTY:g}, colours and goal, cut {CUTS[2]:g}")
    print(*teaching(experiment, TRIAL_PENALTY, CUTS[2]), sep="\n")
    print(f"\nKinds of learners, cut {CUTS[2]:g}")
    print(*kinds(experiment, CUTS[2]), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
