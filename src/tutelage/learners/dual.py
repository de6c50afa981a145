"""Every learner that values causal entropy (Eq. 1; App. D and E): one convex dual, one solver.

    minimise over a, y   P0 @ V(a, -G'y) - a @ mu_hat + M*(-a) + N*(y)

V is the soft value of the reward a @ phi_r - (G'y) @ phi_c. The dual's gradient in a is mu_r - mu_hat and in y is
-G mu_c, its Hessian the covariance of `solvers.soft_expectations`. The learner's policy is the soft policy at the
minimum; a is alpha^low - alpha^up and y is beta in the paper's letters. Weak duality makes every pair (a, y) a bound on
the entropy that any policy could have kept after paying, and the gap to what this policy keeps is the certificate.
"""

import math
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.linalg import block_diag

from tutelage.arrays import Matrix, Vector, freeze
from tutelage.learners.penalties import Mismatch, Preference
from tutelage.learners.tangents import Answer, Tangents, tighten
from tutelage.mdp.expectations import Expectation
from tutelage.mdp.model import Domain
from tutelage.outcomes import NotConverged
from tutelage.roles import Certificate, Lesson, Multipliers, Response, check_lesson, named
from tutelage.solvers import newton
from tutelage.solvers.blocks import Block, contained, slices, terms
from tutelage.solvers.half_spaces import no_limits
from tutelage.solvers.newton import Expansion, Minimum
from tutelage.solvers.occupancy_polytope import nearest_policy, require_feasible
from tutelage.solvers.soft_expectations import SoftExpansion, combined_features, soft_expansion

EPSILON = float(np.finfo(np.float64).eps)
RESIDUAL_TOLERANCE = 2e-9
# From a 2^16th of the penalties: mild enough for any that mean something.
DOUBLINGS = 16
# The residual, relative to what is reached, beyond which rounding calls for a check that such a policy exists at all.
EXACT = 1e-7


def entropy_response(
    domain: Domain, mismatch: Mismatch, preference: Preference, lesson: Lesson, start: Response | None
) -> Response:
    """What an entropy learner makes of a lesson, to a KKT residual below 1e-8 or as close as rounding allows."""
    check_lesson(domain, lesson)
    dual = Dual(domain, mismatch, preference, lesson.expectation)
    weights = np.zeros(domain.n_reward) if start is None else start.learned_weights[: domain.n_reward]
    found, tangents = dual.solve(weights, None if start is None else start.multipliers.preference)
    return dual.response(lesson, tangents, found)


@dataclass(frozen=True, slots=True, eq=False)
class Dual:
    """The dual problem of one learner and one lesson, for a given set of tangents."""

    domain: Domain
    mismatch: Mismatch
    preference: Preference
    shown: Vector
    features: Matrix = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", combined_features(self.domain))

    def solve(self, weights: Vector, multipliers: Vector | None) -> tuple[Minimum[SoftExpansion], Tangents]:
        """The best (a, y), and the tangents that it takes, from a guess of a and, where there is one, of y."""
        d_r, tangents = self.domain.n_reward, Tangents.opening(self.preference, self.domain)

        def minimise(tangents: Tangents, multipliers: Vector) -> Answer[Minimum[SoftExpansion]]:
            nonlocal weights
            found = self.minimise(tangents, np.concatenate([weights, multipliers]))
            weights, multipliers = np.split(found.x, [d_r])
            return Answer(found, multipliers, found.expansion.source.expectation[d_r:])

        guess = np.zeros(len(tangents.offsets))
        if multipliers is not None and len(multipliers) == len(guess):
            guess = multipliers
        answer, tangents = tighten(self.preference, self.domain, tangents, guess, minimise)
        return answer.found, tangents

    def minimise(self, tangents: Tangents, start: Vector) -> Minimum[SoftExpansion]:
        """The best (a, y); where there is none, an error that says what cannot be had."""
        try:
            found = self._newton(tangents, start)
        except NotConverged as failure:
            self._diagnose(tangents, failure)
            found = self._follow(tangents, failure)
        if found.residual > EXACT * (1 + np.abs(found.expansion.source.expectation).max()):
            # So much noise may be that of weights that run off.
            excuse = NotConverged("rounding hides the minimum", residual=found.residual, n_steps=found.n_steps)
            self._diagnose(tangents, excuse)
        return found

    def _follow(self, tangents: Tangents, failure: NotConverged) -> Minimum[SoftExpansion]:
        """The minimum by way of milder penalties, doubled one by one.

        With large penalties the dual is all but piecewise linear, and Newton's steps from afar go to and fro across
        its edges. On the path of minima from small penalties to large the weights double with the penalties, so that
        each minimum shows on which edge, and where, to look for the next.
        """
        x = np.zeros(self.domain.n_reward + len(tangents.offsets))
        for ease in 2.0 ** -np.arange(DOUBLINGS, -1, -1):
            mismatch = replace(self.mismatch, penalty=ease * self.mismatch.penalty)
            preference = replace(self.preference, penalty=ease * self.preference.penalty)
            try:
                found = Dual(self.domain, mismatch, preference, self.shown)._newton(tangents, 2 * x)
            except NotConverged:
                raise failure from None
            x = found.x
        return found

    def _newton(self, tangents: Tangents, start: Vector) -> Minimum[SoftExpansion]:
        """Newton's method from a start (a, y)."""
        offset = np.concatenate([self.shown, np.zeros(len(tangents.offsets))])
        problem = SoftProblem(self.domain, self.features, np.zeros(len(self.domain.names)), self.lift(tangents), offset)
        return problem.minimise(self.blocks(tangents), start)

    def blocks(self, tangents: Tangents) -> list[Block]:
        """M*(-a) and N*(y)."""
        return [self.mismatch.block(self.domain), *tangents.blocks(self.preference)]

    def lift(self, tangents: Tangents) -> Matrix:
        """(d, n), from (a, y) to the weights (a, -G'y) of all features."""
        lift: Matrix = block_diag(np.eye(self.domain.n_reward), -tangents.normals.T)
        return lift

    def _diagnose(self, tangents: Tangents, failure: NotConverged) -> None:
        """Multipliers run off when what they enforce cannot be had: name it."""
        limits = tangents.half_spaces(self.preference, self.domain)
        if self.preference.is_hard:
            require_feasible(self.domain, limits)
        else:
            limits = no_limits(self.domain)
        if math.isinf(self.mismatch.penalty):
            nearest = nearest_policy(self.domain, self.shown, limits, norm=math.inf)
            missing = self.mismatch.excess(nearest.expectation.reward - self.shown)
            if missing.max() > 1e-7 * (1 + np.abs(self.shown).max()):
                within = " within the preferences" if len(limits) else ""
                reason = f"no policy{within} has the expectation shown: the nearest misses "
                reason += named(self.domain.reward_names, missing)
            else:
                reason = "its weights run off, as they do where the expectation shown lies on the edge of what can be "
                reason += "reached: " + named(self.domain.reward_names, self.shown)
            raise NotConverged(
                f"the match must be exact, but {reason}", residual=failure.residual, n_steps=failure.n_steps
            ) from failure

    def response(self, lesson: Lesson, tangents: Tangents, found: Minimum[SoftExpansion]) -> Response:
        """The policy at the minimum, with what it costs and what proves it."""
        domain, here = self.domain, found.expansion.source
        a, y = np.split(found.x, [domain.n_reward])
        reached = Expectation(*np.split(here.expectation, [domain.n_reward]))
        excess = np.maximum(self.preference.values(domain, reached.preference) - self.preference.limits(domain), 0.0)
        beta = tangents.by_constraint(self.preference, domain, y)
        weights = self.lift(tangents) @ found.x
        entropy = here.soft_return - float(weights @ here.expectation)
        certificate = Certificate(
            primal=entropy - self.mismatch.cost(reached.reward - self.shown) - self.preference.cost(excess),
            dual=found.expansion.value + terms(self.blocks(tangents), found.x),
            residual=found.residual,
            n_steps=found.n_steps,
            ended=found.ended,
            uncertainty=lesson.uncertainty,
        )
        return Response(
            lesson=lesson,
            policy=here.solved.policy,
            expectation=reached,
            learned_weights=freeze(weights),
            multipliers=Multipliers(freeze(np.maximum(a, 0.0)), freeze(np.maximum(-a, 0.0)), freeze(beta)),
            mismatch_excess=freeze(self.mismatch.excess(reached.reward - self.shown)),
            violation_excess=freeze(excess),
            certificate=certificate,
            reward_names=domain.reward_names,
            constraint_names=self.preference.names(domain),
        )


@dataclass(frozen=True, slots=True, eq=False)
class SoftProblem:
    """f(x) = P0 @ V(base + lift @ x) - offset @ x, to be minimised with simple terms.

    base: (d,), weights of the features that are fixed. lift: (d, n). offset: (n,).
    """

    domain: Domain
    features: Matrix
    base: Vector
    lift: Matrix
    offset: Vector

    def minimise(self, blocks: list[Block], start: Vector, near: SoftExpansion | None = None) -> Minimum[SoftExpansion]:
        """Newton's method from a start (n,), with each block in units of its own. near: a nearby expansion."""
        units = self._units(blocks)
        scaled = [block.in_units(unit) for block, unit in zip(blocks, units, strict=True)]
        unit = np.repeat(units, [len(block.slope) for block in blocks])
        lift, offset = self.lift * unit, unit * self.offset

        def smooth(z: Vector, last: SoftExpansion | None) -> Expansion[SoftExpansion]:
            weights = self.base + lift @ z
            here = soft_expansion(self.domain.mdp, self.features, weights, near=near if last is None else last)
            reached = lift.T @ here.expectation
            bend = lift.T @ here.jacobian @ lift
            value, ulps = here.soft_return - float(offset @ z), _ulps(here)
            noise = ulps * (1 + float(np.abs(reached).max(initial=0.0)))
            return Expansion(value, reached - offset, bend, noise, ulps + EPSILON * abs(float(offset @ z)), here)

        inside = contained(scaled, start / unit)
        found = newton.minimise(smooth, scaled, inside, tolerance=_tolerance(scaled))
        return replace(found, x=unit * found.x)

    def _units(self, blocks: list[Block]) -> list[float]:
        """For each block the weight that makes its features about one in size.

        Powers of two, so that going back and forth costs no digit.
        """
        sizes = np.abs(self.features @ self.lift).max(axis=0)
        largest = [float(sizes[part].max(initial=0.0)) for part in slices(blocks)]
        return [2.0 ** -round(math.log2(size)) if size > 0 else 1.0 for size in largest]


def _tolerance(blocks: list[Block]) -> float:
    """The residual to reach: each unit of it may cost as much as the largest penalty."""
    return RESIDUAL_TOLERANCE / max([1.0, *(block.radius for block in blocks if math.isfinite(block.radius))])


def _ulps(here: SoftExpansion) -> float:
    """How well rounding lets the soft value V be known, and with it, relatively, the policy exp(Q - V)."""
    return 16 * EPSILON * float(np.abs(here.solved.value).max())
