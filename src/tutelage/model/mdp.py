"""The model: a finite MDP in choice form, and a domain, which adds the features.

A state offers one or more *choices*; a choice is one row of a sparse matrix. Rewards and features are on states (as in
the paper) or on choices. The discount is one number, or one per choice. Every equation has diag(discount) @ transition:

    V(s) = max over choices c of s of  reward(c) + discount(c) T(c) @ V
    sum of z over the choices of s' = initial(s') + sum over c of discount(c) T(s' | c) z(c)

The second gives sum over c of (1 - discount(c)) z(c) = 1: expectations are means of features / (1 - discount).

Absorbing states without discount are ends. There no value is left, no entropy accrues and no visit counts, also of what
starts there: all equations have `continuing`, the transition without the columns of the ends, and start in `departing`.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tutelage import arrays
from tutelage.arrays import ArrayLike, AsMatrix, AsNames, Indices, Matrix, Readable, SparseRows, Vector
from tutelage.model import inputs, policy
from tutelage.model.inputs import Arrivals, Feature, at_entries, checked_duration, checked_first_choice, choice_of_entry
from tutelage.model.names import Labels, suggestion
from tutelage.outcomes import InvalidModel

# Weights of the reward features, in order or by name.
Weights: TypeAlias = ArrayLike | Mapping[str, float]


@dataclass(frozen=True, slots=True, eq=False)
class MDP(Readable):
    """A finite Markov decision process without a reward.

    transition: sparse (C, S), the probability of each next state after each choice.
    first_choice: (S+1,), the choices of state s are first_choice[s] .. first_choice[s+1].
    initial: (S,), the distribution of the first state.
    discount: the weight of the next step, in (0, 1]: one number, or one per choice (C,). A vector of equal numbers is
        stored as the one number. With 1, an end must be reachable from every state.
    labels: the names of states and choices, if they have any; for messages, files and demonstrations.
    duration: (C,), the time that each choice takes; None where each takes one unit.
    goals: the states where a journey ends, ascending; for `arrival` and for reports. Solvers do not use them.
    ends: the absorbing states without discount, ascending. continuing: the transition without the moves to ends.
    horizon: the largest expected number of steps of any policy, discounted as they are; 1 / (1 - discount) where all
        choices have a discount below 1. Infinite if some policy goes on for ever.
    """

    transition: SparseRows
    first_choice: Indices
    initial: Vector
    discount: float | Vector
    labels: Labels | None = None
    duration: Vector | None = field(default=None, kw_only=True)
    goals: Indices = field(default_factory=lambda: np.zeros(0, dtype=np.int64), kw_only=True)
    ends: Indices = field(init=False)
    continuing: SparseRows = field(init=False)
    horizon: float = field(init=False)

    def __post_init__(self) -> None:
        first_choice = checked_first_choice(self.first_choice)
        known = self.labels
        if known is not None and not np.array_equal(known.first_choice, first_choice):
            arrays.set_fields(self, labels=replace(known, first_choice=first_choice))
        labels = self.labels or Labels(first_choice)
        transition = arrays.stochastic_rows(
            self.transition, "transition", lambda c: f"{labels.describe_choice(c)}: " if c < first_choice[-1] else ""
        )
        n_choices, n_states = transition.shape
        if first_choice[-1] != n_choices:
            told = f"first_choice ends at {first_choice[-1]}, but transition has {n_choices} rows"
            raise InvalidModel(f"{told}; give one row per choice")
        if len(first_choice) != n_states + 1:
            told = f"first_choice gives choices to {len(first_choice) - 1}"
            raise InvalidModel(f"transition leads to {n_states} states, but {told}")
        initial = arrays.distribution(self.initial, "initial")
        arrays.check_length(initial, n_states, "initial", "states")
        discount = inputs.checked_discount(self.discount, n_choices)
        duration = None if self.duration is None else checked_duration(self.duration, n_choices)
        goals = arrays.freeze(np.unique(arrays.integers(self.goals, "goals", n_states)))
        arrays.set_fields(self, transition=transition, first_choice=first_choice, initial=initial)
        arrays.set_fields(self, discount=discount, duration=duration, goals=goals)
        self._set_ends()

    def _set_ends(self) -> None:
        rows, largest = self.transition, float(np.max(self.discount))
        if largest < 1:
            arrays.set_fields(self, ends=np.zeros(0, dtype=np.int64), continuing=rows, horizon=1 / (1 - largest))
            return
        is_full = np.broadcast_to(np.equal(self.discount, 1), self.n_choices)
        is_end = np.logical_and.reduceat(is_full, self.first_choice[:-1]) & absorbing_states(self)
        # The zeros are stored, so that the pattern is the same.
        data = np.where(is_end[rows.indices], 0.0, rows.data)
        continuing = sparse.csr_array((data, rows.indices, rows.indptr), rows.shape)
        arrays.set_fields(self, ends=arrays.freeze(np.flatnonzero(is_end)), continuing=continuing)
        policy.check_ends(self)
        arrays.set_fields(self, horizon=policy.longest_steps(self, times_discount(continuing, self.discount)))

    @classmethod
    def from_arrays(
        cls,
        transition: ArrayLike | Sequence[Any],
        initial: ArrayLike,
        discount: float | ArrayLike,
        *,
        duration: ArrayLike | None = None,
        goals: ArrayLike = (),
        state_names: Sequence[Hashable] | None = None,
        action_names: Sequence[Hashable] | None = None,
    ) -> Self:
        """An MDP with A actions in every state, from a dense (S, A, S) array or A sparse matrices (S, S).
        discount, duration: as in `from_choices`; one per choice may also have shape (S, A)."""
        rows, n_actions = inputs.rows_of_actions(transition)
        first_choice = np.arange(0, rows.shape[0] + 1, n_actions)
        table = (len(first_choice) - 1, n_actions)
        discounts = inputs.by_choice(discount, table, "discount")
        times = None if duration is None else inputs.by_choice(duration, table, "duration")
        rest: dict[str, Any] = {"goals": goals, "state_names": state_names, "choice_names": action_names}
        return cls.from_choices(rows, first_choice, initial, discounts, duration=times, **rest)

    @classmethod
    def from_choices(
        cls,
        transition: Any,
        first_choice: ArrayLike,
        initial: ArrayLike,
        discount: float | ArrayLike,
        *,
        duration: ArrayLike | None = None,
        goals: ArrayLike = (),
        state_names: Sequence[Hashable] | None = None,
        choice_names: Sequence[Hashable] | None = None,
    ) -> Self:
        """An MDP from one row per choice, dense or sparse (C, S); states may offer different numbers of choices.

        discount: one number, or one per choice (C,). duration: (C,), the time that each choice takes; the discount is
        then that of one unit of time, and a choice is discounted by discount**duration. goals: as of the class.
        """
        first = checked_first_choice(first_choice)
        given = arrays.any_array(discount, "discount")
        times = None
        if duration is not None:
            times = checked_duration(duration, int(first[-1]))
            given = inputs.timed_discounts(given, times)
        labels = None if state_names is None and choice_names is None else Labels(first, state_names, choice_names)
        return cls(transition, first, cast(Vector, initial), given, labels, duration=times, goals=cast(Indices, goals))

    def starting_in(self, start: Hashable | ArrayLike) -> Self:
        """The same MDP with another start: a state, by name or number, or a distribution (S,), a list or an array."""
        if isinstance(start, list | np.ndarray):
            initial = arrays.distribution(start, "the start")
            arrays.check_length(initial, self.n_states, "the start", "states")
        else:
            named = self.names
            initial = np.zeros(self.n_states)
            if isinstance(start, int | np.integer) and named.states is not None and named.states.find(start) is None:
                named = Labels(self.first_choice)
            initial[named.state(cast(Hashable, start))] = 1.0
        return arrays.changed(self, initial=arrays.freeze(initial))

    @property
    def names(self) -> Labels:
        """The names of states and choices, which are their numbers where they have no names."""
        return self.labels or Labels(self.first_choice)

    @property
    def n_states(self) -> int:
        return len(self.initial)

    @property
    def n_choices(self) -> int:
        return int(self.transition.shape[0])

    @property
    def departing(self) -> Vector:
        """(S,), the initial distribution without its part in ends, where nothing is chosen and no visit counts."""
        return np.where(np.isin(np.arange(self.n_states), self.ends), 0.0, self.initial)

    @property
    def rows(self) -> SparseRows | Matrix:
        """`continuing`, for products; where it has no zeros, its numbers as an array, because BLAS is faster."""
        moves = self.continuing
        is_full = moves.nnz == moves.shape[0] * moves.shape[1]
        return moves.data.reshape(moves.shape) if is_full else moves

    @property
    def choices_per_state(self) -> Indices:
        """(S,), the number of choices of each state."""
        return self.first_choice[1:] - self.first_choice[:-1]

    @property
    def state_of_choice(self) -> Indices:
        """(C,), the state that offers each choice."""
        return np.repeat(np.arange(self.n_states), self.choices_per_state)

    @property
    def steps(self) -> float:
        """A finite number of steps, for units and bounds: the horizon, or, where some policy goes on for ever, the
        steps of a walk that takes all choices alike. Bounds then hold for policies that end as soon as this walk."""
        return self.horizon if self.horizon < np.inf else policy.walk_steps(self)

    @property
    def contraction(self) -> float:
        """1 - 1 / steps: the discount or the largest one, by which the Bellman operators are contractions."""
        largest = self.discount if isinstance(self.discount, float) else float(self.discount.max())
        return largest if largest < 1 else 1 - 1 / self.steps

    @property
    def has_one_discount(self) -> bool:
        """Whether every choice has the same discount, below 1: then B(V + k) = B V + discount * k for all numbers k."""
        return isinstance(self.discount, float) and self.discount < 1

    def __repr__(self) -> str:
        given = self.discount
        discount = f"{given}" if isinstance(given, float) else f"{given.min()} to {given.max()}"
        return f"MDP({self.n_states} states, {self.n_choices} choices, discount {discount})"


@dataclass(frozen=True, slots=True, eq=False)
class Domain(Readable):
    """What teacher and learner both know: an MDP, reward features phi_r and preference features phi_c (Sec. 2 and 3).

    reward_features: (S, d_r) on states or (C, d_r) on choices.
    preference_features: (S, d_c) or (C, d_c); d_c may be zero.
    reward_names, preference_names: one name per feature, for messages, tables and plots.
    state_names: (S,), any hashable objects, all different. choice_names: (C,), different within a state; where every
        state offers A choices, A names are enough. Without them, those of the MDP.
    positions: (S, 2), the coordinates of the states, for drawing; NaN where a state has none.
    reward_arrivals, preference_arrivals: by name, the features that depend on the next state too, sparse (C, S); the
        feature matrix has their means. They are made from the features that are given.

    A vector is one feature. Features may also be given per choice and next state, (C, S, d), or as a mapping from names
    to features as in `with_features`. Where every state offers A choices, (S, A, d) and (S, A, S, d) are possible, too;
    a matrix (S, A) without names is refused, because it may mean A features of states or one of choices.
    """

    mdp: MDP
    reward_features: AsMatrix
    preference_features: AsMatrix = field(default_factory=lambda: np.zeros((0, 0)))
    reward_names: AsNames = ()
    preference_names: AsNames = ()
    state_names: Sequence[Hashable] | None = None
    choice_names: Sequence[Hashable] | None = None
    positions: AsMatrix | None = None
    reward_arrivals: Arrivals = field(default_factory=dict, kw_only=True)
    preference_arrivals: Arrivals = field(default_factory=dict, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.mdp, MDP):
            raise InvalidModel(f"the first argument of a Domain must be an MDP, got {type(self.mdp).__name__}")
        # The names that were given, also in the MDP; those of the MDP where none were given.
        known = self.mdp.names
        states = known.states if self.state_names is None else self.state_names
        choices = known.choices if self.choice_names is None else self.choice_names
        if states is not known.states or choices is not known.choices:
            known = replace(known, states=states, choices=choices)
            arrays.set_fields(self, mdp=arrays.changed(self.mdp, labels=known))
        arrays.set_fields(self, state_names=known.states, choice_names=known.choices)
        for kind in ("reward", "preference"):
            arrays.set_fields(self, **inputs.domain_features(self, kind))
        if self.n_reward == 0:
            raise InvalidModel("reward_features has no columns; a domain needs at least one reward feature")
        if self.positions is not None:
            arrays.set_fields(self, positions=inputs.checked_positions(self.positions, self.mdp.n_states))

    def state(self, name: Hashable) -> int:
        """The number of the state of this name; where states have no names, the name is the number."""
        return self.mdp.names.state(name)

    def choice(self, state: Hashable, name: Hashable) -> int:
        """The number of the choice of this name, in the state of that name."""
        return self.mdp.names.choice(state, name)

    def state_name(self, state: int) -> Hashable:
        """The name of the state with this number."""
        return self.mdp.names.state_name(state)

    def choice_name(self, choice: int) -> Hashable:
        """The name of the choice with this number; where choices have no names, its number within the state."""
        return self.mdp.names.choice_name(choice)

    def with_features(
        self, *, reward: Mapping[str, Feature] | None = None, preference: Mapping[str, Feature] | None = None
    ) -> Self:
        """The domain with features added, replaced or removed, by name.

        A feature is a vector on states (S,) or choices (C,), a matrix (C, S) with a value per choice and next state, or
        a function of the names of a state, an action and the next state, or of the first of these; None removes it.
        """
        rewards = inputs.changed_features(self, "reward", reward or {})
        return replace(self, **rewards, **inputs.changed_features(self, "preference", preference or {}))

    def starting_in(self, start: Hashable | ArrayLike) -> Self:
        """The same domain with another start; see `MDP.starting_in`."""
        return arrays.changed(self, mdp=self.mdp.starting_in(start))

    def with_matrices(self, reward: Matrix, preference: Matrix) -> Self:
        """The same domain with other feature matrices, which are not checked: for solvers that change units."""
        features = {"reward_features": arrays.freeze(reward), "preference_features": arrays.freeze(preference)}
        return arrays.changed(self, **features, reward_arrivals={}, preference_arrivals={})

    def arrivals(self, kind: str) -> Iterator[tuple[int, SparseRows]]:
        """The column of each feature on arrival, "reward" or "preference", and phi(c, s'), a sparse (C, S)."""
        known = getattr(self, f"{kind}_arrivals")
        return ((k, known[name]) for k, name in enumerate(getattr(self, f"{kind}_names")) if name in known)

    def deviations(self, kind: str) -> Iterator[tuple[int, SparseRows]]:
        """As `arrivals`, with phi(c, s') - phi(c)."""
        rows, features = self.mdp.transition, getattr(self, f"{kind}_features")
        for column, arrived in self.arrivals(kind):
            yield column, at_entries(rows, arrived.data - features[choice_of_entry(rows), column])

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all d_r + d_c columns, reward features first."""
        return (*self.reward_names, *self.preference_names)

    @property
    def n_reward(self) -> int:
        """d_r."""
        return len(self.reward_names)

    @property
    def n_preference(self) -> int:
        """d_c."""
        return len(self.preference_names)

    def __repr__(self) -> str:
        line = f"Domain({self.mdp}, reward {list(self.reward_names)}, preferences {list(self.preference_names)})"
        if len(line) <= 120:
            return line
        reward, preference = arrays.brief(self.reward_names), arrays.brief(self.preference_names)
        return f"Domain(\n    {self.mdp}\n    reward {reward}\n    preferences {preference}\n)"


def per_choice(mdp: MDP, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values on states, repeated for each choice of the state; values on choices unchanged."""
    first = mdp.first_choice
    return values if len(values) == first[-1] else values.repeat(first[1:] - first[:-1], axis=0)


def combined_features(domain: Domain) -> Matrix:
    """(S, d_r + d_c), or (C, d_r + d_c) where either kind sits on choices; reward features first."""
    both = (domain.reward_features, domain.preference_features)
    if all(len(features) == domain.mdp.n_states for features in both):
        return np.hstack(both)
    return np.hstack([per_choice(domain.mdp, features) for features in both])


def absorbing_states(mdp: MDP) -> NDArray[np.bool_]:
    """(S,), whether every choice of a state leads back to it with probability one."""
    rows = mdp.transition
    stays = (np.diff(rows.indptr) == 1) & (rows.indices[rows.indptr[:-1]] == mdp.state_of_choice)
    return np.logical_and.reduceat(stays, mdp.first_choice[:-1])


def times_discount(rows: SparseRows, discount: float | Vector) -> SparseRows:
    """discount(c) times row c, for one discount or one for each row."""
    factor = discount if isinstance(discount, float) else np.repeat(discount, np.diff(rows.indptr))
    return sparse.csr_array((rows.data * factor, rows.indices, rows.indptr), rows.shape)


def discounted(mdp: MDP, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values on choices (C, ...), each row multiplied by the discount of its choice."""
    return (values.T * mdp.discount).T


def endless(mdp: MDP, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """values(c) / (1 - discount(c)), the discounted sum of taking a choice for ever; with ends, values * steps.
    Values are on states or choices, (S, ...) or (C, ...); with one discount the result has the same rows."""
    if np.max(mdp.discount) == 1:
        return values * mdp.steps
    if isinstance(mdp.discount, float):
        return values / (1 - mdp.discount)
    return (per_choice(mdp, values).T / (1 - mdp.discount)).T


def choice_reward(mdp: MDP, reward: ArrayLike) -> Vector:
    """(C,), a checked reward on choices, from a reward on states (S,) or choices (C,)."""
    values = arrays.floats(reward, "reward", ndim=1)
    arrays.check_rows(values, mdp.first_choice, "reward")
    if len(mdp.ends):
        inputs.check_without_ends(values[:, None], mdp, ("reward",))
    return per_choice(mdp, values)


def reward_vector(domain: Domain, values: Weights, name: str) -> Vector:
    """(d_r,), one finite number for each reward feature; by name, zero for those that are not named."""
    names = domain.reward_names
    if isinstance(values, Mapping):
        for key in values:
            if key not in names:
                told = f"{name} names {key!r}, which is not one of the reward features"
                raise InvalidModel(f"{told}; {suggestion(key, names)}")
        values = [values.get(key, 0.0) for key in names]
    return arrays.vector(values, name, domain.n_reward, "reward features")
