"""The learner whose reward weights are settled: what is left of it is a function of a handful of numbers.

For reward weights a, the learner's preference multipliers are themselves the answer of a convex problem,

    phi(a) = min over y of   P0 @ V(a, -G'y) + N*(y)   =   max over pi of   H(pi) + a @ mu_r(pi) - N(g(mu_c(pi))),

and the pair (a, y(a)) satisfies the learner's optimality conditions by construction: complementarity coordinate by
coordinate, for every y_j may be at zero, at its limit or in between. phi is convex, being a maximum of functions linear
in a, and

    mu_r(a) = grad phi(a)                       the reward expectation of the learner that has settled on a
    d mu_r / d a = hess phi(a) = J_rr - J_ry Z (Z' (J_yy + B) Z)^-1 Z' J_yr

where J is the Hessian of P0 @ V in (a, y), the columns of Z span the directions in which y can move (the implicit
function theorem on its free coordinates) and B is what the surface of N*'s set adds. Convexity makes mu_r monotone:
u @ mu_r(a + t u) never falls as t grows.
"""

from dataclasses import dataclass, field

import numpy as np

from tutelage.arrays import Matrix, Vector, freeze
from tutelage.learners.dual import SoftProblem
from tutelage.learners.penalties import Preference
from tutelage.learners.tangents import Answer, Tangents, tighten
from tutelage.mdp.expectations import Expectation
from tutelage.mdp.model import Domain
from tutelage.solvers.blocks import free_directions, terms
from tutelage.solvers.newton import Minimum
from tutelage.solvers.soft_expectations import SoftExpansion, combined_features


@dataclass(frozen=True, slots=True, eq=False)
class Settled:
    """The learner at reward weights a (d_r,).

    worth: phi(a). expectation: of its policy. jacobian: (d_r, d_r), d mu_r / d a, symmetric and positive
    semi-definite. multipliers: y, one per tangent, and drift, (K, d_r), d y / d a. soft: the soft optimum it acts by.
    """

    weights: Vector
    worth: float
    expectation: Expectation
    jacobian: Matrix
    multipliers: Vector
    drift: Matrix
    tangents: Tangents
    soft: SoftExpansion

    def predict(self, weights: Vector) -> Vector:
        """(K,), the multipliers at other weights, to first order."""
        return self.multipliers + self.drift @ (weights - self.weights)


@dataclass(frozen=True, slots=True, eq=False)
class Reduction:
    """Eq. 1's learner as a function of its reward weights alone."""

    domain: Domain
    preference: Preference
    features: Matrix = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", combined_features(self.domain))

    def settle(self, weights: Vector, *, near: Settled | None = None) -> Settled:
        """The learner at reward weights (d_r,). near: the learner at nearby weights, to start from."""
        domain, preference = self.domain, self.preference
        tangents = Tangents.opening(preference, domain) if near is None else near.tangents
        guess = np.zeros(len(tangents.offsets)) if near is None else near.predict(weights)
        base = np.concatenate([weights, np.zeros(domain.n_preference)])
        around = None if near is None else near.soft

        def solve(tangents: Tangents, multipliers: Vector) -> Answer[Minimum[SoftExpansion]]:
            nothing = np.zeros(len(multipliers))
            problem = SoftProblem(domain, self.features, base, self._lift(tangents), nothing)
            found = problem.minimise(tangents.blocks(preference), multipliers, around)
            return Answer(found, found.x, found.expansion.source.expectation[domain.n_reward :])

        answer, tangents = tighten(preference, domain, tangents, guess, solve)
        return self._settled(weights, answer.found, tangents)

    def _lift(self, tangents: Tangents) -> Matrix:
        """(d, K), from y to the weights (0, -G'y)."""
        return np.vstack([np.zeros((self.domain.n_reward, len(tangents.offsets))), -tangents.normals.T])

    def _settled(self, weights: Vector, found: Minimum[SoftExpansion], tangents: Tangents) -> Settled:
        soft, y, d_r = found.expansion.source, found.x, self.domain.n_reward
        blocks, lift = tangents.blocks(self.preference), self._lift(tangents)
        free, bend = free_directions(blocks, y, lift.T @ soft.expectation)
        held = free.T @ lift.T @ soft.jacobian
        curvature = held @ lift @ free + free.T @ bend @ free
        across = held[:, :d_r]
        answer = -np.linalg.pinv(curvature, hermitian=True) @ across
        jacobian = soft.jacobian[:d_r, :d_r] + across.T @ answer
        return Settled(
            weights=freeze(weights.copy()),
            worth=soft.soft_return + terms(blocks, y),
            expectation=Expectation(*np.split(soft.expectation, [d_r])),
            jacobian=freeze((jacobian + jacobian.T) / 2),
            multipliers=freeze(y),
            drift=freeze(free @ answer),
            tangents=tangents,
            soft=soft,
        )
