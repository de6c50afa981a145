"""Stored responses, computed again: a response proves its own numbers.

Of a learner of Eq. 1, the policy gives the expectation, both excesses and the primal objective. The multipliers (a, y)
give the learned weights and the dual bound,

    P0 @ V(a, -G'y) - a @ mu_hat + M*(-a) + N*(y)

Of a projection, the bound on the distance is the largest of

    (a @ mu - y @ (G mu_c - delta) - a @ mu_hat) / norm_q(a)    over all policies

Each takes one solve without constraints. Learners with convex constraints are not kept in files.
"""

import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tutelage.arrays import Vector, check_same, whole_number
from tutelage.bellman.equations import solve_hard, solve_soft
from tutelage.chains.expectations import Expectation, causal_entropy, expectation
from tutelage.constrained.problem import or_one, sizes
from tutelage.convex.blocks import contained, terms
from tutelage.learners.exact import GenericLearner, HardLearner, moved
from tutelage.learners.penalties import DUAL_NORM, Mismatch, Preference, Tangents
from tutelage.model.mdp import Domain, combined_features
from tutelage.outcomes import InvalidModel
from tutelage.roles import Response

# Accepted differences: of the largest value of a number, or one plus its size, and of products that are subtracted.
ACCEPTED_SHARE, ACCEPTED_ROUNDING = 1e-6, 1e-12
# A damaged file may hold numbers of any size: the squares of products above this overflow.
LARGEST = 1e150


def verify(learner: GenericLearner | HardLearner, response: Response) -> None:
    """Refuse a response with a number that does not follow from its policy and its multipliers; name the number."""
    stored, multipliers, doubt = response.certificate, response.multipliers, response.lesson.uncertainty
    if stored is None or multipliers is None or response.learned_weights is None:
        raise InvalidModel("it lacks the certificate, the multipliers or the weights of its learner")
    shown = response.lesson.expectation
    learner = moved(learner, response.lesson)
    domain, constraints = learner.domain, learner.constraints
    reached = expectation(domain, response.policy)
    unit = or_one(sizes(domain))
    deviation, of_reward = reached.reward - shown, unit[: domain.n_reward]
    mismatch = Mismatch() if isinstance(learner, HardLearner) else learner.dual.mismatch
    excess = constraints.excess(reached.preference)
    check_same("uncertainty of the certificate", stored.uncertainty, doubt, of_reward)
    whole_number(stored.n_steps, "the number of steps of the certificate", least=0)
    check_same("reward_there", response.compared, reached.reward, of_reward)
    check_same("mismatch_excess", response.mismatch_excess, mismatch.excess(deviation), of_reward)
    check_same("violation_excess", response.violation_excess, excess, constraints.sizes(reached.preference))
    a, y = multipliers.lower - multipliers.upper, multipliers.preference
    with np.errstate(over="ignore", invalid="ignore"):
        weights = np.concatenate([a, -(constraints.rows.T @ y)])
        products = float(np.abs(weights) @ unit + np.abs(a) @ np.abs(shown) + np.abs(y) @ constraints.allowance)
    if not products < LARGEST:
        raise InvalidModel("its multipliers are larger than any bound needs")
    check_same("learned_weights", response.learned_weights, weights, 1 + np.abs(weights))
    if isinstance(learner, HardLearner):
        primal = -float(np.linalg.norm(deviation, learner.norm))
        size = float(of_reward.max())
        bound = _distance_bound(learner, a, y, weights, shown)
        residual = max(stored.gap, float(excess.max(initial=0.0)))
    else:
        primal = causal_entropy(domain.mdp, response.policy) - learner.dual.paid(deviation, reached.preference)
        prices = np.repeat([mismatch.penalty, learner.preference.penalty], [domain.n_reward, domain.n_preference])
        size = 1 + abs(primal if np.isfinite(primal) else 0.0)
        size += ACCEPTED_ROUNDING / ACCEPTED_SHARE * float(unit @ np.where(np.isfinite(prices), prices, 0.0))
        bound, residual = _dual(learner, a, y, weights, shown, reached)
    check_same("primal", np.array([stored.primal]), np.array([primal]), size)
    # A bound below the primal, which is attained, is rounding.
    size += ACCEPTED_ROUNDING / ACCEPTED_SHARE * products
    check_same("dual", np.array([stored.dual]), np.array([max(bound, primal)]), size)
    size = domain.mdp.steps + ACCEPTED_ROUNDING / ACCEPTED_SHARE * products
    check_same("residual", np.array([stored.residual]), np.array([residual]), size)


def _dual(
    learner: GenericLearner, a: Vector, y: Vector, weights: Vector, shown: Vector, reached: Expectation
) -> tuple[float, float]:
    """The dual objective at (a, y), infinite outside its set, and the residual of a policy with the expectation."""
    mdp, rows = learner.domain.mdp, learner.constraints.rows
    x = np.concatenate([a, y])
    program = learner.dual.program(shown, Tangents.linear(learner.constraints))
    if (np.abs(x - contained(program.blocks, x)) > ACCEPTED_SHARE * (1 + np.abs(x))).any():
        return np.inf, np.inf
    solved = solve_soft(mdp, combined_features(learner.domain) @ weights)
    both = reached, expectation(learner.domain, solved.policy)
    slopes = [np.concatenate([done.reward - shown, -(rows @ done.preference)]) for done in both]
    value = float(mdp.initial @ solved.value - a @ shown + terms(program.blocks, x))
    return value, mdp.steps * program.residual(x, *slopes)


def _distance_bound(learner: HardLearner, a: Vector, y: Vector, weights: Vector, shown: Vector) -> float:
    """Minus the bound on the distance that the multipliers prove; infinite where they are negative."""
    mdp = learner.domain.mdp
    length = float(np.linalg.norm(a, DUAL_NORM[learner.norm]))
    if y.min(initial=0.0) < -ACCEPTED_SHARE * (1 + np.abs(y).max(initial=0.0)):
        return np.inf
    if length == 0:
        return 0.0
    best = mdp.initial @ solve_hard(mdp, combined_features(learner.domain) @ weights).value
    return min(float(best - a @ shown + y @ learner.constraints.allowance) / length, 0.0)


def learner_arrays(learner: object) -> dict[str, Any]:
    """The penalties of a learner whose responses can be verified; nothing of another."""
    if not isinstance(learner, GenericLearner | HardLearner) or learner.preference.functions:
        return {}
    if type(learner).respond not in (GenericLearner.respond, HardLearner.respond):
        return {}  # a subclass that answers in its own way
    slack = np.zeros(0)
    if isinstance(learner, GenericLearner):
        mismatch, preference = learner.dual.mismatch, learner.preference
        numbers = [mismatch.norm, mismatch.penalty, mismatch.squared, preference.norm, preference.penalty]
        slack = np.asarray(mismatch.allowance)
    elif learner.entropic_within is None:
        numbers = [learner.norm]
    else:
        return {}
    return {
        "learner.domain": np.array(_checksum(learner.domain)),
        "learner.numbers": np.array(numbers, dtype=np.float64),
        "learner.mismatch_allowance": slack,
        "learner.violation_allowance": learner.constraints.allowance,
        "learner.rows": learner.constraints.rows,
    }


def stored_learner(archive: Mapping[str, NDArray[Any]], domain: Domain) -> GenericLearner | HardLearner | None:
    """The learner of `learner_arrays`; None where none is stored, or where it had other features than the domain."""
    if "learner.domain" not in archive or not np.array_equal(archive["learner.domain"], _checksum(domain)):
        return None
    names = [f"learner.{name}" for name in ("numbers", "mismatch_allowance", "violation_allowance", "rows")]
    for name in names:
        if name not in archive:
            raise InvalidModel(f"it lacks {name!r}")
    numbers, slack, allowance, rows = (archive[name] for name in names)
    if numbers.dtype != np.float64 or numbers.shape not in ((1,), (5,)):
        raise InvalidModel(f"learner.numbers must be one or five numbers, got {numbers!r}")
    if len(numbers) == 1:
        return HardLearner(domain, allowance, norm=float(numbers[0]), rows=rows)
    norm, penalty, squared, other, cost = numbers.tolist()
    mismatch = Mismatch(norm=norm, penalty=penalty, allowance=slack, squared=bool(squared))
    return GenericLearner(domain, mismatch, Preference(norm=other, penalty=cost, allowance=allowance, rows=rows))


def _checksum(domain: Domain) -> int:
    """Of the features, by which learners' and teachers' domains may differ."""
    return zlib.crc32(domain.preference_features.tobytes(), zlib.crc32(domain.reward_features.tobytes()))
