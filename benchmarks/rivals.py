"""Rivals: soft value iteration with SciPy's sparse matrices, and the soft learner as a cone program.

Other rivals are part of the package: HiGHS and Clarabel on the whole program (`route="direct"`), the published learner,
and Frank-Wolfe. `imitation` runs in a separate environment; see `peers`.
"""

import importlib
import warnings
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.problems import ACCURACY, MISMATCH_PENALTY, VIOLATION_PENALTY
from tutelage.arrays import Vector
from tutelage.model.mdp import MDP, Domain

NO_CVXPY = "CVXPY is not installed; the extra `dev` has it"


class _ValueIteration:
    """Soft value iteration with SciPy and NumPy only. start: (S,), a good value to start from.

    `at_its_best` begins there and stops by MacQueen's bounds. `plain` begins with zero and stops when the change is
    small, as textbooks have it.
    """

    def __init__(self, mdp: MDP, start: Vector) -> None:
        self.discount, self.start = mdp.contraction, start
        self.ahead = self.discount / (1 - self.discount)

    def backup(self, value: Vector) -> Vector:
        """(S,), V(s) = log sum over the choices c of s of exp Q(c)."""
        raise NotImplementedError

    def at_its_best(self) -> Vector:
        """The soft value, within 1e-8."""
        value = self.start
        while True:
            backed = self.backup(value)
            change = backed - value
            low, high = float(change.min()), float(change.max())
            value = backed
            if self.ahead * (high - low) <= 2 * ACCURACY:
                return value + self.ahead * (low + high) / 2

    def plain(self) -> Vector:
        """The soft value, within 1e-8, by the textbook method."""
        value, change = np.zeros(len(self.start)), np.inf
        while self.ahead * change > ACCURACY:
            backed = self.backup(value)
            value, change = backed, float(np.abs(backed - value).max())
        return value


class ValueIteration(_ValueIteration):
    """For MDPs with A actions in every state.

    Rows are ordered by action, so that reductions run over contiguous memory; the ordering is not timed.
    """

    def __init__(self, mdp: MDP, reward: Vector) -> None:
        """reward: (S,)."""
        self.n_actions, self.reward = mdp.n_choices // mdp.n_states, reward
        self.transition = mdp.transition[np.arange(mdp.n_choices).reshape(-1, self.n_actions).T.ravel()]
        super().__init__(mdp, np.full(len(reward), np.log(self.n_actions) * mdp.horizon))

    def choice_value(self, value: Vector) -> Vector:
        """(A, S), Q(s, a) = R(s) + discount * sum over s' of T(s' | s, a) V(s')."""
        found = (self.transition @ value).reshape(self.n_actions, -1)
        found *= self.discount
        found += self.reward
        return np.asarray(found)

    def backup(self, value: Vector) -> Vector:
        """(S,), V(s) = log sum over a of exp Q(s, a)."""
        choice_value = self.choice_value(value)
        best = choice_value.max(axis=0)
        choice_value -= best
        return np.asarray(best + np.log(np.exp(choice_value, out=choice_value).sum(axis=0)))


class RaggedValueIteration(_ValueIteration):
    """For any MDP."""

    def __init__(self, mdp: MDP, reward: Vector) -> None:
        """reward: (S,)."""
        self.counts, self.first = mdp.choices_per_state, mdp.first_choice[:-1]
        self.moves = mdp.discount * mdp.transition
        self.reward = np.repeat(reward, self.counts)
        super().__init__(mdp, np.log(self.counts) * mdp.horizon)

    def backup(self, value: Vector) -> Vector:
        """(S,), V(s) = log sum over the choices c of s of exp Q(c)."""
        choice_value = self.reward + self.moves @ value
        best = np.maximum.reduceat(choice_value, self.first)
        power = np.exp(choice_value - np.repeat(best, self.counts))
        return np.asarray(best + np.log(np.add.reduceat(power, self.first)))


def has_cvxpy() -> bool:
    """Whether CVXPY is installed."""
    return find_spec("cvxpy") is not None


def solve_cones(domain: Domain, shown: Vector) -> float:
    """The soft learner's Eq. 1 over occupancies z, by CVXPY and Clarabel.

    H = - sum over c of z(c) log(z(c) / sum of z over the state's choices). The program is sparse,
    with the library's default tolerances. Its construction is timed, as our responses also start from nothing.
    """
    cp: Any = importlib.import_module("cvxpy")
    mdp = domain.mdp
    leave = sparse.csr_array((np.ones(mdp.n_choices), np.arange(mdp.n_choices), mdp.first_choice))
    z = cp.Variable(mdp.n_choices, nonneg=True)
    states = leave @ z
    entropy = -cp.sum(cp.rel_entr(z, leave.T @ states))
    mismatch = cp.norm(domain.reward_features.T @ states - shown, 1)
    violation = cp.sum(cp.pos(domain.preference_features.T @ states))
    flow = [states - mdp.discount * (mdp.transition.T @ z) == mdp.initial]
    asked = cp.Problem(cp.Maximize(entropy - MISMATCH_PENALTY * mismatch - VIOLATION_PENALTY * violation), flow)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        asked.solve(solver=cp.CLARABEL)
    return float(asked.value)
