"""What solvers need of the Bellman operators of one MDP and one reward, however these are computed.

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

import numpy as np

from tutelage import watch
from tutelage.arrays import Flags, Indices, Vector
from tutelage.chains.resolvent import chain, choice_resolvent, policy_resolvent
from tutelage.model.mdp import MDP, discounted, per_choice
from tutelage.model.policy import ending_choice, first_maximum, max_by_state, sum_by_state, uniform_policy
from tutelage.outcomes import EndlessValue

# Above this many states, compiled loops save more within a few calls than the half second of loading the compiler.
COMPILED_ABOVE = 200


@dataclass(frozen=True, eq=False)
class Operators:
    """The Bellman operators of one MDP and one reward on choices (C,), by NumPy, with one factorisation per policy.

    With several rewards (C, n), the soft operators take and return a column for each.
    """

    mdp: MDP
    reward: Vector

    def soft_backup(self, value: Vector) -> tuple[Vector, Vector]:
        """log sum exp of Q within each state, (S,), and the policy exp(Q - V), (C,)."""
        choice_value = choice_values(self.mdp, self.reward, value)
        best = max_by_state(self.mdp, choice_value)
        policy = np.exp(choice_value - per_choice(self.mdp, best))
        total = sum_by_state(self.mdp, policy)
        return best + np.log(total), policy / per_choice(self.mdp, total)

    def hard_backup(self, value: Vector, choice: Indices, slack: float) -> tuple[Vector, Indices]:
        """max of Q within each state, (S,), and the choice that attains it, (S,).

        The given choice is kept where it is within `slack` of the best, so that the choice among ties does not change.
        """
        choice_value = choice_values(self.mdp, self.reward, value)
        best = max_by_state(self.mdp, choice_value)
        return best, np.where(best > choice_value[choice] + slack, first_maximum(self.mdp, choice_value), choice)

    def guess(self) -> Vector:
        """A value (S,) to start from."""
        # The value of the uniform policy depends on rewards at any distance; from zero, each policy iteration would
        # carry them one step further.
        mean_reward = sum_by_state(self.mdp, self.reward) / self.mdp.choices_per_state
        return self.solve(uniform_policy(self.mdp), mean_reward, 0.0)

    def sweep(self, value: Vector, tolerance: float, n_least: int = 3) -> Vector:
        """A value closer to the hard optimum, by at least n_least pairs of in-place sweeps where these are cheap."""
        return value

    def solve(self, policy: Vector, right: Vector, tolerance: float) -> Vector:
        """About (I - discount P)^-1 right, with a residual of `tolerance` relative to `right` in the 2-norm."""
        if policy.ndim == 1:
            return policy_resolvent(self.mdp, policy).values(right)
        watch.spend(policy.shape[1] - 1)
        columns = zip(policy.T.copy(), right.T.copy(), strict=True)
        return np.array([policy_resolvent(self.mdp, shares).values(sums) for shares, sums in columns]).T


@dataclass(frozen=True, eq=False)
class EndingOperators(Operators):
    """The operators of an MDP where some policy goes on for ever: the choices that they return end.

    as_good: choices that differ by less, relative to the largest value, are equally good ways to an end; the first is
    for all, the others where going on gains nothing. longest: longer journeys have no limit, as far as doubles tell.
    """

    plain: Operators
    as_good: tuple[float, ...] = (1e-9, 1e-6, 1e-3, np.inf)
    longest: float = 1e12

    def soft_backup(self, value: Vector) -> tuple[Vector, Vector]:
        return self.plain.soft_backup(value)

    def hard_backup(self, value: Vector, choice: Indices, slack: float) -> tuple[Vector, Indices]:
        backed, moved = self.plain.hard_backup(value, choice, slack)
        is_taken = np.zeros(self.mdp.n_choices, dtype=np.bool_)
        is_taken[moved] = True
        is_lost = ending_choice(self.mdp, is_taken) < 0
        if is_lost.any():
            mdp, largest = self.mdp, max(float(np.abs(value).max()), float(np.abs(self.reward).max()))
            ahead = self.reward + discounted(mdp, mdp.continuing @ value)
            worse = (per_choice(mdp, backed) - ahead - slack) / max(largest, np.finfo(np.float64).tiny)
            # Where nothing is gained, a value is only too high by an error of its evaluation.
            for wide in self.as_good if self.reward[moved[is_lost]].max() <= 0 else self.as_good[:1]:
                otherwise = ending_choice(mdp, is_taken | (worse <= wide))
                if (otherwise >= 0).all():
                    break
            refuse_endless(mdp, otherwise < 0, is_taken.astype(np.float64), "the reward")
            moved = np.where(is_lost, otherwise, moved)
        return backed, moved

    def guess(self) -> Vector:
        choice = ending_choice(self.mdp, np.ones(self.mdp.n_choices, dtype=np.bool_))
        return choice_resolvent(self.mdp, choice).values(self.reward[choice])

    def sweep(self, value: Vector, tolerance: float, n_least: int = 3) -> Vector:
        return self.plain.sweep(value, tolerance, n_least)

    def solve(self, policy: Vector, right: Vector, tolerance: float) -> Vector:
        if policy.ndim == 2:
            columns = zip(policy.T.copy(), right.T.copy(), strict=True)
            return np.column_stack([self.solve(shares, sums, tolerance) for shares, sums in columns])
        mdp, what = self.mdp, "the soft value, which counts entropy,"
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


def choice_values(mdp: MDP, reward: Vector, value: Vector) -> Vector:
    """Q = reward + discount * T @ V, (C,)."""
    ahead = mdp.rows @ value
    return reward + (mdp.discount * ahead if isinstance(mdp.discount, float) else discounted(mdp, ahead))
