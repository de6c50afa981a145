"""What users would pick instead, each at its best: SciPy's sparse matrices for soft values, a cone solver for learners.

The other rivals are in the package already: HiGHS and Clarabel on the whole program by `route="direct"`, the published
learner, and Frank-Wolfe. `imitation` has an environment of its own; see `peers`.
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
    """Soft value iteration for MDPs of A actions in every state, with SciPy and NumPy alone.

    At its best: rows ordered by action, which is not timed, so that every reduction runs over contiguous memory; a
    start from log(A) / (1 - discount); MacQueen's bounds to stop on. Plain: from zero until the change is small.
    """

    def __init__(self, mdp: MDP, reward: Vector) -> None:
        """reward: (S,)."""
        self.n_actions, self.discount, self.reward = mdp.n_choices // mdp.n_states, mdp.discount, reward
        self.ahead = mdp.discount / (1 - mdp.discount)
        self.transition = mdp.transition[np.arange(mdp.n_choices).reshape(-1, self.n_actions).T.ravel()]

    def choice_value(self, value: Vector) -> Vector:
        """(A, S), Q."""
        worth = (self.transition @ value).reshape(self.n_actions, -1)
        worth *= self.discount
        worth += self.reward
        return np.asarray(worth)

    def backup(self, value: Vector) -> Vector:
        """(S,), log sum exp Q."""
        worth = self.choice_value(value)
        best = worth.max(axis=0)
        worth -= best
        return np.asarray(best + np.log(np.exp(worth, out=worth).sum(axis=0)))

    def at_its_best(self) -> Vector:
        """The soft value to 1e-8."""
        value = np.full(len(self.reward), np.log(self.n_actions) / (1 - self.discount))
        while True:
            backed = self.backup(value)
            change = backed - value
            low, high = float(change.min()), float(change.max())
            value = backed
            if self.ahead * (high - low) <= 2 * ACCURACY:
                return value + self.ahead * (low + high) / 2

    def plain(self) -> Vector:
        """The soft value to 1e-8, as a textbook would find it."""
        value, change = np.zeros(len(self.reward)), np.inf
        while self.ahead * change > ACCURACY:
            backed = self.backup(value)
            value, change = backed, float(np.abs(backed - value).max())
        return value


def has_cvxpy() -> bool:
    """Whether the cone solver can be asked."""
    return find_spec("cvxpy") is not None


def solve_cones(domain: Domain, shown: Vector) -> float:
    """The soft learner's Eq. 1 over occupancies z, by CVXPY and Clarabel.

    H = - sum over c of z(c) log(z(c) / sum of z over the state's choices). Sparse, and at the library's default
    tolerances. Writing the problem down is part of it, as each of our responses starts from nothing too.
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
