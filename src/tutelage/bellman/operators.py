"""The Bellman operators of one MDP and reward, in NumPy for small MDPs and compiled for large ones.

Both classes have the same methods, so each algorithm in `bellman` is written once.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tutelage import watch
from tutelage.arrays import Indices, Vector
from tutelage.chains.iterations import Split
from tutelage.chains.resolvent import choice_resolvent, discounted_rows, policy_resolvent
from tutelage.model.mdp import MDP, discounted, endless, per_choice
from tutelage.model.policy import first_maximum, max_by_state, sum_by_state, uniform_policy

if TYPE_CHECKING:
    from tutelage.bellman.backups import Problem
    from tutelage.compiling import Edges

# Above this many states, compiled loops save more within a few calls than the half second of loading the compiler.
COMPILED_ABOVE = 200
# At first the sweeps of a new problem may improve slowly.
N_PAIRS = 3


@dataclass(frozen=True)
class Operators:
    """The Bellman operators of one MDP and one reward on choices (C,), by NumPy and one factorisation per policy.

    With several rewards (C, n), the soft ones take and return a column for each.
    """

    mdp: MDP
    reward: Vector

    def choice_value(self, value: Vector) -> Vector:
        """Q, (C,)."""
        return self.reward + discounted(self.mdp, self.mdp.transition @ value)

    def soft_backup(self, value: Vector) -> tuple[Vector, Vector]:
        """log sum exp of Q within each state, (S,), and the policy exp(Q - V), (C,)."""
        choice_value = self.choice_value(value)
        best = max_by_state(self.mdp, choice_value)
        policy = np.exp(choice_value - per_choice(self.mdp, best))
        total = sum_by_state(self.mdp, policy)
        return best + np.log(total), policy / per_choice(self.mdp, total)

    def hard_backup(self, value: Vector, choice: Indices, slack: float) -> tuple[Vector, Indices]:
        """max of Q within each state, (S,), and the choice that attains it, (S,).

        The given choice is kept where it is within `slack` of the best, so that the choice among ties does not change.
        """
        choice_value = self.choice_value(value)
        best = max_by_state(self.mdp, choice_value)
        return best, np.where(best > choice_value[choice] + slack, first_maximum(self.mdp, choice_value), choice)

    def guess(self) -> Vector:
        """A value (S,) to start from."""
        # The value of the uniform policy depends on rewards at any distance; from zero, each policy iteration would
        # carry them one step further.
        mean_reward = sum_by_state(self.mdp, self.reward) / self.mdp.choices_per_state
        return self.solve(uniform_policy(self.mdp), mean_reward, 0.0)

    def sweep(self, value: Vector, tolerance: float, n_least: int = N_PAIRS) -> Vector:
        """A value closer to the hard optimum, by in-place sweeps where these are cheap; otherwise the same value.

        n_least: how many pairs of sweeps to make at least.
        """
        return value

    def evaluate(self, choice: Indices, value: Vector, tolerance: float) -> Vector:
        """The value (S,) of always taking the given choices, from `value` until the residual is within `tolerance`."""
        reward = self.reward[choice]
        if not reward.any():
            # The price of limits that do not bind: iterations would approach the value zero without end.
            return np.zeros_like(value)
        size = max(float(np.abs(value).max()), float(np.abs(reward).max()))
        return choice_resolvent(self.mdp, choice).values(reward, value, tolerance * self.mdp.horizon / size)

    def visits(self, choice: Indices) -> Vector:
        """The discounted visits (S,) of always taking the given choices, from the initial distribution."""
        return choice_resolvent(self.mdp, choice).visits(self.mdp.initial)

    def solve(self, policy: Vector, right: Vector, tolerance: float) -> Vector:
        """About (I - discount P)^-1 right, with a residual of `tolerance` relative to `right` in the 2-norm."""
        if policy.ndim == 1:
            return policy_resolvent(self.mdp, policy).values(right)
        watch.spend(policy.shape[1] - 1)
        columns = zip(policy.T.copy(), right.T.copy(), strict=True)
        return np.array([policy_resolvent(self.mdp, one).values(its) for one, its in columns]).T


@dataclass(frozen=True)
class Compiled(Operators):
    """Compiled backups, in blocks of states on several threads, and Krylov solves instead of factorisations."""

    def soft_backup(self, value: Vector) -> tuple[Vector, Vector]:
        from tutelage import compiling
        from tutelage.bellman import backups

        policy, backed = np.empty(self.mdp.n_choices), np.empty_like(value)
        compiling.in_blocks(self._edges, backups.soft_backup_range, self._problem, value, policy, backed)
        return backed, policy

    def hard_backup(self, value: Vector, choice: Indices, slack: float) -> tuple[Vector, Indices]:
        from tutelage import compiling
        from tutelage.bellman import backups

        moved, backed = choice.copy(), np.empty_like(value)
        compiling.in_blocks(self._edges, backups.hard_backup_range, self._problem, value, moved, slack, backed)
        return backed, moved

    def guess(self) -> Vector:
        # A lower bound: from an upper bound, states that lead to each other would keep each other's value too high for
        # 1 / (1 - discount) sweeps.
        return np.full(self.mdp.n_states, endless(self.mdp, self.reward).min())

    def sweep(self, value: Vector, tolerance: float, n_least: int = N_PAIRS) -> Vector:
        from tutelage.bellman import backups

        return backups.hard_sweeps(self._problem, value, tolerance, n_least)

    def solve(self, policy: Vector, right: Vector, tolerance: float) -> Vector:
        mdp = self.mdp
        return Split.of_policy(mdp.transition, mdp.first_choice, mdp.discount * policy).solve(right, tolerance, 1_000)

    @cached_property
    def _edges(self) -> "Edges":
        from tutelage import compiling

        return compiling.block_edges(self.mdp.transition.indptr[self.mdp.first_choice])

    @cached_property
    def _problem(self) -> "Problem":
        from tutelage.bellman import backups

        mdp = self.mdp
        if isinstance(mdp.discount, float):
            return backups.problem(mdp.transition, mdp.first_choice, self.reward, mdp.discount)
        return backups.problem(discounted_rows(mdp, np.arange(mdp.n_choices)), mdp.first_choice, self.reward, 1.0)


def bellman_operators(mdp: MDP, reward: Vector) -> Operators:
    """`Compiled` above COMPILED_ABOVE states, `Operators` otherwise."""
    return (Compiled if mdp.n_states > COMPILED_ABOVE else Operators)(mdp, reward)
