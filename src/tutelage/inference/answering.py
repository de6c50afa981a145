"""The answers of a soft learner to several lessons, and their derivatives in its parameters theta = (C_r, C_c, delta).

With x = (a / C_r, y / C_c), low = (-1, 0) and D = diag(C_r, -C_c), the learner's answer to mu_hat is the soft policy of
the weights D x that minimise, over low <= x <= 1,

    f(x) = P0 @ V(D x) - C_r x_r @ mu_hat + C_c x_c @ delta - tau sum of [log(1 - x) + log(x - low)]       tau = 0

The box makes kinks and flats of the answer as a function of theta, where a search for theta gets stuck. With a
logarithmic barrier, tau > 0, the answer is smooth in theta, and every parameter has an influence:

    H dx + (d grad f / d theta) d theta = 0,     d mu = J (D dx + dD x),     J: the Hessian of P0 @ V in the weights.

Without a barrier an entry at its limit stays there, dx = 0, and H is that of the free entries; where y_j is at a limit,
delta_j changes nothing until it reaches mu_c[j].

Newton's method finds all answers together, because on a small MDP a call takes longer than its arithmetic. Each answer
has its own damping, which grows where the model predicts a larger decrease than f shows.
"""

from dataclasses import dataclass

import numpy as np

from tutelage import outcomes
from tutelage.arrays import Indices, Matrix, Vector
from tutelage.bellman.soft_expectations import SoftExpansions, combined_features, soft_expansions
from tutelage.convex.blocks import SURFACE, box_minima
from tutelage.learners.exact import SoftLearner
from tutelage.model.mdp import Domain
from tutelage.outcomes import NotConverged


@dataclass(frozen=True, slots=True)
class NewtonSteps:
    """How the answers are computed.

    max_steps: after these, the learner's own method answers. towards: the part of the way to a barrier that a step may
    go. armijo: the least share of the predicted decrease. last: a step that predicts a smaller decrease, in units
    of the accuracy, is the last one, to first order; or one below `least`, in nats. damped: the damping after a refused
    step, relative to the Hessian's diagonal; raised, lowered: its factors after refused and taken steps. flat: the
    curvature that rounding leaves, relative to the largest of the Hessian. rounding: the error of f, relative to its
    size.
    """

    max_steps: int = 60
    towards: float = 0.95
    armijo: float = 1e-4
    last: float = 1e-2
    least: float = 1e-14
    damped: float = 1e-3
    raised: float = 10.0
    lowered: float = 0.03
    flat: float = 1e-13
    rounding: float = 1e-10


NEWTON = NewtonSteps()


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """theta: (2 + d_c,). x: (n, d), (a / C_r, y / C_c) of each answer. expectation: (n, d), mu. soft: soft policies
    near the answers. moved: (n, d, 2 + d_c), dx / d theta. slopes: (n, d, 2 + d_c), d mu / d theta.
    """

    theta: Vector
    x: Matrix
    expectation: Matrix
    soft: SoftExpansions
    moved: Matrix
    slopes: Matrix

    @property
    def paid(self) -> Matrix:
        """(n, d_c), the multipliers of the preferences."""
        return np.asarray(self.theta[1] * self.x[:, self.x.shape[1] - len(self.theta) + 2 :])


def answers_of(
    domain: Domain,
    theta: Vector,
    shown: Matrix,
    tau: float,
    near: Answers | None,
    *,
    accuracy: float = 1e-10,
    steps: NewtonSteps = NEWTON,
) -> Answers:
    """The answers to the lessons shown (n, d_r).

    near: those of other parameters to the first lessons, or to all, to start from. accuracy: of the expectations,
    relative to their range.
    """
    program = _Program(domain, theta, shown, tau, max(steps.last * accuracy, steps.least), steps)
    x, soft = program.minima(near)
    moved, slopes = program.slopes(x, soft)
    # To first order at the minimum, since the last step is not worth another soft policy.
    away = program.scale * x - soft.weights
    expectation = soft.expectation + np.einsum("nde,ne->nd", soft.jacobian, away)
    return Answers(theta, x, expectation, soft, moved, slopes)


@dataclass(frozen=True, slots=True, eq=False)
class _Program:
    """f for each lesson. enough: in nats, the accuracy of soft values, and the predicted decrease that is worth another
    soft policy.
    """

    domain: Domain
    theta: Vector
    shown: Matrix
    tau: float
    enough: float
    steps: NewtonSteps

    @property
    def low(self) -> Vector:
        return np.repeat([-1.0, 0.0], [self.domain.n_reward, self.domain.n_preference])

    @property
    def scale(self) -> Vector:
        """(d,), the diagonal of D."""
        return np.asarray(np.where(self.low < 0, self.theta[0], -self.theta[1]))

    @property
    def linear(self) -> Matrix:
        """(n, d), the slope of f beside that of P0 @ V."""
        paid = np.tile(self.theta[1] * self.theta[2:], (len(self.shown), 1))
        return np.hstack([-self.theta[0] * self.shown, paid])

    def start(self, near: Answers | None) -> Matrix:
        """x (n, d), from near answers to first order."""
        x = np.tile((self.low + 1) / 2 if self.tau > 0 else np.zeros(len(self.low)), (len(self.shown), 1))
        if near is not None:
            step = near.moved @ (self.theta - near.theta)
            x[: len(near.x)] = near.x + (self._inside(near.x, step) if self.tau > 0 else step)
        return x if self.tau > 0 else np.clip(x, self.low, 1.0)

    def minima(self, near: Answers | None) -> tuple[Matrix, SoftExpansions]:
        """The minimum for each lesson, and the soft policies there."""
        x, active, rule = self.start(near), np.arange(len(self.shown)), self.steps
        value, soft = self.values(x, active, None if near is None else near.soft)
        damping = np.zeros(len(active))
        for n_steps in range(rule.max_steps):
            here = x[active]
            step, predicted = self._steps(here, soft, active, damping[active])
            there = here + step if self.tau > 0 else np.clip(here + step, self.low, 1.0)
            is_open = (damping[active] > 0) | (np.abs(predicted) > self.enough)
            x[active[~is_open]] = there[~is_open]
            active, there, predicted = active[is_open], there[is_open], predicted[is_open]
            if not len(active):
                return x, soft
            outcomes.report("Newton steps", n_steps, float(predicted.max()))
            outcomes.spend(len(active) - 1)
            new, at_new = self.values(there, active, soft.taken(active))
            noise = rule.rounding * (1 + np.abs(value[active])) + self.enough
            is_taken = (predicted >= 0) & (new <= value[active] - rule.armijo * predicted + noise)
            x[active[is_taken]], value[active[is_taken]] = there[is_taken], new[is_taken]
            soft = soft.merged(active, at_new, is_taken)
            raised = np.maximum(rule.raised * damping[active], rule.damped)
            lowered = np.where(damping[active] > rule.damped, rule.lowered * damping[active], 0.0)
            damping[active] = np.where(is_taken, lowered, raised)
        if self.tau > 0:
            worst = float(predicted.max())
            raise NotConverged("the smoothed answer was not found", residual=worst, n_steps=rule.max_steps)
        x[active] = [self._own(self.shown[i], x[i]) for i in active]
        _, at_own = self.values(x[active], active, None)
        return x, soft.merged(active, at_own, np.ones(len(active), dtype=bool))

    def _own(self, shown: Vector, start: Vector) -> Vector:
        """x (d,) of one answer, by the learner's own method."""
        penalty, violation, *delta = self.theta.tolist()
        learner = SoftLearner(
            self.domain, mismatch_penalty=penalty, violation_penalty=violation, violation_allowance=delta
        )
        size = np.abs(self.scale)
        a, y = np.split(size * start, [self.domain.n_reward])
        found, _ = learner.dual.optimise(shown, a, y)
        return found.answer.x / size

    def values(self, x: Matrix, which: Indices, near: SoftExpansions | None) -> tuple[Vector, SoftExpansions]:
        """f (m,) at points x (m, d) for some lessons."""
        features = combined_features(self.domain)
        soft = soft_expansions(self.domain.mdp, features, self.scale * x, near=near, accuracy=self.enough)
        value = soft.soft_return + np.einsum("nd,nd->n", self.linear[which], x)
        if self.tau > 0:
            value -= self.tau * (np.log(1 - x) + np.log(x - self.low)).sum(axis=1)
        return value, soft

    def derivatives(self, x: Matrix, soft: SoftExpansions, which: Indices) -> tuple[Matrix, Matrix]:
        """The gradient (m, d) and the Hessian (m, d, d) of f for some lessons."""
        gradient = self.scale * soft.expectation[which] + self.linear[which]
        hessian = self.scale[:, None] * soft.jacobian[which] * self.scale
        if self.tau > 0:
            (slope, bend), k = self.barrier(x), np.arange(x.shape[1])
            gradient += slope
            hessian[:, k, k] += bend
        return gradient, hessian

    def barrier(self, x: Matrix) -> tuple[Matrix, Matrix]:
        """The first and the second derivative (m, d) of the barrier."""
        above, below = 1 / (1 - x), 1 / (x - self.low)
        return self.tau * (above - below), self.tau * (above**2 + below**2)

    def _steps(self, x: Matrix, soft: SoftExpansions, which: Indices, damping: Vector) -> tuple[Matrix, Vector]:
        """The steps (m, d) to the minimum of the damped second-order model, and the decrease (m,) that it predicts.

        A decrease that no step can show where the minimum is not found, so that the step is refused.
        """
        gradient, hessian = self.derivatives(x, soft, which)
        k, is_solved = np.arange(x.shape[1]), np.ones(len(x), dtype=bool)
        diagonal = hessian[:, k, k]
        largest = diagonal.max(axis=1, keepdims=True, initial=0.0)
        hessian[:, k, k] += damping[:, None] * np.maximum(diagonal, 1e-6 * largest) + self.steps.flat * largest + 1e-300
        if self.tau > 0:
            step = self._inside(x, np.asarray(-np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0]))
        else:
            step, is_solved = box_minima(hessian, gradient, self.low - x, 1 - x)
        predicted = -np.einsum("nd,nd->n", gradient + 0.5 * np.einsum("nde,ne->nd", hessian, step), step)
        return step, np.where(is_solved, predicted, np.inf)

    def _inside(self, x: Matrix, step: Matrix) -> Matrix:
        """The part of each step that stays inside the barrier."""
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(step > 0, (1 - x) / step, np.where(step < 0, (self.low - x) / step, np.inf))
        part = np.minimum(1.0, self.steps.towards * room.min(axis=1, initial=np.inf))
        return np.asarray(part[:, None] * step)

    def slopes(self, x: Matrix, soft: SoftExpansions) -> tuple[Matrix, Matrix]:
        """dx / d theta and d mu / d theta, (n, d, 2 + d_c), by the derivative of the weights D x."""
        (n, d), d_r, k = x.shape, self.domain.n_reward, np.arange(x.shape[1])
        is_free = (np.abs(x) < 1 - SURFACE) & (x > self.low) | (self.tau > 0)
        turned = np.sign(self.scale)[:, None] * np.eye(2)[(k >= d_r).astype(int)]
        # An entry at its limit moves with it.
        direct, ways = turned * x[:, :, None], np.zeros((n, d, len(self.theta)))
        ways[:, :, :2] = np.where(is_free[:, :, None], 0.0, direct)
        pushed, hessian = soft.jacobian @ ways, soft.jacobian.copy()
        pushed[:, d_r:, 2:] -= np.eye(d - d_r)
        if self.tau > 0:
            here = soft.weights / self.scale
            slope, bend = self.barrier(x)[0], self.barrier(here)[1]
            hessian[:, k, k] += bend / self.scale**2
            pushed[:, :, :2] -= turned * ((slope + bend * here) / self.scale**2)[:, :, None]
        both = is_free[:, :, None] & is_free[:, None, :]
        ways -= np.linalg.pinv(np.where(both, hessian, 0.0), hermitian=True) @ pushed
        moved = ways.copy()
        moved[:, :, :2] -= direct
        return moved / self.scale[:, None], soft.jacobian @ ways
