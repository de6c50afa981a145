"""Stored responses, computed again: a response proves its own numbers.

Of a learner of Eq. 1, the policy gives the expectation, both excesses and the primal objective. The multipliers (a, y)
give the learned weights and the dual bound,

    P0 @ V(a, -G'y) - a @ mu_hat + M*(-a) + N*(y)

Of a projection, the bound on the distance is the largest of

    (a @ mu - y @ (G mu_c - delta) - a @ mu_hat) / norm_q(a)    over all policies

Each takes one solve without constraints. Tangents of convex constraints are not stored, so there bounds are not
checked.
"""

from dataclasses import dataclass

import numpy as np

from tutelage.arrays import Vector
from tutelage.bellman.equations import solve_hard, solve_soft
from tutelage.bellman.soft_expectations import combined_features
from tutelage.chains.expectations import causal_entropy, expectation
from tutelage.constrained.problem import or_one, sizes
from tutelage.convex.blocks import contained, terms
from tutelage.learners.entropy import GenericLearner
from tutelage.learners.penalties import DUAL_NORM, Mismatch, Tangents
from tutelage.learners.projection import HardLearner
from tutelage.outcomes import InvalidModel
from tutelage.roles import Response


@dataclass(frozen=True, slots=True)
class Accepted:
    """The differences that are accepted between stored and computed numbers."""

    share: float = 1e-6  # of the largest value that the number can have, or of one plus its size
    rounding: float = 1e-10  # of the products that a dual bound subtracts


ACCEPTED = Accepted()


def verify(learner: GenericLearner | HardLearner, response: Response) -> None:
    """Refuse a response with a number that does not follow from its policy and its multipliers; name the number."""
    domain, shown, stored = learner.domain, response.lesson.expectation, response.certificate
    mismatch = Mismatch() if isinstance(learner, HardLearner) else learner.mismatch.on(domain)
    constraints = learner.preference.on(domain)
    reached, unit = expectation(domain, response.policy), or_one(sizes(domain))
    deviation = reached.reward - shown
    before, now = (np.concatenate([part.reward, part.preference]) for part in (response.expectation, reached))
    compare("expectation", before, now, unit)
    compare("mismatch_excess", response.mismatch_excess, mismatch.excess(deviation), unit[: domain.n_reward])
    excess, largest = constraints.excess(reached.preference), constraints.sizes(reached.preference)
    compare("violation_excess", response.violation_excess, excess, largest)
    if isinstance(learner, HardLearner):
        primal, size = -float(np.linalg.norm(deviation, learner.norm)), float(unit[: domain.n_reward].max())
    else:
        entropy = causal_entropy(domain.mdp, response.policy)
        primal = entropy - learner.dual.paid(deviation, reached.preference)
        size = 1 + abs(stored.primal if np.isfinite(stored.primal) else entropy)
    compare("primal", np.array([stored.primal]), np.array([primal]), size)
    if constraints.preference.functions:
        return
    a, y = response.multipliers.lower - response.multipliers.upper, response.multipliers.preference
    weights = np.concatenate([a, -(constraints.rows.T @ y)])
    compare("learned_weights", response.learned_weights, weights, 1 + np.abs(weights))
    prove = _distance_bound if isinstance(learner, HardLearner) else _dual
    bound = prove(learner, a, y, weights, shown)  # type: ignore[arg-type]
    products = ACCEPTED.rounding * float(np.abs(weights) @ unit + np.abs(a) @ np.abs(shown))
    compare("dual", np.array([stored.dual]), np.array([bound]), size + products / ACCEPTED.share)


def _dual(learner: GenericLearner, a: Vector, y: Vector, weights: Vector, shown: Vector) -> float:
    """The dual objective at (a, y); infinite outside its set."""
    mdp, x = learner.domain.mdp, np.concatenate([a, y])
    blocks = learner.dual.blocks(Tangents.linear(learner.dual.constraints))
    if (np.abs(x - contained(blocks, x)) > ACCEPTED.share * (1 + np.abs(x))).any():
        return np.inf
    value = mdp.initial @ solve_soft(mdp, combined_features(learner.domain) @ weights).value
    return float(value - a @ shown + terms(blocks, x))


def _distance_bound(learner: HardLearner, a: Vector, y: Vector, weights: Vector, shown: Vector) -> float:
    """Minus the bound on the distance that the multipliers prove; infinite where they are negative."""
    mdp, length = learner.domain.mdp, float(np.linalg.norm(a, DUAL_NORM[learner.norm]))
    if len(y) and y.min() < -ACCEPTED.share * (1 + np.abs(y).max()):
        return np.inf
    if length == 0:
        return 0.0
    best = mdp.initial @ solve_hard(mdp, combined_features(learner.domain) @ weights).value
    return min(float(best - a @ shown + y @ learner.constraints.allowance) / length, 0.0)


def compare(name: str, stored: Vector, computed: Vector, unit: Vector | float) -> None:
    """Refuse stored numbers that differ from the computed ones by more than the accepted share of their unit."""
    with np.errstate(invalid="ignore"):
        differs = ~((np.abs(stored - computed) <= ACCEPTED.share * np.asarray(unit)) | (stored == computed))
    if differs.any():
        j = int(differs.argmax())
        place = f"[{j}]" if len(stored) > 1 else ""
        raise InvalidModel(
            f"its {name}{place} is {stored[j]:.10g}, but by what it follows from it is {computed[j]:.10g}"
        )
