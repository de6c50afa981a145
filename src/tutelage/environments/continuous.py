"""Continuous worlds: a finite model of a step function on a box, by multilinear interpolation on a grid.

A state of the model is a point of the grid. After an action, the true next state x' lies in a cell of the grid with
2^d corners, and the model moves to each corner s with the probability w_s(x'), the weights of linear interpolation:

    sum over s of w_s(x') = 1        sum over s of w_s(x') s = x'

So the mean of the next state is exact, and V(x) = sum over s of w_s(x) V(s) is the interpolated value. At a true state
the one-step error of a policy pi with reward r is

    e(x) = sum over a of pi(a | x) (r(x, a) + discount E V(x')) - V(x)

It is zero at the points of the grid. What the policy earns in the true world from x_0 is V(x_0) plus the expected
discounted sum of e(x_t) along the way; `resolution_error` estimates the size of this sum from random points of the
visited cells. It falls with the square of the cells where V is smooth.
"""

import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.interpolate import NdBSpline

from tutelage.arrays import ArrayLike, Indices, Matrix, SparseRows, Vector, floats, generator, whole_number
from tutelage.chains.expectations import state_occupancy, successor_features
from tutelage.model.inputs import feature_matrix, takes_next_state
from tutelage.model.mdp import MDP, Domain
from tutelage.model.names import LAST_STATE
from tutelage.model.policy import check_policy
from tutelage.outcomes import InvalidInput, InvalidModel, report

# The most transitions of a model.
MOST_MOVES = 50_000_000
# A function of each kind of features, with their names.
_Given = Mapping[str, tuple[Callable[..., Any], Sequence[str]]]


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """What is known of a continuous world; `discretise` says what each part is.

    axes: the coordinates of the grid, one vector for each dimension. actions: values by name. noise: pairs of what
    `step` takes after the action, one value or nothing, and its probability.
    """

    step: Callable[..., Any]
    reward: Callable[..., Any]
    axes: tuple[Vector, ...]
    actions: Mapping[Hashable, Any]
    noise: tuple[tuple[tuple[Any, ...], float], ...]
    ends: Callable[[Vector], Any]

    @property
    def shares(self) -> Vector:
        """(W,), the probability of each value of the noise."""
        return np.array([share for _, share in self.noise])

    @property
    def box(self) -> Matrix:
        """(2, d), the lowest and the highest coordinates."""
        return np.array([[axis[0], axis[-1]] for axis in self.axes]).T

    def end_of(self, x: Vector) -> str:
        """The name of the end that a true state is, empty for none."""
        told = self.ends(x)
        if isinstance(told, str):
            return told
        return LAST_STATE if told else ""

    def weights(self, x: Matrix) -> SparseRows:
        """(n, points), the weights of the corners of the cell of each true state; one outside the box is moved in."""
        knots = tuple(np.concatenate([axis[:1], axis, axis[-1:]]) for axis in self.axes)
        given = NdBSpline.design_matrix(np.clip(x, *self.box), knots, 1)
        return sparse.csr_array((given.data, given.indices, given.indptr), (len(x), math.prod(map(len, self.axes))))

    def interpolated(self, x: Matrix, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """(n, ...), the values at true states, of values (S, ...) that begin with those of the points."""
        weights = self.weights(x)
        return np.asarray(weights @ values[: weights.shape[1]])

    def after(self, x: Vector, action: Hashable) -> list[Vector]:
        """The next state for each value of the noise."""
        states = []
        for drawn, _ in self.noise:
            state = np.asarray(self.step(x.copy(), self.actions[action], *drawn), dtype=np.float64)
            if state.shape != x.shape or not np.isfinite(state).all():
                place = f"at {x.tolist()} with the action {action!r}"
                raise InvalidModel(f"step gives {state} {place}; it must give {len(x)} finite numbers")
            states.append(state)
        return states

    def features(self, function: Callable[..., Any], x: Vector, action: Hashable, after: Iterable[Vector]) -> list[Any]:
        """What a function of (x, action), or of these and the next state, gives for each value of the noise."""
        value = self.actions[action]
        if takes_next_state(function):
            return [function(x, value, state) for state in after]
        return [function(x, value)] * len(self.noise)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Discretised(Domain):
    """A domain on the points of a grid, the last coordinate fastest, and after them its ends; see `discretise`."""

    world: World = field(kw_only=True)

    def policy_at(self, x: ArrayLike, policy: ArrayLike) -> Vector:
        """(A,), the probabilities of the actions at a true state: those at the corners of its cell, interpolated."""
        chances = np.asarray(policy, dtype=np.float64).reshape(self.mdp.n_states, -1)
        return np.asarray(self.world.interpolated(floats(x, "x", ndim=1)[None, :], chances)[0])

    def action_at(self, x: ArrayLike, policy: ArrayLike, *, rng: np.random.Generator) -> Any:
        """An action drawn at a true state, as the step function takes it."""
        taken = list(self.world.actions.values())
        return taken[rng.choice(len(taken), p=self.policy_at(x, policy))]

    def resolution_error(
        self, policy: ArrayLike, true_weights: ArrayLike, *, n: int = 4, rng: int | np.random.Generator = 0
    ) -> float:
        """An estimate of how far the predicted reward of a policy may be from what it earns in the true world.

        The expected discounted sum of |e(x)| of the module, where e at a visited point of the grid is the largest one
        among n random points of the cells around it.
        """
        checked = check_policy(self.mdp, policy)
        weights = floats(true_weights, "true_weights", ndim=1)
        value = successor_features(self, checked)[:, : self.n_reward] @ weights
        points = _points(self.world.axes)
        visits = state_occupancy(self.mdp, checked)[: len(points)]
        source = generator(rng)
        cell = np.array([axis[1] - axis[0] for axis in self.world.axes])
        total = 0.0
        for state in np.flatnonzero(visits > 1e-6 * visits.max()):
            near = points[state] + cell * source.uniform(-1, 1, size=(n, len(cell)))
            errors = [self._one_step_error(x, checked, weights, value) for x in np.clip(near, *self.world.box)]
            total += visits[state] * max(errors)
        return float(total)

    def _one_step_error(self, x: Vector, policy: Vector, weights: Vector, value: Vector) -> float:
        """|e(x)|; zero at an end."""
        world = self.world
        if world.end_of(x):
            return 0.0
        error = -world.interpolated(x[None, :], value)[0]
        for action, chance in zip(world.actions, self.policy_at(x, policy), strict=True):
            if chance > 0:
                after = world.after(x, action)
                earned, _ = feature_matrix(world.features(world.reward, x, action, after), (), "reward", str)
                goes_on = [not world.end_of(state) for state in after]
                later = goes_on * world.interpolated(np.array(after), value)
                error += chance * (world.shares @ (earned @ weights + np.ravel(self.mdp.discount)[0] * later))
        return float(abs(error))


def discretise(
    step: Callable[..., Any],
    *,
    low: ArrayLike,
    high: ArrayLike,
    shape: Sequence[int],
    actions: Sequence[Hashable] | Mapping[Hashable, Any],
    start: ArrayLike,
    discount: float,
    reward: Callable[..., Any],
    preference: Callable[..., Any] | None = None,
    noise: Mapping[Any, float] | None = None,
    ends: Callable[[Vector], Any] | None = None,
    goals: Sequence[str] | None = None,
    names: Sequence[str] = (),
    reward_names: Sequence[str] = (),
    preference_names: Sequence[str] = (),
) -> Discretised:
    """A finite model of a step function on a box, by linear interpolation on a grid.

    step(x, action): the next state, (d,); with noise, step(x, action, value). A state outside the box is moved to its
        border.
    low, high: (d,), the corners of the box. shape: the number of points along each dimension, at least two.
    actions: the actions, or a mapping from their names to what `step` takes.
    start: (d,), or (n, d) for n points that are equally likely.
    reward(x, action), preference(x, action): features at a true state, a number, a sequence or a dict by name; a
        function of (x, action, next state) counts its mean over the noise.
    noise: the probability of each value.
    ends(x): false, true, or the name of an end. A true next state that is an end leads to it, with no features from
        there on; so does a point of the grid. goals: the names of the ends that count as arrival; by default all.
    names: of the dimensions; a state is called "position -0.5, velocity 0.01".

    The model is a domain. `model.policy_at(x, policy)` and `model.action_at(x, policy, rng=...)` drive the true world,
    and `model.resolution_error(policy, true_weights)` estimates the error of its prediction.
    """
    lowest, highest = floats(low, "low", ndim=1), floats(high, "high", ndim=1)
    counts = [whole_number(size, "the shape", least=2) for size in shape]
    if not len(lowest) == len(highest) == len(counts) > 0 or not (lowest < highest).all():
        raise InvalidModel("low, high and shape need one number for each dimension, with low below high")
    table = dict(actions) if isinstance(actions, Mapping) else {action: action for action in actions}
    pairs = (((), 1.0),) if noise is None else tuple(((value,), share) for value, share in noise.items())
    n_moves = math.prod(counts) * len(table) * len(pairs) * 2 ** len(counts)
    if n_moves > MOST_MOVES:
        raise InvalidModel(f"a grid of {math.prod(counts)} points has {n_moves} transitions; give a coarser shape")
    axes = tuple(map(np.linspace, lowest, highest, counts))
    world = World(step, reward, axes, table, pairs, ends or (lambda x: False))
    features = {"reward": (reward, reward_names)}
    if preference is not None:
        features["preference"] = (preference, preference_names)
    return _model(world, floats(start, "start", ndim=np.ndim(start)), discount, goals, names, features)


def _model(
    world: World, start: Matrix, discount: float, goals: Sequence[str] | None, names: Sequence[str], features: _Given
) -> Discretised:
    starts, dimension = np.atleast_2d(start), len(world.axes)
    if not starts.size or starts.shape[1:] != (dimension,):
        raise InvalidModel(f"start must have {dimension} coordinates, or a row of so many for each start")
    points, n_actions = _points(world.axes), len(world.actions)
    at_points = [world.end_of(x) for x in points]
    moves = _walked(world, points, at_points)
    at_moves = [world.end_of(x) for x in moves]
    # The states are the points and then the ends, which lead to themselves.
    ends = list(dict.fromkeys(filter(None, at_points + at_moves)))
    number = {end: len(points) + i for i, end in enumerate(ends)}
    for name in goals or ():
        if name not in ends:
            raise InvalidInput(f"no state ends in the goal {name!r}; the ends are {', '.join(ends) or 'none'}")
    n_states = len(points) + len(ends)
    # A corner that is an end stands for this end.
    stands = np.array([number.get(end, point) for point, end in enumerate(at_points)])
    reached = _reached(world, moves, np.array([number.get(end, -1) for end in at_moves]), stands, n_states)
    mean = sparse.kron(sparse.eye_array(len(points) * n_actions), world.shares[None, :], format="csr")
    stays = sparse.eye_array(n_states, format="csr")[np.arange(len(points), n_states).repeat(n_actions)]
    mdp = MDP.from_choices(
        sparse.vstack([mean @ reached, stays]),
        np.arange(n_states + 1) * n_actions,
        _reached(world, starts, np.full(len(starts), -1), stands, n_states).mean(axis=0),
        discount,
        goals=[number[name] for name in (ends if goals is None else goals)],
        state_names=[*_point_names(world, names), *ends],
        choice_names=list(world.actions),
    )
    positions = np.vstack([points, np.full((len(ends), 2), np.nan)]) if len(world.axes) == 2 else None
    steps = list(itertools.product(points, world.actions))
    n_steps, n_values = len(steps), len(world.noise)
    parts: dict[str, Any] = {}
    for kind, (function, told) in features.items():
        values = []
        for (x, action), after in zip(steps, moves.reshape(n_steps, n_values, -1), strict=True):
            values += world.features(function, x, action, after)
        known, columns = feature_matrix(values, told, kind, lambda row: mdp.names.describe_choice(row // n_values))
        matrix = np.pad(mean @ known, ((0, mdp.n_choices - n_steps), (0, 0)))
        matrix[np.repeat(stands >= len(points), n_actions).nonzero()] = 0.0
        parts |= {f"{kind}_features": matrix, f"{kind}_names": columns}
    return Discretised(mdp, positions=positions, world=world, **parts)


def _points(axes: Sequence[Vector]) -> Matrix:
    """(n, d), the points of the grid, the last coordinate fastest."""
    return np.array(list(itertools.product(*axes)))


def _walked(world: World, points: Matrix, ends: Sequence[str]) -> Matrix:
    """(n A W, d), the true next states, W of the noise."""
    moves: list[Vector] = []
    for row, (point, end) in enumerate(zip(points, ends, strict=True), 1):
        for action in world.actions:
            # What follows an end does not matter, and a step function may refuse it.
            moves += [point] * len(world.noise) if end else world.after(point, action)
        if row % 1_000 == 0:
            report("points of the grid", row, len(points) - row)
    return np.array(moves)


def _reached(world: World, x: Matrix, ends: Indices, stands: Indices, n_states: int) -> SparseRows:
    """(k, S), the weights of the corners of the cells of true states, all for the end where a true state is one.

    ends: (k,), the states of these ends, or -1. stands: (points,), the state of each point.
    """
    corners = world.weights(x)
    end = ends.repeat(np.diff(corners.indptr))
    states = np.where(end < 0, stands[corners.indices], end)
    return sparse.csr_array((corners.data, states, corners.indptr), (len(x), n_states))


def _point_names(world: World, names: Sequence[str]) -> list[str]:
    """ "position -0.5, velocity 0.01"; coordinates have as many digits as tell the points apart."""
    given = list(names) or [f"x{i}" for i in range(len(world.axes))]
    if len(given) != len(world.axes):
        raise InvalidModel(f"names must have one name for each of the {len(world.axes)} dimensions, got {given}")
    texts = []
    for name, axis in zip(given, world.axes, strict=True):
        digits = max(0, 1 - int(np.floor(np.log10(axis[1] - axis[0]))))
        texts.append([f"{name} {value:.{digits}f}" for value in np.round(axis, digits) + 0.0])
    return [", ".join(parts) for parts in itertools.product(*texts)]
