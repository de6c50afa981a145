"""The Bellman operators of one MDP and reward, in NumPy for small MDPs and compiled for large ones.

Both offer the same verbs, so that each algorithm in `bellman` is written once.
"""

from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tutelage.arrays import Indices, Vector
from tutelage.mdp.chain import choice_resolvent, policy_resolvent, resolvent
from tutelage.mdp.model import MDP, per_choice
from tutelage.mdp.policy import max_by_state, sum_by_state, uniform_policy
from tutelage.mdp.splitting import Pattern, split_chain

if TYPE_CHECKING:
    from tutelage.kernels.blocks import Edges

# Above this many states a compiled solve repays, within a few calls, the half second that loading the compiler takes.
COMPILED_ABOVE = 500


class Operators(Protocol):
    """The Bellman operators of one MDP and one reward on choices."""

    def soft_backup(self, value: Vector) -> tuple[Vector, Vector]:
        """log sum exp of Q within each state, (S,), and the policy exp(Q - V), (C,)."""

    def hard_backup(self, value: Vector, choice: Indices, slack: float) -> tuple[Vector, Indices]:
        """max of Q within each state, (S,), and the choice that attains it, (S,).

        The given choice is kept wherever it is within `slack` of the best, so that ties cannot make it wander.
        """

    def guess(self) -> Vector:
        """A value (S,) to start from when nothing is known."""

    def sweep(self, value: Vector, tolerance: float) -> Vector:
        """A value closer to the hard optimum, by in-place sweeps where these are cheap; else the value as it is."""

    def evaluate(self, choice: Indices, value: Vector, tolerance: float) -> Vector:
        """The value (S,) of always taking the given choices, from `value` until the residual is within `tolerance`."""

    def visits(self, choice: Indices) -> Vector:
        """The discounted visits (S,) of always taking the given choices, from the initial distribution."""

    def solve(self, policy: Vector, right: Vector, tolerance: float) -> Vector:
        """About (I - discount P)^-1 right: its residual is smaller than `right` by `tolerance` in the 2-norm."""


def operators(mdp: MDP, reward: Vector) -> Operators:
    """Compiled above the size where loading the compiler pays."""
    return Compiled(mdp, reward) if mdp.n_states > COMPILED_ABOVE else Plain(mdp, reward)


@dataclass(frozen=True, slots=True)
class Plain:
    """NumPy backups and one sparse factorisation per policy."""

    mdp: MDP
    reward: Vector

    def choice_value(self, value: Vector) -> Vector:
        return np.asarray(self.reward + self.mdp.discount * (self.mdp.transition @ value))

    def soft_backup(self, value: Vector) -> tuple[Vector, Vector]:
        worth = self.choice_value(value)
        best = max_by_state(self.mdp, worth)
        policy = np.exp(worth - per_choice(self.mdp, best))
        total = sum_by_state(self.mdp, policy)
        return best + np.log(total), policy / per_choice(self.mdp, total)

    def hard_backup(self, value: Vector, choice: Indices, slack: float) -> tuple[Vector, Indices]:
        worth = self.choice_value(value)
        best = max_by_state(self.mdp, worth)
        is_best = worth == per_choice(self.mdp, best)
        first_best = np.flatnonzero(is_best)
        # The first best choice of each state: flatnonzero ascends, and so do the states of choices.
        leader = first_best[np.searchsorted(first_best, self.mdp.first_choice[:-1])]
        return best, np.where(best > worth[choice] + slack, leader, choice)

    def guess(self) -> Vector:
        # Under the uniform policy every state already feels rewards from afar; from zero each policy
        # iteration would carry them one step further.
        return self.solve(
            uniform_policy(self.mdp), sum_by_state(self.mdp, self.reward) / self.mdp.choices_per_state, 0.0
        )

    def sweep(self, value: Vector, tolerance: float) -> Vector:
        return value

    def evaluate(self, choice: Indices, value: Vector, tolerance: float) -> Vector:
        inverse = choice_resolvent(self.mdp, choice)
        rough = inverse.values(self.reward[choice])
        return rough + inverse.values(self.choice_value(rough)[choice] - rough)

    def visits(self, choice: Indices) -> Vector:
        return choice_resolvent(self.mdp, choice).visits(self.mdp.initial)

    def solve(self, policy: Vector, right: Vector, tolerance: float) -> Vector:
        return policy_resolvent(self.mdp, policy).values(right)


@dataclass(frozen=True)
class Compiled:
    """Compiled backups, in blocks of states by several threads, and Krylov solves in place of factorisations."""

    mdp: MDP
    reward: Vector

    def soft_backup(self, value: Vector) -> tuple[Vector, Vector]:
        from tutelage import kernels

        policy, backed = np.empty(self.mdp.n_choices), np.empty_like(value)
        kernels.in_blocks(self._edges, kernels.soft_backup_range, *self._problem, value, policy, backed)
        return backed, policy

    def hard_backup(self, value: Vector, choice: Indices, slack: float) -> tuple[Vector, Indices]:
        from tutelage import kernels

        moved, backed = choice.copy(), np.empty_like(value)
        kernels.in_blocks(self._edges, kernels.hard_backup_range, *self._problem, value, moved, slack, backed)
        return backed, moved

    def guess(self) -> Vector:
        # From below, sweeps carry values to where they belong; from above, cells that lead to each other
        # keep each other's too high a value up for 1 / (1 - discount) sweeps.
        return np.full(self.mdp.n_states, self.reward.min() / (1 - self.mdp.discount))

    def sweep(self, value: Vector, tolerance: float) -> Vector:
        from tutelage import kernels

        return kernels.hard_sweeps(*self._problem, value, tolerance)

    def evaluate(self, choice: Indices, value: Vector, tolerance: float) -> Vector:
        from tutelage import kernels

        discount, reward = self.mdp.discount, self.reward[choice]
        step = self.mdp.transition[choice]
        one_each = np.arange(self.mdp.n_states + 1, dtype=step.indptr.dtype)
        entries = (kernels.unsigned(step.indptr), kernels.unsigned(step.indices), step.data)
        value = kernels.hard_sweeps(*entries, kernels.unsigned(one_each), reward, discount, value, tolerance)
        split = cache(lambda: split_chain(discount * step))
        for _ in range(20):
            residual = reward + discount * (step @ value) - value
            if np.abs(residual).max() <= tolerance:
                break
            value = value + split().solve(residual, 1e-6, 1_000)
        return value

    def visits(self, choice: Indices) -> Vector:
        from tutelage import kernels

        step = self.mdp.transition[choice]
        # One choice per state from one cell reaches a path, not a plane: solve for the states reached alone.
        reached = kernels.reachable(step.indptr, step.indices, self.mdp.initial)
        visits = np.zeros(self.mdp.n_states)
        visits[reached] = resolvent(step[reached][:, reached], self.mdp.discount).visits(self.mdp.initial[reached])
        return visits

    def solve(self, policy: Vector, right: Vector, tolerance: float) -> Vector:
        return self._pattern.weighted(policy, self.mdp.discount).solve(right, tolerance, 1_000)

    @cached_property
    def _pattern(self) -> Pattern:
        return Pattern(self.mdp.transition, self.mdp.first_choice, in_blocks=True)

    @cached_property
    def _edges(self) -> "Edges":
        from tutelage import kernels

        return kernels.block_edges(self.mdp.transition.indptr[self.mdp.first_choice])

    @cached_property
    def _problem(self) -> tuple[Any, Any, Vector, Any, Vector, float]:
        from tutelage import kernels

        rows = self.mdp.transition
        first = self.mdp.first_choice.astype(rows.indptr.dtype)
        starts = (kernels.unsigned(rows.indptr), kernels.unsigned(rows.indices), rows.data, kernels.unsigned(first))
        return *starts, self.reward, self.mdp.discount
