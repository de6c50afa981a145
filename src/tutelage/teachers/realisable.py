"""Bi-level teaching where the lesson itself must be found: learners whose mismatch penalty has a conjugate not flat.

With a mismatch allowance or a squared penalty the learner stops short of what it is shown, so that the lesson is not
the response. Then the teacher chooses mu_hat among what policies can show,

    maximise over mu_hat in Omega_r   R(mu_hat) = w* @ mu_r(learner's response to mu_hat),

by sequential quadratic programming with the exact gradient. With x = (a, y) the learner's multipliers, L the map from
x to the weights of the features and Z a basis of the directions in which x can move, the implicit function theorem
gives

    d mu_r / d mu_hat = J_r L Z (Z' (L' J L + B) Z)^-1 Z' E         E: mu_hat enters the gradient in a alone.

Omega_r is a polytope known by its support function, so it is replaced by cuts: where the answer lies outside, it is
projected, the face that it was projected onto is one more cut, and the search goes on from there.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize

from tutelage.arrays import Matrix, Vector
from tutelage.learners.dual import Dual, lift
from tutelage.learners.penalties import Mismatch, Preference
from tutelage.mdp.model import Domain
from tutelage.outcomes import TutelageError
from tutelage.solvers.blocks import free_directions
from tutelage.solvers.half_spaces import no_limits
from tutelage.solvers.occupancy_polytope import best_policy, nearest_policy
from tutelage.teachers.climbing import LocalOptimum

MAX_CUTS = 30
MAX_STEPS = 60
# How far outside, relative to the size of what is shown, still counts as realisable.
OUTSIDE = 1e-7
# The loss of a lesson that the learner cannot answer: more than any other's.
UNANSWERED = 1e12


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """What the learner makes of mu_hat: its weights a and multipliers y, its mu_r, and d mu_r / d mu_hat (d_r, d_r)."""

    weights: Vector
    multipliers: Vector
    expectation: Vector
    jacobian: Matrix


@dataclass(frozen=True, slots=True, eq=False)
class Cuts:
    """normals @ mu_hat <= offsets, (k, d_r) and (k,): half-spaces that hold all of Omega_r."""

    normals: Matrix
    offsets: Vector

    @property
    def constraint(self) -> dict[str, Any]:
        """As SciPy's SLSQP takes it."""
        return {
            "type": "ineq",
            "fun": lambda point: self.offsets - self.normals @ point,
            "jac": lambda point: -self.normals,
        }


@dataclass(frozen=True, slots=True, eq=False)
class LessonSearch:
    """The search for the best lesson that a policy can show."""

    domain: Domain
    mismatch: Mismatch
    preference: Preference
    true_weights: Vector

    def climb(self, starts: list[Vector]) -> list[LocalOptimum]:
        """A local maximum uphill from each start (d_r,), which must be realisable; those without an answer are left."""
        found, cuts = [], self._box()
        for start in starts:
            try:
                optimum, cuts = self._climb(start, cuts)
            except TutelageError:
                continue
            found.append(optimum)
        return found

    def _box(self) -> Cuts:
        """How far each reward feature can go, down and up."""
        normals = np.vstack([np.eye(self.domain.n_reward), -np.eye(self.domain.n_reward)])
        offsets = [best_policy(self.domain, normal, no_limits(self.domain)).bound for normal in normals]
        return Cuts(normals, np.array(offsets))

    def answer(self, shown: Vector, near: Answer | None) -> Answer:
        """The learner's answer to a lesson (d_r,), and how it moves with the lesson."""
        domain, d_r = self.domain, self.domain.n_reward
        dual = Dual(domain, self.mismatch.on(domain), self.preference.on(domain))
        start = np.zeros(d_r) if near is None else near.weights
        found, tangents = dual.optimise(shown, start, None if near is None else near.multipliers)
        soft, lifted = found.expansion.source, lift(tangents)
        slope = lifted.T @ soft.expectation - np.concatenate([shown, np.zeros(len(tangents.offsets))])
        free, bend = free_directions(dual.blocks(tangents), found.x, slope)
        curvature = free.T @ (lifted.T @ soft.jacobian @ lifted + bend) @ free
        moved = free @ np.linalg.pinv(curvature, hermitian=True) @ free[:d_r].T
        weights, multipliers = np.split(found.x, [d_r])
        return Answer(weights, multipliers, soft.expectation[:d_r], soft.jacobian[:d_r] @ lifted @ moved)

    def _climb(self, start: Vector, cuts: Cuts) -> tuple[LocalOptimum, Cuts]:
        """One ascent, and the cuts with those that it added."""
        first = last = self.answer(start, None)

        def loss(shown: Vector) -> tuple[float, Vector]:
            nonlocal last
            try:
                last = self.answer(shown, last)
            except TutelageError:
                return UNANSWERED, np.zeros(len(shown))
            return -float(self.true_weights @ last.expectation), -last.jacobian.T @ self.true_weights

        point = start
        for _ in range(MAX_CUTS):
            options = {"ftol": 1e-10, "maxiter": MAX_STEPS}
            point = minimize(loss, point, jac=True, method="SLSQP", constraints=cuts.constraint, options=options).x
            shown = nearest_policy(self.domain, point, no_limits(self.domain))
            if shown.value <= OUTSIDE * (1 + float(np.abs(point).max())):
                break
            away, point = (point - shown.expectation.reward) / shown.value, shown.expectation.reward
            cuts = Cuts(np.vstack([cuts.normals, away]), np.append(cuts.offsets, away @ point))
        answer = self.answer(shown.expectation.reward, last)
        if self.true_weights @ answer.expectation < self.true_weights @ first.expectation:
            answer, shown = first, nearest_policy(self.domain, start, no_limits(self.domain))
        reward = float(self.true_weights @ answer.expectation)
        return LocalOptimum(answer.weights, answer.expectation, reward, shown.policy), cuts
