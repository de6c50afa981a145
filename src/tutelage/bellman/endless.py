"""The Bellman equations where some policy goes on for ever: ways to an end, and the cycle in which going on pays.

Without discount some policy may go on for ever, on roads for example. From the value V of a policy that ends,
B V >= V, and so for all values that policy iteration or sweeps make of it. In a set of states that a policy greedy to
such a V never leaves, its mean reward is the mean of B V - V, which is at least zero. So where going on costs, greedy
policies end, and their values rise to the optimal one. Where going on gains and loses nothing, a choice as good leads
on to an end, and it is taken. Otherwise going on pays, and no value is finite.

Soft policies take all choices, and so end. Their values rise to the soft optimum, or without limit if it is infinite:
then the expected steps rise without limit, too. A value W with B W <= W is above the optimum, because B is monotone.
With the expected steps e of the soft policy of V, W = V + t e is one, if t is small but above max (B V - V).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tutelage.arrays import SMALLEST, Flags, Indices, Vector, max_abs
from tutelage.chains.resolvent import any_choice, chain, choice_resolvent, policy_resolvent
from tutelage.model.mdp import MDP, discounted, per_choice
from tutelage.model.policy import ending_choice
from tutelage.outcomes import EndlessValue


@dataclass(frozen=True, eq=False)
class EndingOperators:
    """The Bellman operators of an MDP where some policy goes on for ever: the choices that they return end.

    plain: those of `equations` or of `backups`. as_good: choices that differ by less, relative to the largest value,
    are equally good ways to an end; the first is for all, the others where going on gains nothing. longest: longer
    journeys have no limit, as far as doubles tell.
    """

    mdp: MDP
    reward: Vector
    plain: Any
    as_good: tuple[float, ...] = (1e-9, 1e-6, 1e-3, np.inf)
    longest: float = 1e12

    def soft_backup(self, value: Vector) -> tuple[Vector, Vector]:
        backed, policy = self.plain.soft_backup(value)
        return backed, policy

    def hard_backup(self, value: Vector, choice: Indices, slack: float) -> tuple[Vector, Indices]:
        mdp = self.mdp
        backed, moved = self.plain.hard_backup(value, choice, slack)
        is_taken = np.zeros(mdp.n_choices, dtype=np.bool_)
        is_taken[moved] = True
        is_lost = ending_choice(mdp, is_taken) < 0
        if not is_lost.any():
            return backed, moved
        ahead = self.reward + discounted(mdp, mdp.continuing @ value)
        worse = (per_choice(mdp, backed) - ahead - slack) / max(max_abs(value), max_abs(self.reward), SMALLEST)
        # Where nothing is gained, a value is only too high by an error of its evaluation.
        for wide in self.as_good if self.reward[moved[is_lost]].max() <= 0 else self.as_good[:1]:
            otherwise = ending_choice(mdp, is_taken | (worse <= wide))
            if (otherwise >= 0).all():
                break
        refuse_endless(mdp, otherwise < 0, is_taken.astype(np.float64), "the reward")
        return backed, np.where(is_lost, otherwise, moved)

    def guess(self) -> Vector:
        choice = any_choice(self.mdp)
        return choice_resolvent(self.mdp, choice).values(self.reward[choice])

    def sweep(self, value: Vector, tolerance: float, n_least: int = 3) -> Vector:
        return np.asarray(self.plain.sweep(value, tolerance, n_least))

    def solve(self, policy: Vector, right: Vector, tolerance: float) -> Vector:
        mdp = self.mdp
        what = "the soft value, which counts entropy,"
        # Where the value is far above the others, no double is small enough for the chance to end.
        refuse_endless(mdp, ending_choice(mdp, policy > 0) < 0, policy, what)
        solved = policy_resolvent(mdp, policy).values(np.column_stack([right, np.ones(len(right))]))
        steps = solved[:, 1]
        refuse_endless(mdp, ~((steps >= 0) & (steps < self.longest)), policy, what)
        return solved[:, 0]


def refuse_endless(mdp: MDP, is_lost: Flags, policy: Vector, what: str) -> None:
    """Raise `EndlessValue` if there are such states, and name those of a cycle of likely moves (C,) among them."""
    if not is_lost.any():
        return
    moves = chain(mdp, policy * mdp.discount, mdp.continuing)
    # Moves to other states are left out; a state that only such moves leave counts as a cycle of its own.
    moves.data *= is_lost[moves.indices]
    path = [int(np.argmax(is_lost))]
    while path[-1] not in path[:-1] and moves[[path[-1]]].nnz:
        row = slice(moves.indptr[path[-1]], moves.indptr[path[-1] + 1])
        path.append(int(moves.indices[row][moves.data[row].argmax()]))
    cycle = path[path.index(path[-1]) : -1] or path[-1:]
    named = ", ".join(mdp.names.describe_state(state) for state in cycle[:4])
    more = f" and {len(cycle) - 4} more" if len(cycle) > 4 else ""
    raise EndlessValue(
        f"going on for ever pays: {what} grows without limit in the cycle {named}{more}; let going on cost more there, "
        "or give a discount below 1"
    )
