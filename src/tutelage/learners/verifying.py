"""Stored responses, computed again: a response proves its own numbers.

Of a learner of Eq. 1, the policy gives the expectation, both excesses and the primal objective. The multipliers (a, y)
give the learned weights and the dual bound,

    P0 @ V(a, -G'y) - a @ mu_hat + M*(-a) + N*(y)

Of a projection, the bound on the distance is the largest of

    (a @ mu - y @ (G mu_c - delta) - a @ mu_hat) / norm_q(a)    over all policies

Each takes one solve without constraints. With entropy, a convex constraint is its tangent at the response: tangents lie
below it anywhere, so that the bound holds. A projection needs many tangents, which are not stored: it is done again.
"""

import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tutelage.arrays import Vector, check_same
from tutelage.bellman.equations import solve_hard, solve_soft
from tutelage.bellman.soft_expectations import combined_features
from tutelage.chains.expectations import causal_entropy, expectation
from tutelage.constrained.problem import or_one, sizes
from tutelage.convex.blocks import contained, terms
from tutelage.learners.exact import GenericLearner, HardLearner, moved
from tutelage.learners.penalties import DUAL_NORM, Mismatch, Preference, Tangents
from tutelage.model.mdp import Domain
from tutelage.outcomes import InvalidModel
from tutelage.roles import Lesson, Response

# The differences that are accepted: of the largest value that a number can have, or of one plus its size, and of the
# products that objectives and bounds subtract.
ACCEPTED_SHARE, ACCEPTED_ROUNDING = 1e-6, 1e-12
# A damaged file may hold numbers of any size: the squares of products above this overflow.
LARGEST = 1e150


def verify(learner: GenericLearner | HardLearner, response: Response) -> None:
    """Refuse a response with a number that does not follow from its policy and its multipliers; name the number."""
    stored, multipliers = response.certificate, response.multipliers
    if stored is None or multipliers is None or response.learned_weights is None:
        raise InvalidModel("it lacks the certificate, the multipliers or the weights of its learner")
    done, shown = expectation(learner.domain, response.policy), response.lesson.expectation
    check_same("expectation", response.expectation.both, done.both, or_one(sizes(learner.domain)))
    learner = moved(learner, response.lesson)
    domain, is_there = learner.domain, response.lesson.initial is not None
    mismatch = Mismatch() if isinstance(learner, HardLearner) else learner.mismatch.on(domain)
    constraints = learner.preference.on(domain)
    reached, unit = expectation(domain, response.policy) if is_there else done, or_one(sizes(domain))
    check_same("reward_there", response.compared, reached.reward, unit[: domain.n_reward])
    deviation = reached.reward - shown
    check_same("mismatch_excess", response.mismatch_excess, mismatch.excess(deviation), unit[: domain.n_reward])
    excess, largest = constraints.excess(reached.preference), constraints.sizes(reached.preference)
    check_same("violation_excess", response.violation_excess, excess, largest)
    if isinstance(learner, HardLearner):
        primal, size = -float(np.linalg.norm(deviation, learner.norm)), float(unit[: domain.n_reward].max())
    else:
        entropy = causal_entropy(domain.mdp, response.policy)
        primal = entropy - learner.dual.paid(deviation, reached.preference)
        size = 1 + abs(stored.primal if np.isfinite(stored.primal) else entropy)
        prices = np.repeat([mismatch.penalty, learner.preference.penalty], [domain.n_reward, domain.n_preference])
        size += ACCEPTED_ROUNDING / ACCEPTED_SHARE * float(unit[np.isfinite(prices)] @ prices[np.isfinite(prices)])
    check_same("primal", np.array([stored.primal]), np.array([primal]), size)
    is_convex, tangents = bool(learner.preference.functions), Tangents.linear(constraints)
    if is_convex:
        tangents = Tangents.touching(constraints, reached.preference).fixed()
    a, y = multipliers.lower - multipliers.upper, multipliers.preference
    with np.errstate(over="ignore", invalid="ignore"):
        weights = np.concatenate([a, -(tangents.normals.T @ y)])
        products = float(np.abs(weights) @ unit + np.abs(a) @ np.abs(shown))
    if not products < LARGEST:
        raise InvalidModel("its multipliers are larger than any bound needs")
    if not is_convex:
        check_same("learned_weights", response.learned_weights, weights, 1 + np.abs(weights))
    prove = _distance_bound if isinstance(learner, HardLearner) else _dual
    # A bound below the primal, which is attained, is rounding.
    bound = max(prove(learner, tangents, a, y, weights, shown), primal)  # type: ignore[arg-type]
    size += ACCEPTED_ROUNDING / ACCEPTED_SHARE * products
    check_same("dual", np.array([stored.dual]), np.array([bound]), size)


def _dual(learner: GenericLearner, tangents: Tangents, a: Vector, y: Vector, weights: Vector, shown: Vector) -> float:
    """The dual objective at (a, y); infinite outside its set."""
    mdp, x = learner.domain.mdp, np.concatenate([a, y])
    blocks = learner.dual.blocks(tangents)
    if (np.abs(x - contained(blocks, x)) > ACCEPTED_SHARE * (1 + np.abs(x))).any():
        return np.inf
    value = mdp.initial @ solve_soft(mdp, combined_features(learner.domain) @ weights).value
    return float(value - a @ shown + terms(blocks, x))


def _distance_bound(
    learner: HardLearner, tangents: Tangents, a: Vector, y: Vector, weights: Vector, shown: Vector
) -> float:
    """Minus the bound on the distance that the multipliers prove; infinite where they are negative."""
    if learner.functions:
        proof = learner.respond(Lesson.from_expectation(shown)).certificate
        return np.inf if proof is None else proof.dual
    mdp, length = learner.domain.mdp, float(np.linalg.norm(a, DUAL_NORM[learner.norm]))
    if len(y) and y.min() < -ACCEPTED_SHARE * (1 + np.abs(y).max()):
        return np.inf
    if length == 0:
        return 0.0
    best = mdp.initial @ solve_hard(mdp, combined_features(learner.domain) @ weights).value
    return min(float(best - a @ shown + y @ tangents.offsets) / length, 0.0)


def learner_arrays(learner: object) -> dict[str, Any]:
    """The penalties of a learner whose responses can be verified; nothing of another."""
    if not isinstance(learner, GenericLearner | HardLearner) or learner.preference.functions:
        return {}
    if type(learner).respond not in (GenericLearner.respond, HardLearner.respond):
        return {}  # a subclass that answers in its own way
    numbers, slack = [learner.norm] if isinstance(learner, HardLearner) else [], np.zeros(0)
    if isinstance(learner, HardLearner) and learner.entropic_within is not None:
        return {}
    if isinstance(learner, GenericLearner):
        mismatch, preference = learner.mismatch.on(learner.domain), learner.preference
        numbers = [mismatch.norm, mismatch.penalty, mismatch.squared, preference.norm, preference.penalty]
        slack = np.asarray(mismatch.allowance)
    constraints = learner.preference.on(learner.domain)
    return {
        "learner.domain": np.array(_checksum(learner.domain)),
        "learner.numbers": np.array(numbers, dtype=np.float64),
        "learner.mismatch_allowance": slack,
        "learner.violation_allowance": constraints.allowance,
        "learner.rows": constraints.rows,
    }


def stored_learner(archive: Mapping[str, NDArray[Any]], domain: Domain) -> GenericLearner | HardLearner | None:
    """The learner of `learner_arrays`; None where none is stored, or where it had other features than the domain."""
    if "learner.domain" not in archive or archive["learner.domain"] != _checksum(domain):
        return None
    names = ("numbers", "mismatch_allowance", "violation_allowance", "rows")
    missing = [name for name in names if f"learner.{name}" not in archive]
    if missing:
        raise InvalidModel(f"it lacks 'learner.{missing[0]}'")
    numbers, slack, allowance, rows = (archive[f"learner.{name}"] for name in names)
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
