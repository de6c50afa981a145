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
from tutelage.mdp.model import MDP, Domain

NO_CVXPY = "CVXPY is not installed; the extra `dev` has it"


class ValueIteration:
    """Soft value iteration for MDPs with A actions in every state, with SciPy and NumPy only.

    `at_its_best` starts from log(A) / (1 - discount) and stops by MacQueen's bounds. `plain` starts from zero and stops
    when the change is small. Both use rows ordered by action, so that reductions run over contiguous memory; the
    ordering is not timed.
    """

    def __init__(self, mdp: MDP, reward: Vector) -> None:
        """reward: (S,)."""
        self.n_actions, self.discount, self.reward = mdp.n_choices // mdp.n_states, mdp.largest_discount, reward
        self.ahead = self.discount / (1 - self.discount)
        self.transition = mdp.transition[np.arange(mdp.n_choices).reshape(-1, self.n_actions).T.ravel()]

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

    def at_its_best(self) -> Vector:
        """The soft value, within 1e-8."""
        value = np.full(len(self.reward), np.log(self.n_actions) / (1 - self.discount))
        while True:
            backed = self.backup(value)
            change = backed - value
            low, high = float(change.min()), float(change.max())
            value = backed
            if self.ahead * (high - low) <= 2 * ACCURACY:
                return value + self.ahead * (low + high) / 2

    def plain(self) -> Vector:
        """The soft value, within 1e-8, by the textbook method."""
        value, change = np.zeros(len(self.reward)), np.inf
        while self.ahead * change > ACCURACY:
            backed = self.backup(value)
            value, change = backed, float(np.abs(backed - value).max())
        return value


class RaggedValueIteration:
    """Soft value iteration for any MDP, with SciPy and NumPy only; it stops by MacQueen's bounds."""

    def __init__(self, mdp: MDP, reward: Vector) -> None:
        """reward: (S,)."""
        self.mdp, self.reward = mdp, np.repeat(reward, mdp.choices_per_state)

    def at_its_best(self) -> Vector:
        """The soft value, within 1e-8."""
        mdp, starts = self.mdp, self.mdp.first_choice[:-1]
        moves, ahead = mdp.discount * mdp.transition, mdp.largest_discount * mdp.horizon
        value = np.log(mdp.choices_per_state) * mdp.horizon
        while True:
            choice_value = self.reward + moves @ value
            best = np.maximum.reduceat(choice_value, starts)
            power = np.exp(choice_value - np.repeat(best, mdp.choices_per_state))
            backed = best + np.log(np.add.reduceat(power, starts))
            low, high = float((backed - value).min()), float((backed - value).max())
            value = backed
            if ahead * (high - low) <= 2 * ACCURACY:
                return value + ahead * (low + high) / 2


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
