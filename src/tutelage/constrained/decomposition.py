"""Decomposition of problems over all policies (Dantzig-Wolfe; for the projection, simplicial decomposition).

The state space enters a constrained problem only through a few feature expectations. A small *master* problem
optimises over mixtures of the policies found so far, and its multipliers give a price to every feature. The *pricing*
step solves one unconstrained MDP with these prices as reward weights, from the last plan. The value of that MDP bounds
the objective over all policies, so every round has a certified gap. The mixture is optimal if no policy has a higher
value at these prices.
"""

from dataclasses import dataclass, replace

import numpy as np

from tutelage import watch
from tutelage.arrays import Indices, Matrix, Vector
from tutelage.bellman.equations import Plan, plan_hard
from tutelage.bellman.operators import COMPILED_ABOVE, bellman_operators
from tutelage.constrained.columns import Column, Improver
from tutelage.constrained.mixtures import MAX_ROUNDS, Mixture, is_known, last, master, unfinished
from tutelage.constrained.objectives import Objective
from tutelage.constrained.problem import HalfSpaces, sizes
from tutelage.constrained.spread import decompose_spread
from tutelage.model.mdp import MDP, Domain, per_choice
from tutelage.outcomes import Ended

# Where the opening policy visits this share of the states, policies are improved from stored ones (`spread`).
SPREAD = 0.25
# The accuracy of a price's best policy, relative to the largest reward: close to double precision, because the bound is
# compared with gaps near rounding; and the same in units of the horizon, where any similar policy will do.
EXACT, ROUGH = 1e-11, 1e-3


@dataclass(frozen=True, slots=True, eq=False)
class Priced:
    """The best policy at some prices, a certified upper bound on its value, and the plan to start the next one from."""

    column: Column
    best: float
    plan: Plan


def opened(domain: Domain, price: Vector, limits: HalfSpaces) -> Priced:
    """The policy to start from. Without limits it may be the answer; otherwise, one of almost that value will do."""
    if len(limits) == 0 or not is_spread(domain.mdp):
        return price_out(domain, price, None)
    return price_out(domain, price, None, accuracy=ROUGH * domain.mdp.horizon)


def price_out(domain: Domain, price: Vector, start: Plan | None, *, accuracy: float = EXACT) -> Priced:
    """The policy with the largest `price @ mu`, and an upper bound over all policies.

    accuracy: of the value, relative to the largest reward.
    """
    mdp, d_r = domain.mdp, domain.n_reward
    if is_spread(mdp) and (improver := Improver(domain)).is_quick:
        return _quickly_priced(improver, price, start, accuracy)
    parts = (domain.reward_features @ price[:d_r], domain.preference_features @ price[d_r:])
    # If both are on states, add them before they are repeated for every choice.
    both = parts if len(parts[0]) == len(parts[1]) else tuple(per_choice(mdp, part) for part in parts)
    reward = per_choice(mdp, both[0] + both[1])
    operators = bellman_operators(mdp, reward)
    scale = max(float(np.abs(reward).max()), np.finfo(np.float64).tiny)
    plan = plan_hard(operators, mdp, accuracy=accuracy * scale, start=start)
    # Not `@`: above 10,000 states BLAS uses threads, which wait for each other on a busy machine.
    best = float(np.einsum("s,s->", mdp.initial, plan.value)) + plan.error_bound
    if is_spread(mdp):
        return Priced(Improver(domain).evaluate(plan.choice, None), best, plan)
    visits = operators.visits(plan.choice)
    both_features = (domain.reward_features, domain.preference_features)
    counts = np.concatenate([_counts(features, plan.choice, visits) for features in both_features])
    return Priced(Column(plan.choice, counts, int(np.count_nonzero(visits))), best, plan)


def is_spread(mdp: MDP) -> bool:
    """Whether there are many states, and many of them are starts."""
    return mdp.n_states > COMPILED_ABOVE and bool(np.count_nonzero(mdp.initial) > SPREAD * mdp.n_states)


def _quickly_priced(improver: Improver, price: Vector, start: Plan | None, accuracy: float) -> Priced:
    """The same where policies are evaluated quickly: policy iteration with all expected counts of each policy."""
    mdp = improver.domain.mdp
    first = improver.evaluate(mdp.first_choice[:-1] if start is None else start.choice, None)
    close = accuracy * float(np.abs(improver.features @ price).max()) if accuracy > EXACT else 0.0
    improved = improver.improve(price, [first], np.inf, lambda bound, earned: bound - earned <= close)
    column = (first, *improved.columns)[-1]
    error = improved.best - float(column.counts @ price)
    plan = Plan(np.asarray(column.ahead) @ price, column.choice, error / mdp.horizon, error, 1, Ended.CONVERGED)
    return Priced(column, improved.best, plan)


def decompose(
    domain: Domain,
    objective: Objective,
    limits: HalfSpaces,
    columns: tuple[Column, ...],
    plan: Plan,
    *,
    tolerance: float,
    good_enough: float = -np.inf,
) -> Mixture:
    """The best mixture of policies, to a gap of `tolerance * (1 + |value|)` or until the value is `good_enough`.

    columns: policies to start from, some mixture of which satisfies the limits. plan: that of the last pricing step.
    """
    if domain.mdp.n_states > COMPILED_ABOVE and columns[0].n_reached > SPREAD * domain.mdp.n_states:
        return decompose_spread(domain, objective, limits, columns, plan, tolerance, good_enough)
    bound, largest = -np.inf, sizes(domain)
    for n_rounds in range(1, MAX_ROUNDS + 1):
        point = master(objective, limits, columns)
        priced = price_out(domain, point.price, plan)
        plan, bound = priced.plan, max(bound, point.offset - priced.best)
        mixture = Mixture(columns, plan, point, bound, n_rounds, Ended.CONVERGED)
        if mixture.is_within(tolerance) or point.value <= good_enough:
            return mixture
        if is_known(largest, priced.column, columns):
            return last(mixture)
        watch.report("rounds of decomposition", n_rounds, mixture.gap, replace(mixture, ended=Ended.TIME_LIMIT))
        columns = (*columns, priced.column)
    raise unfinished(mixture)


def _counts(features: Matrix, choice: Indices, visits: Vector) -> Vector:
    """z @ features for visits (S,) to the one choice of each state."""
    if len(visits) > COMPILED_ABOVE:
        # A deterministic policy visits few of many states.
        visited = np.flatnonzero(visits)
        choice, here = choice[visited], visits[visited]
        return here @ features[visited if len(features) == len(visits) else choice]
    return visits @ (features if len(features) == len(visits) else features[choice])
