"""The arena of `docs/arena.md`: teachers and learners of the literature against each other, and their preferences."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import networkx
import numpy as np
from matplotlib.figure import Figure

import tutelage as tl
from tutelage import registry
from tutelage.arrays import Flags, Indices, Vector
from tutelage.experiments.means import Mean, as_text, draw_means
from tutelage.experiments.sweeps import Sweep
from tutelage.experiments.tables import Grid, pivot
from tutelage.teachers.base import best_kept

KINDS = ("none", "soft", "hard")
AWARE = "aware "
BOUND = "the bound itself"
GAIN = "reward with aware teachers less without"
LEARNERS = ("maximum entropy", "projection", "sequential", "cloning", "Bayesian", "apprentice")
TEACHERS = ("random", "set cover", "omniscient", "black box", "curriculum")
N_SHOWN, N_ROUNDS, N_CANDIDATES = 2, 6, 10
STEPS = ((0, 1), (0, -1), (1, 0), (-1, 0))
# Deep-sea-treasure: the row of the treasure in each column but the last, the first row of deep water, and the worths.
DEPTHS, DEEP = (1, 2, 3, 4, 4, 4, 7, 7, 9, 10), 4
TREASURES = (0.7, 8.2, 11.5, 14.0, 15.1, 16.1, 19.6, 20.3, 22.4, 23.7)
# C_r and C_c of soft learners, and the limits as a share of the way from the least counts to those of the optimum.
MISMATCH, VIOLATION, LIMIT_SHARE = 5.0, 2.0, 0.3
GRADIENT: Mapping[str, Any] = {"rate": 0.5, "n_steps": 5}


def limited(domain: tl.Domain, weights: Vector) -> tuple[tl.Domain, Vector]:
    """The domain with preference features in units of what its learner accepts, so that every limit is one."""
    strictest = tl.strictest_policy(domain, weights, tl.preference_limits(domain, 0.0))
    optimum = tl.solve_hard(domain.mdp, domain.reward_features @ weights).policy
    least = strictest.expectation.preference
    accepted = least + np.maximum(LIMIT_SHARE * (tl.expectation(domain, optimum).preference - least), 1e-3)
    return domain.with_matrices(domain.reward_features, domain.preference_features / accepted), weights


def moves_on(is_open: Flags) -> Indices:
    """(n, 4), the cell after each move on a map (rows, columns), by number; a move that is blocked stays."""
    rows, columns = is_open.shape
    y, x = np.divmod(np.arange(is_open.size), columns)
    to = [np.clip(y + dy, 0, rows - 1) * columns + np.clip(x + dx, 0, columns - 1) for dy, dx in STEPS]
    return np.stack([np.where(is_open.ravel()[cell], cell, np.arange(is_open.size)) for cell in to], axis=1)


def feature_grid(seed: int, size: int = 6, n_features: int = 4) -> tuple[tl.Domain, Vector]:
    """SCOT's worlds: a grid whose cells have one feature each at random, and random weights of length one."""
    rng = np.random.default_rng(seed)
    transition = np.eye(size * size)[moves_on(np.ones((size, size), dtype=np.bool_))]
    mdp = tl.MDP.from_arrays(transition, initial=np.full(size * size, 1 / size**2), discount=0.9)
    features = np.eye(n_features)[rng.integers(n_features, size=size * size)]
    weights = rng.normal(size=n_features)
    weights /= np.linalg.norm(weights)
    avoided = features[:, [int(weights.argmax())]]
    names = tuple(f"feature {k}" for k in range(n_features))
    return limited(tl.Domain(mdp, features, avoided, names, ("the best feature",)), weights)


def treasure(seed: int) -> tuple[tl.Domain, Vector]:
    """MO-Gymnasium's deep-sea-treasure, started anywhere: a treasure ends the dive; the learner avoids deep water."""
    depth = np.append(DEPTHS, max(DEPTHS) + 1)
    y, x = np.divmod(np.arange(len(depth) * max(depth)), len(depth))
    is_water = y < depth[x]
    end = int(is_water.sum())
    number = np.where(is_water, np.cumsum(is_water) - 1, end)
    to = moves_on((y <= depth[x]).reshape(-1, len(depth)))[is_water]
    transition = np.eye(end + 1)[np.vstack([number[to], np.full(len(STEPS), end)])]
    mdp = tl.MDP.from_arrays(transition, initial=np.append(np.full(end, 1 / end), 0.0), discount=0.95)
    worth = np.where(y == depth[x], np.append(TREASURES, 0.0)[x], 0.0)
    steps = np.stack([worth[to] / 10, np.ones(to.shape)], axis=-1)
    features = np.append(steps, np.zeros((1, len(STEPS), 2)), axis=0).reshape(-1, 2)
    deep = np.append(y[is_water] >= DEEP, False).repeat(len(STEPS))[:, None].astype(np.float64)
    domain = tl.Domain(mdp, features, deep, ("tens of treasure", "steps"), ("deep water",))
    return limited(domain, np.array([10.0, -np.random.default_rng(seed).uniform(0.3, 1.0)]))


def street_map(seed: int, size: int = 7) -> tuple[tl.Domain, Vector]:
    """Streets on a grid: minutes and litres by class of street; the learner avoids main streets, which are fast."""
    rng = np.random.default_rng(seed)
    streets = networkx.DiGraph()
    grid = networkx.grid_2d_graph(size, size)
    main = rng.choice(size, size=2, replace=False).tolist()
    for one, other in grid.edges:
        is_main = any(one[axis] == other[axis] in main for axis in (0, 1))
        minutes = rng.uniform(0.5, 1.0) if is_main else rng.uniform(1.5, 3.0)
        told = {"minutes": minutes, "litres": rng.uniform(0.5, 1.5), "main": float(is_main)}
        streets.add_edge(str(one), str(other), **told)
        streets.add_edge(str(other), str(one), **told)
    start = {str(cell): 1 / (2 * size) for cell in grid.nodes if cell[0] == 0 or cell[0] == size - 1}
    costs: dict[str, Any] = {"reward_attributes": ["minutes", "litres"], "preference_attributes": ["main"]}
    domain = tl.from_graph(streets, **costs, start=start, goals=[str((size // 2, size // 2))], discount=0.95)
    return limited(domain, np.array([-1.0, -0.3, 0.0]))


def objects(seed: int) -> tuple[tl.Domain, Vector]:
    world = tl.object_world(7, seed)
    domain = world.domain("L3")
    anywhere = domain.starting_in(np.full(domain.mdp.n_states, 1 / domain.mdp.n_states))
    return limited(anywhere, world.true_weights)


def driving(seed: int) -> tuple[tl.Domain, Vector]:
    world = tl.driving_world(seed)
    return limited(world.domain, world.true_weights)


WORLDS: Mapping[str, Callable[[int], tuple[tl.Domain, Vector]]] = {
    "feature grid": feature_grid,
    "objects": objects,
    "streets": street_map,
    "treasure": treasure,
    "driving": driving,
}


def make_learner(domain: tl.Domain, seed: int, *, name: str, kind: str) -> tl.Learner:
    if name == "sequential" and kind == "soft":
        return tl.SequentialLearner(domain, **GRADIENT, violation_penalty=VIOLATION, violation_allowance=1.0)
    no_rows = np.zeros((0, domain.n_preference))
    entropic = partial(tl.GenericLearner, domain, tl.Mismatch(penalty=MISMATCH))
    inner: dict[str, Callable[[], tl.Learner]] = {
        "maximum entropy": lambda: tl.GatheringLearner(entropic(tl.Preference(rows=no_rows))),
        "projection": lambda: tl.GatheringLearner(tl.HardLearner(domain, [], rows=no_rows)),
        "sequential": lambda: tl.SequentialLearner(domain, **GRADIENT),
        "cloning": lambda: tl.CloningLearner(domain),
        "Bayesian": lambda: tl.BayesianLearner(domain, rationality=2.0, rng=seed),
        "apprentice": lambda: tl.GatheringLearner(tl.ApprenticeLearner(domain, max_steps=30)),
    }
    learner = inner[name]()
    if kind == "none":
        return learner
    soft = entropic(tl.Preference(penalty=VIOLATION, allowance=1.0))
    return tl.PreferringLearner(learner, tl.HardLearner(domain, 1.0) if kind == "hard" else soft)


def make_teacher(
    domain: tl.Domain, true_weights: Vector, learner: Any, seed: int, *, name: str, is_aware: bool
) -> tl.Teacher:
    """A teacher of a name; aware: its demonstrations keep the learner's preferences."""
    maker: Callable[..., tl.Teacher] = registry.TEACHERS[name.replace(" ", "_")].made_by
    budget = {"n_demonstrations": N_SHOWN, "max_starts": N_CANDIDATES, "max_lessons": N_ROUNDS}
    return maker(domain, true_weights, learner, aware=is_aware, **budget, rng=seed)


def bound(true_weights: Vector, learner: Any) -> float:
    """The reward of the best policy, within the limits where they are hard; computed once, not in each round."""
    return _bound(learner, *true_weights)


@lru_cache(maxsize=1)
def _bound(learner: Any, *weights: float) -> float:
    preference = getattr(learner, "preference", None)
    if preference is not None and preference.is_hard:
        return best_kept(learner, np.array(weights)).bound
    return tl.best_policy(learner.domain, weights, tl.no_limits(learner.domain)).bound


def count(response: Any) -> float:
    """What the learner does of everything that it might avoid."""
    return float(response.expectation.preference.sum())


def plan(n_seeds: int, *, is_quick: bool) -> dict[str, Any]:
    """What `sweep` computes: all worlds, or two small ones."""
    worlds = list(WORLDS)[: 2 if is_quick else None]
    return {
        "seeds": list(range(n_seeds)),
        "domain": [{"name": name, "domain": WORLDS[name], "group": name} for name in worlds],
        "teacher": {"name": list(offer()["teachers"]), "max_rounds": N_ROUNDS},
    }


def offer() -> dict[str, Any]:
    """Learners by name and kind of preferences; plain teachers and aware ones; the bound, and what is avoided."""
    learners = {f"{name}, {kind}": partial(make_learner, name=name, kind=kind) for name in LEARNERS for kind in KINDS}
    teachers = {
        f"{AWARE}{name}" if is_aware else name: partial(make_teacher, name=name, is_aware=is_aware)
        for name in TEACHERS
        for is_aware in (False, True)
    }
    return {"learners": learners, "teachers": teachers, "metrics": {"most": bound, "avoided": count}}


def is_repeated(task: Any) -> bool:
    """Whether a task is that of the same teacher without awareness: where there is no preference to be aware of."""
    return bool(task.model.model.endswith(", none") and task.teacher.name.startswith(AWARE))


def tables(rows: Sequence[Mapping[str, Any]]) -> Iterator[Grid]:
    """For each world and kind of preferences the regrets, with the bound in the last row; then what awareness gains."""
    regrets = [dict(row, regret=None if row["failed"] else row["most"] - row["reward"]) for row in rows]
    regrets += [dict(row, teacher=BOUND, regret=row["most"]) for row in rows if not row["failed"]]
    texts: dict[tuple[str, str], dict[tuple[str, ...], str]] = {}
    for mean in Sweep(tuple(regrets)).means("regret"):
        learner, kind = mean.learner.split(", ")
        text = f"{mean.reward:.2f}" if mean.teacher == BOUND else as_text(mean)
        texts.setdefault((f"{mean.domain}, {kind}: bound less reward", "teacher"), {})[mean.teacher, learner] = text
    for mean in gains(rows):
        texts.setdefault((f"{mean.teacher}: {GAIN}", "world"), {})[mean.domain, mean.learner] = as_text(mean)
    for (caption, corner), cells in texts.items():
        yield pivot(caption, (corner,), cells)


def gains(rows: Sequence[Mapping[str, Any]]) -> list[Mean]:
    """What awareness gains, over seeds: of each the mean over pairs of teachers. teacher: the kind of preferences."""
    taught = [row for row in rows if not row["model"].endswith(", none")]
    halves = [dict(row, teacher=AWARE if row["teacher"].startswith(AWARE) else "plain") for row in taught]
    gained = []
    for mean in Sweep(tuple(halves)).means(against="plain"):
        if mean.teacher == AWARE:
            learner, kind = mean.learner.split(", ")
            gain = replace(mean, reward=mean.difference, standard_error=mean.difference_error, n_failed=0)
            gained.append(replace(gain, learner=learner, teacher=kind))
    return gained


def figure(rows: Sequence[Mapping[str, Any]]) -> Figure:
    return draw_means(gains(rows), GAIN)


def broken_bounds(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return [
        f"{row['domain']}, {row['learner']}, {row['teacher']}, seed {row['seed']}: {max(row['reward_by_round']):.6g}"
        for row in rows
        if not row["failed"] and max(row["reward_by_round"]) > row["most"] + 1e-5 * (1 + abs(row["most"]))
    ]
