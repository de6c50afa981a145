"""Responses and multipliers, built in one way for every learner."""

import numpy as np

from tutelage.arrays import Vector, freeze
from tutelage.mdp.expectations import Expectation
from tutelage.mdp.model import Domain
from tutelage.roles import Certificate, Lesson, Multipliers, Response


def signed_multipliers(weights: Vector, beta: Vector) -> Multipliers:
    """alpha^low = a+ and alpha^up = a- for reward weights a (d_r,), and beta (m,)."""
    return Multipliers(freeze(np.maximum(weights, 0.0)), freeze(np.maximum(-weights, 0.0)), freeze(beta))


def build_response(
    domain: Domain,
    lesson: Lesson,
    certificate: Certificate,
    *,
    policy: Vector,
    expectation: Expectation,
    weights: Vector,
    multipliers: Multipliers,
    mismatch_excess: Vector,
    violation_excess: Vector,
    constraint_names: tuple[str, ...],
) -> Response:
    """The response with read-only arrays and the names of the reward features."""
    return Response(
        lesson=lesson,
        policy=policy,
        expectation=expectation,
        learned_weights=freeze(weights),
        multipliers=multipliers,
        mismatch_excess=freeze(mismatch_excess),
        violation_excess=freeze(violation_excess),
        certificate=certificate,
        reward_names=domain.reward_names,
        constraint_names=constraint_names,
    )
