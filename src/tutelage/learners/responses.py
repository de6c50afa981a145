"""Responses and multipliers, built in one way for every learner."""

import numpy as np

from tutelage.arrays import Vector, freeze
from tutelage.chains.expectations import Expectation
from tutelage.learners.penalties import Constraints, Mismatch
from tutelage.roles import Certificate, Lesson, Multipliers, Response


def signed_multipliers(weights: Vector, beta: Vector) -> Multipliers:
    """alpha^low = a+ and alpha^up = a- for reward weights a (d_r,), and beta (m,)."""
    return Multipliers(freeze(np.maximum(weights, 0.0)), freeze(np.maximum(-weights, 0.0)), freeze(beta))


def build_response(
    lesson: Lesson,
    certificate: Certificate,
    policy: Vector,
    reached: Expectation,
    weights: Vector,
    multipliers: Multipliers,
    mismatch: Mismatch,
    constraints: Constraints,
) -> Response:
    """The response with read-only arrays; the expectation reached determines both excesses."""
    return Response(
        lesson=lesson,
        policy=policy,
        expectation=reached,
        learned_weights=freeze(weights),
        multipliers=multipliers,
        mismatch_excess=freeze(mismatch.excess(reached.reward - lesson.expectation)),
        violation_excess=freeze(constraints.excess(reached.preference)),
        certificate=certificate,
        reward_names=constraints.domain.reward_names,
        constraint_names=constraints.names,
    )
