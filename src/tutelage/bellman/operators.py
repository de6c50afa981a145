"""The Bellman operators of one MDP and reward, in NumPy for small MDPs and compiled for large ones.

Both classes have the same methods, so each algorithm in `bellman` is written once.
"""

from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from tutelage import watch
from tutelage.arrays import EPSILON, Indices, Vector
from tutelage.chains.chain import (
    FACTOR_LIMIT,
    choice_resolvent,
    discounted_rows,
    factorised,
    has_cheap_choices,
    policy_resolvent,
    resolvent,
)
from tutelage.chains.splitting import Pattern, split_chain
from tutelage.model.mdp import MDP, discounted, endless, per_choice
from tutelage.model.policy import first_maximum, max_by_state, sum_by_state, uniform_policy

if TYPE_CHECKING:
    from tutelage.bellman.backups import Problem
    from tutelage.compiling import Edges

# Above this many states, compiled loops save more within a few calls than the half second of loading the compiler.
COMPILED_ABOVE = 500
# At first the sweeps of a new problem may improve slowly.
N_PAIRS = 3
# On chains that mix well, so many steps are enough.
KRYLOV_STEPS = 200


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
        inverse = choice_resolvent(self.mdp, choice)
        rough = inverse.values(self.reward[choice])
        return rough + inverse.values(self.choice_value(rough)[choice] - rough)

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

    def evaluate(self, choice: Indices, value: Vector, tolerance: float) -> Vector:
        from tutelage.bellman import backups

        reward = self.reward[choice]
        if not reward.any():
            # The price of limits that do not bind: solves would approach the value zero without end.
            return np.zeros_like(value)
        moves, one_each = discounted_rows(self.mdp, choice), np.arange(self.mdp.n_states + 1)
        value = backups.hard_sweeps(backups.problem(moves, one_each, reward, 1.0), value, tolerance, N_PAIRS)
        split, is_cheap, last = cache(lambda: split_chain(moves)), cache(lambda: has_cheap_choices(self.mdp)), np.inf
        most = KRYLOV_STEPS if len(value) <= FACTOR_LIMIT else 1_000
        for _ in range(20):
            residual = reward + moves @ value - value
            error = float(np.abs(residual).max())
            # The residual of the exact value has rounding errors of this size.
            if error <= max(tolerance, EPSILON * float(np.abs(value).max())):
                break
            # Krylov steps converge slowly on long journeys, whose chains often have sparse factors.
            if error > 0.01 * last and is_cheap():
                return value + factorised(sparse.eye_array(len(value), format="csr") - moves).values(residual)
            value, last = value + split().solve(residual, max(1e-6, 0.3 * tolerance / error), most), error
        return value

    def visits(self, choice: Indices) -> Vector:
        from tutelage.bellman import backups

        moves = discounted_rows(self.mdp, choice)
        # A deterministic policy reaches few states from one start: solve for these alone.
        reached = backups.reachable(moves.indptr, moves.indices, self.mdp.initial)
        visits = np.zeros(self.mdp.n_states)
        inverse = resolvent(moves[reached][:, reached], self.mdp.largest_discount)
        visits[reached] = inverse.visits(self.mdp.initial[reached])
        return visits

    def solve(self, policy: Vector, right: Vector, tolerance: float) -> Vector:
        return self._pattern.weighted(self.mdp.discount * policy).solve(right, tolerance, 1_000)

    @cached_property
    def _pattern(self) -> Pattern:
        return Pattern(self.mdp.transition, self.mdp.first_choice, in_blocks=True)

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
