"""A model given as functions: its states are found from the start, breadth first."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from tutelage.arrays import Indices, SparseRows, Vector, sum_tolerance, whole_number
from tutelage.model.arrivals import by_name, choice_of_entry
from tutelage.model.inputs import feature_matrix, feature_names, takes_next_state
from tutelage.model.mdp import MDP, Domain
from tutelage.outcomes import InvalidModel
from tutelage.watch import OnProgress, report, watched

STAY = "stay"
# The number of states after which progress is reported.
REPORT_EVERY = 1_000
# The default of max_states.
LARGEST_MODEL = 1_000_000


def explore(
    start: Any,
    actions: Callable[[Any], Iterable[Hashable]],
    outcomes: Callable[[Any, Any], Iterable[tuple[float, Hashable]]],
    *,
    discount: float,
    reward: Callable[..., Any],
    preference: Callable[..., Any] | None = None,
    duration: Callable[[Any, Any], float] | None = None,
    reward_names: Sequence[str] = (),
    preference_names: Sequence[str] = (),
    max_states: int = LARGEST_MODEL,
    time_limit: float | None = None,
    progress: OnProgress | None = None,
) -> Domain:
    """A domain with the states that can be reached from the start, in the order in which they are found.

    start: a state, any hashable object, or a mapping from states to probabilities.
    actions(state): the names of the actions of a state. A state without actions is absorbing: its one choice, "stay",
        leads back to it with all features zero.
    outcomes(state, action): the possible next states, a list of (probability, next state).
    reward(state, action), preference(state, action): features, a number, a sequence of numbers, or a dict by name. A
        function of (state, action, next state) counts on arrival: demonstrations then count what happened.
    duration(state, action): the time that an action takes; its discount is discount ** duration.
    max_states: a model with more states is refused.
    time_limit: seconds, after which `OutOfTime` is raised.
    progress: called at every thousandth state with the number of explored states, and the number that waits as the gap.

    The states and the actions become the names of the domain.
    """
    search = Search(whole_number(max_states, "max_states", least=1))
    initial = search.begin(start)
    with watched(time_limit, progress):
        search.run(actions, outcomes)
    mdp = search.mdp(initial, discount, None if duration is None else search.durations(duration))
    rewards = search.features(mdp, reward, reward_names, "reward")
    preferences = {} if preference is None else search.features(mdp, preference, preference_names, "preference")
    return Domain(mdp, **rewards, **preferences)


@dataclass(slots=True)
class Search:
    """The states and choices found so far.

    states: in the order in which they were found. number: of each state. actions: those of each explored state, in
    order; none for an absorbing state. columns, probabilities, ends: the rows of the transition matrix.
    """

    limit: int
    states: list[Any] = field(default_factory=list)
    number: dict[Any, int] = field(default_factory=dict)
    actions: list[tuple[Hashable, ...]] = field(default_factory=list)
    columns: list[int] = field(default_factory=list)
    probabilities: list[float] = field(default_factory=list)
    ends: list[int] = field(default_factory=lambda: [0])

    def begin(self, start: Any) -> dict[int, float]:
        """Add the first states; the probability of each."""
        given = start if isinstance(start, Mapping) else {check_hashable(start, "the start"): 1.0}
        if not given:
            raise InvalidModel("start is an empty mapping; give at least one state with its probability")
        return {self.add(state): probability for state, probability in given.items()}

    def add(self, state: Any) -> int:
        """The number of a state, which is new or known."""
        number = self.number.get(state)
        if number is None:
            number = self.number[state] = len(self.states)
            self.states.append(state)
        return number

    def run(self, actions: Callable[[Any], Any], outcomes: Callable[[Any, Any], Any]) -> None:
        """Explore every state, in the order in which they are found."""
        # The list grows while it is read.
        for n_explored, state in enumerate(self.states):
            self.actions.append(_listed_actions(actions(state), state))
            for action in self.actions[-1]:
                self._add_row(state, action, outcomes(state, action))
            if not self.actions[-1]:
                self.columns.append(n_explored)
                self.probabilities.append(1.0)
                self.ends.append(len(self.columns))
            report_states(self.limit, n_explored + 1, len(self.states))

    def _add_row(self, state: Any, action: Hashable, listed: Any) -> None:
        total, n_before = 0.0, len(self.columns)
        try:
            for probability, next_state in listed if isinstance(listed, Sequence) else list(listed):
                self.columns.append(self.add(next_state))
                self.probabilities.append(float(probability))
                total += probability
        except (TypeError, ValueError) as error:
            place = _place(state, action)
            for pair in listed if isinstance(listed, Sequence) else ():
                if isinstance(pair, Sequence) and len(pair) == 2:
                    check_hashable(pair[1], f"{place}: the next state")
            form = "(probability, next state)"
            raise InvalidModel(f"{place}: outcomes must be a list of {form}, got {listed!r}") from error
        if not abs(total - 1) <= sum_tolerance(len(self.columns) - n_before):
            raise InvalidModel(f"{_place(state, action)}: the probabilities sum to {total:.10g}; they must sum to one")
        self.ends.append(len(self.columns))

    @property
    def first_choice(self) -> Indices:
        return np.cumsum([0, *(len(listed) or 1 for listed in self.actions)])

    def choices(self) -> list[tuple[int, Any, Hashable]]:
        """(choice, state, action) of every choice of the model's own, without those of absorbing states."""
        first = self.first_choice.tolist()
        return [
            (first[number] + place, state, action)
            for number, (state, listed) in enumerate(zip(self.states, self.actions, strict=True))
            for place, action in enumerate(listed)
        ]

    def mdp(self, initial: Mapping[int, float], discount: Any, durations: Vector | None = None) -> MDP:
        """The MDP, named by the states and the actions."""
        shape = (len(self.ends) - 1, len(self.states))
        rows: SparseRows = sparse.csr_array((self.probabilities, self.columns, self.ends), shape=shape)
        chances = np.zeros(len(self.states))
        chances[list(initial)] = list(initial.values())
        names = [action for listed in self.actions for action in listed or (STAY,)]
        labels: dict[str, Any] = {"state_names": self.states, "choice_names": names}
        return MDP.from_choices(rows, self.first_choice, chances, discount, duration=durations, **labels)

    def features(self, mdp: MDP, function: Callable[..., Any], names: Sequence[str], kind: str) -> dict[str, Any]:
        """The features of a domain that a function of a state and an action gives; zero in absorbing states."""
        choices = self.choices()
        if not choices:
            raise InvalidModel("no state has an action, so there are no features; give the start an action")
        rows, on_arrival = mdp.transition, takes_next_state(function)
        own = np.array([choice for choice, _, _ in choices])
        places = np.flatnonzero(np.isin(choice_of_entry(rows), own)) if on_arrival else own
        if on_arrival:
            taken = {choice: (state, action) for choice, state, action in choices}
            steps = [taken[choice] for choice in choice_of_entry(rows)[places].tolist()]
            after = [self.states[state] for state in rows.indices[places].tolist()]
            values = [function(*step, state) for step, state in zip(steps, after, strict=True)]
        else:
            steps = [(state, action) for _, state, action in choices]
            values = [function(state, action) for state, action in steps]
        known, columns = feature_matrix(values, names, kind, lambda row: _place(*steps[row]))
        matrix = np.zeros((rows.nnz if on_arrival else mdp.n_choices, known.shape[1]))
        matrix[places] = known
        if on_arrival:
            return {f"{kind}_features": by_name(rows, matrix, feature_names(columns, matrix.shape[1], kind))}
        return {f"{kind}_features": matrix, f"{kind}_names": columns}

    def durations(self, duration: Callable[[Any, Any], float]) -> Vector:
        """(C,), the duration of each choice; a choice to stay takes one unit of time."""
        durations = np.ones(len(self.ends) - 1)
        for choice, state, action in self.choices():
            taken = duration(state, action)
            if isinstance(taken, bool) or not isinstance(taken, int | float | np.number) or not 0 < taken < np.inf:
                place = _place(state, action)
                raise InvalidModel(f"{place}: the duration is {taken!r}; it must be a positive number")
            durations[choice] = taken
        return durations


def report_states(limit: int, n_explored: int, n_found: int) -> None:
    """Refuse too many states; report progress at every thousandth, and at the last."""
    n_waiting = n_found - n_explored
    if n_found > limit:
        raise InvalidModel(
            f"the model has more than {limit} states: {n_explored} are explored and {n_waiting} wait; "
            "raise max_states, or bound the states"
        )
    if n_explored % REPORT_EVERY == 0 or not n_waiting:
        report("states explored", n_explored, n_waiting)


def _place(state: Any, action: Hashable) -> str:
    return f"state {state!r}, action {action!r}"


def _listed_actions(given: Any, state: Any) -> tuple[Hashable, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InvalidModel(f"state {state!r}: actions must be a list, got {given!r}")
    return tuple(given)


def check_hashable(state: Any, what: str) -> Any:
    """The state; refused if it cannot be a key of a dict."""
    try:
        hash(state)
    except TypeError as error:
        raise InvalidModel(f"{what} {state!r} is not hashable; give a tuple, a string or a frozen dataclass") from error
    return state
