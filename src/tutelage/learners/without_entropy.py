"""Optima without entropy within convex preferences, which tangents replace (`penalties.Tangents`)."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tutelage.arrays import Vector, freeze
from tutelage.chains.expectations import Expectation, expectation, occupancy
from tutelage.constrained.direct import Ball, best_within_balls
from tutelage.constrained.occupancy_polytope import best_policy
from tutelage.constrained.problem import ConstrainedOptimum, HalfSpaces, sizes
from tutelage.learners.convex_constraints import ABOVE
from tutelage.learners.penalties import Constraints, Tangents
from tutelage.model.policy import policy_from_occupancy


def optimum_within(
    constraints: Constraints,
    solve: Callable[[HalfSpaces], ConstrainedOptimum],
    value: Callable[[Expectation], float],
    unit: float,
) -> tuple[ConstrainedOptimum, Tangents]:
    """The optimum within convex constraints, and the tangents that prove it.

    solve: the optimum within half-spaces. value: the objective of a policy with an expectation, and unit: its size.
    A linear program returns corners, which may violate what their mean satisfies; once feasible, the mean is optimal.
    """
    domain = constraints.domain
    visits = np.zeros(domain.mdp.n_choices)
    tangents: Tangents = Tangents.opening(constraints).fixed()
    n_solved = 0
    while True:
        n_solved += 1
        optimum = solve(tangents.half_spaces())
        tighter, _ = tangents.tightened(optimum.expectation.preference, optimum.multipliers)
        if tighter is tangents:
            return optimum, tangents
        # The last solutions count most: the first tangents are far from the constraints.
        visits += max(1 / n_solved, 0.1) * (occupancy(domain.mdp, optimum.policy) - visits)
        policy = policy_from_occupancy(domain.mdp, visits)
        reached = expectation(domain, policy)
        earned = value(reached)
        if is_within(constraints, reached) and abs(earned - optimum.bound) <= optimum.gap + ABOVE * unit:
            return replace(optimum, policy=policy, expectation=reached, value=earned), tangents
        tangents = tighter


def is_within(constraints: Constraints, reached: Expectation) -> bool:
    """Whether a policy with this expectation meets the constraints, up to rounding."""
    point = reached.preference
    return bool((constraints.excess(point) <= ABOVE * constraints.sizes(point)).all())


def best_within(constraints: Constraints, weights: Vector) -> ConstrainedOptimum:
    """The policy with the largest weights @ mu_r (d_r,) within constraints: a constrained MDP. multipliers: (m,)."""
    domain = constraints.domain
    functions = constraints.preference.functions
    radii = constraints.allowance[len(constraints.rows) :].tolist()
    convex = zip(functions, radii, strict=True)
    balls = [Ball(*function.distance, radius) for function, radius in convex if function.distance is not None]
    # Distances by one cone program, where it is exact enough; other convex constraints by tangents.
    if balls and len(balls) == len(functions):
        solved = best_within_balls(domain, weights, Tangents.linear(constraints).half_spaces(), balls)
        if solved is not None and is_within(constraints, solved[0].expectation):
            optimum, t = solved
            return replace(optimum, multipliers=np.append(optimum.multipliers, np.linalg.norm(t, axis=1)))
    optimum, tangents = optimum_within(
        constraints,
        lambda limits: best_policy(domain, weights, limits),
        lambda reached: float(weights @ reached.reward),
        float(np.abs(weights) @ sizes(domain)[: len(weights)]),
    )
    return replace(optimum, multipliers=freeze(tangents.by_constraint(optimum.multipliers)))
