"""The answers of a soft learner to several lessons, and their derivatives in its parameters theta = (C_r, C_c, delta).

With x = (a / C_r, y / C_c), low = (-1, 0) and D = diag(C_r, -C_c), the learner's answer to mu_hat is the soft policy of
the weights D x that minimise, over low <= x <= 1,

    f(x) = P0 @ V(D x) - C_r x_r @ mu_hat + C_c x_c @ delta - tau sum of [log(1 - x) + log(x - low)]       tau = 0

The box makes kinks and flats of the answer as a function of theta, where a search for theta gets stuck. With a
logarithmic barrier, tau > 0, the answer is smooth in theta, and every parameter has an influence:

    H dx + (d grad f / d theta) d theta = 0,     d mu = J (D dx + dD x),     J: the Hessian of P0 @ V in the weights.

At its minimum the smoothed objective is within 2 d tau of the learner's own, in nats.

Without a barrier an entry of (a, y) at its limit moves with it: da_k = sign(a_k) dC_r, dy_j = dC_c. An entry y_j = 0
stays. The free entries keep their gradient at zero. With H the Hessian in (a, y), F the free entries and B the others,

    H_FF dx_F + H_FB dx_B + E_F d delta = 0            E: delta_j enters the gradient of y_j alone

The derivative exists wherever no multiplier is at a limit with a gradient of zero, that is almost everywhere. Where
y_j is at a limit, delta_j changes nothing until it reaches mu_c[j]; there the answer has a kink.

Newton's method finds all answers together, because on a small MDP a call takes longer than its arithmetic. Each answer
has its own damping, which grows where the model predicts a larger decrease than f shows.
"""

from dataclasses import dataclass, field

import numpy as np

from tutelage import watch
from tutelage.arrays import Flags, Indices, Matrix, Vector
from tutelage.bellman.soft_expectations import SoftExpansions, combined_features, soft_expansion, soft_expansions
from tutelage.convex.blocks import SURFACE, Block
from tutelage.convex.models import box_minima
from tutelage.learners.entropy import SoftLearner
from tutelage.learners.soft_program import SoftProgram
from tutelage.model.mdp import Domain
from tutelage.outcomes import NotConverged
from tutelage.roles import CertifiedResponse


@dataclass(frozen=True, slots=True)
class NewtonSteps:
    """How the answers are computed.

    max_steps: after these, the learner's own method answers. towards: the part of the way to a barrier that a step may
    go. armijo: the least share of the predicted decrease. last: a step that predicts a smaller decrease, in units
    of the accuracy, is the last one, to first order. damped: the damping after a refused step, relative to the
    Hessian's diagonal; raised, lowered: its factors after refused and taken steps. flat: the curvature that rounding
    leaves, relative to the largest of the Hessian. rounding: the error of f, relative to its size. settled: a
    predicted decrease, in nats, below which one that does not halve is rounding.
    """

    max_steps: int = 60
    towards: float = 0.95
    armijo: float = 1e-4
    last: float = 1e-2
    damped: float = 1e-3
    raised: float = 10.0
    lowered: float = 0.03
    flat: float = 1e-13
    rounding: float = 1e-10
    settled: float = 1e-14


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
    program = _Program(domain, theta, shown, tau, accuracy, steps)
    x, soft, hessian = program.minima(near)
    moved, slopes = program.smooth_slopes(x, soft, hessian) if tau > 0 else program.own_slopes(x, soft)
    # To first order at the minimum, since the last step is not worth another soft policy.
    away = program.scale * x - soft.weights
    expectation = soft.expectation + np.einsum("nde,ne->nd", soft.jacobian, away)
    return Answers(theta, x, expectation, soft, moved, slopes)


@dataclass(frozen=True, slots=True, eq=False)
class _Program:
    """f for each lesson. scale: (d,), the diagonal of D. linear: (n, d). low: (d,)."""

    domain: Domain
    theta: Vector
    shown: Matrix
    tau: float
    accuracy: float
    steps: NewtonSteps
    scale: Vector = field(init=False)
    linear: Matrix = field(init=False)
    low: Vector = field(init=False)

    def __post_init__(self) -> None:
        d_r, d_c, n = self.domain.n_reward, self.domain.n_preference, len(self.shown)
        scale = np.concatenate([np.full(d_r, self.theta[0]), np.full(d_c, -self.theta[1])])
        linear = np.hstack([-self.theta[0] * self.shown, np.tile(self.theta[1] * self.theta[2:], (n, 1))])
        low = np.concatenate([-np.ones(d_r), np.zeros(d_c)])
        for name, value in (("scale", scale), ("linear", linear), ("low", low)):
            object.__setattr__(self, name, value)

    @property
    def enough(self) -> float:
        """In nats: the accuracy of soft values, and the predicted decrease that is worth another soft policy."""
        return max(self.steps.last * self.accuracy, self.steps.settled)

    def start(self, near: Answers | None) -> Matrix:
        """x (n, d), from near answers to first order."""
        x = np.tile((self.low + 1) / 2 if self.tau > 0 else np.zeros(len(self.low)), (len(self.shown), 1))
        if near is not None:
            step = near.moved @ (self.theta - near.theta)
            x[: len(near.x)] = near.x + (self._inside(near.x, step) if self.tau > 0 else step)
        return x if self.tau > 0 else np.clip(x, self.low, 1.0)

    def minima(self, near: Answers | None) -> tuple[Matrix, SoftExpansions, Matrix]:
        """The minimum for each lesson, the soft policies there and the Hessians of f."""
        x, n, rule = self.start(near), len(self.shown), self.steps
        value, soft = self.values(x, np.arange(n), None if near is None else near.soft)
        damping, before, hessian = np.zeros(n), np.full(n, np.inf), np.zeros((n, *2 * x.shape[1:]))
        active = np.arange(n)
        for n_steps in range(self.steps.max_steps):
            here = x[active]
            gradient, hessian[active] = self.derivatives(here, soft, active)
            damped = self._damped(hessian[active], damping[active])
            step, predicted = self._steps(gradient, damped, here)
            is_open = ~self._is_done(predicted, damping[active], before[active])
            before[active] = np.where(damping[active] > 0, np.inf, predicted)
            there = here + step if self.tau > 0 else np.clip(here + step, self.low, 1.0)
            x[active[~is_open]] = there[~is_open]
            active, there, predicted = active[is_open], there[is_open], predicted[is_open]
            if not len(active):
                return x, soft, hessian
            watch.report("Newton steps", n_steps, float(predicted.max()))
            watch.spend(len(active) - 1)
            new, at_new = self.values(there, active, soft.taken(active))
            noise = self.steps.rounding * (1 + np.abs(value[active])) + self.enough
            is_taken = (predicted >= 0) & (new <= value[active] - self.steps.armijo * predicted + noise)
            x[active[is_taken]], value[active[is_taken]] = there[is_taken], new[is_taken]
            soft = soft.merged(active, at_new, is_taken)
            raised = np.maximum(rule.raised * damping[active], rule.damped)
            lowered = np.where(damping[active] > rule.damped, rule.lowered * damping[active], 0.0)
            damping[active] = np.where(is_taken, lowered, raised)
        return self._unfinished(x, soft, hessian, active, float(predicted.max()))

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
            gradient += self.tau / (1 - x) - self.tau / (x - self.low)
            k = np.arange(x.shape[1])
            hessian[:, k, k] += self.tau / (1 - x) ** 2 + self.tau / (x - self.low) ** 2
        return gradient, hessian

    def _damped(self, hessian: Matrix, damping: Vector) -> Matrix:
        """The Hessians, each with its damping, and with some curvature in every direction."""
        k = np.arange(hessian.shape[1])
        diagonal, damped = hessian[:, k, k], hessian.copy()
        largest = diagonal.max(axis=1, keepdims=True, initial=0.0)
        damped[:, k, k] += damping[:, None] * np.maximum(diagonal, 1e-6 * largest) + self.steps.flat * largest + 1e-300
        return damped

    def _is_done(self, predicted: Vector, damping: Vector, before: Vector) -> Flags:
        """Whether the step is the last one, to first order."""
        is_settled = (predicted <= self.steps.settled) & (predicted > 0.5 * before)
        return np.asarray((damping == 0) & ((np.abs(predicted) <= self.enough) | is_settled))

    def _steps(self, gradient: Matrix, hessian: Matrix, x: Matrix) -> tuple[Matrix, Vector]:
        """The steps (m, d) to the minimum of the second-order model, and the decrease (m,) that it predicts.

        A decrease that no step can show where the minimum is not found, so that the step is refused.
        """
        is_solved: Flags = np.ones(len(x), dtype=bool)
        if self.tau > 0:
            step = self._inside(x, -_solve(hessian, gradient[:, :, None])[:, :, 0])
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

    def _unfinished(
        self, x: Matrix, soft: SoftExpansions, hessian: Matrix, active: Indices, predicted: float
    ) -> tuple[Matrix, SoftExpansions, Matrix]:
        """The remaining answers one by one, by the learner's own method."""
        if self.tau > 0:
            raise NotConverged("the smoothed answer was not found", residual=predicted, n_steps=self.steps.max_steps)
        for i in active:
            x[i] = self._own(i, x[i])
        _, at_own = self.values(x[active], active, None)
        return x, soft.merged(active, at_own, np.ones(len(active), dtype=bool)), hessian

    def _own(self, i: int, start: Vector) -> Vector:
        """x (d,) of one answer."""
        d_r, d_c = self.domain.n_reward, self.domain.n_preference
        size = np.abs(self.scale)
        blocks = [
            Block(np.zeros(d_r), float(self.theta[0]), np.inf, True, np.arange(d_r)),
            Block(self.theta[2:], float(self.theta[1]), np.inf, False, np.arange(d_c)),
        ]
        offset = np.concatenate([self.shown[i], np.zeros(d_c)])
        program = SoftProgram(self.domain, np.zeros(d_r + d_c), np.diag(signs(d_r, d_c)), offset, blocks)
        try:
            minimum = program.minimise(size * start)
        except NotConverged:
            minimum = program.followed()
        return np.asarray(minimum.answer.x / size)

    def smooth_slopes(self, x: Matrix, soft: SoftExpansions, hessian: Matrix) -> tuple[Matrix, Matrix]:
        """dx / d theta and d mu / d theta with a barrier, (n, d, 2 + d_c)."""
        theta, n, d_r = self.theta, len(x), self.domain.n_reward
        d = x.shape[1]
        # Columns: the derivatives of D, and of the linear term, in C_r and in C_c.
        turned = np.zeros((d, 2))
        turned[:d_r, 0], turned[d_r:, 1] = 1.0, -1.0
        shifted = np.zeros((n, d, 2))
        shifted[:, :d_r, 0], shifted[:, d_r:, 1] = -self.shown, theta[2:]
        direct = turned * x[:, :, None]
        pushed = np.zeros((n, d, len(theta)))
        bent = self.scale[:, None] * (soft.jacobian @ direct)
        pushed[:, :, :2] = turned * soft.expectation[:, :, None] + bent + shifted
        pushed[:, d_r:, 2:] = theta[1] * np.eye(d - d_r)
        moved = -_solve(hessian, pushed)
        ways = self.scale[:, None] * moved
        ways[:, :, :2] += direct
        return moved, soft.jacobian @ ways

    def own_slopes(self, x: Matrix, soft: SoftExpansions) -> tuple[Matrix, Matrix]:
        """dx / d theta and d mu / d theta without a barrier, (n, d, 2 + d_c)."""
        d_r = self.domain.n_reward
        size, sign = np.abs(self.scale), np.sign(self.scale)
        hessian = sign[:, None] * soft.jacobian * sign
        moved = moves(size * x, hessian, d_r, (float(self.theta[0]), float(self.theta[1])))
        shares = moved.copy()
        shares[:, :d_r, 0] -= x[:, :d_r]
        shares[:, d_r:, 1] -= x[:, d_r:]
        return shares / size[:, None], soft.jacobian @ (sign[:, None] * moved)


def _solve(hessian: Matrix, right: Matrix) -> Matrix:
    """The solutions (n, d, k) of positive definite systems, scaled to a diagonal of one."""
    unit = 1 / np.sqrt(np.einsum("ndd->nd", hessian))[:, :, None]
    return np.asarray(unit * np.linalg.solve(unit * hessian * unit.transpose(0, 2, 1), unit * right))


def response_derivative(learner: SoftLearner, response: CertifiedResponse) -> Matrix:
    """(d, 2 + d_c), the derivative of mu = (mu_r, mu_c) in C_r, C_c and each delta_j, at the learner's response."""
    domain, d_r = learner.domain, learner.domain.n_reward
    soft = soft_expansion(domain.mdp, combined_features(domain), response.learned_weights)
    sign = signs(d_r, domain.n_preference)
    penalties = learner.mismatch_penalty, learner.violation_penalty
    hessian = sign[:, None] * soft.jacobian * sign
    moved = moves((sign * response.learned_weights)[None], hessian[None], d_r, penalties)[0]
    return np.asarray(soft.jacobian @ (sign[:, None] * moved))


def signs(n_reward: int, n_preference: int) -> Vector:
    """The diagonal of L."""
    return np.concatenate([np.ones(n_reward), -np.ones(n_preference)])


def moves(x: Matrix, hessian: Matrix, d_r: int, penalties: tuple[float, float]) -> Matrix:
    """(n, d, 2 + d_c), the derivative of x = (a, y), (n, d), of several answers.

    hessian: (n, d, d), that of f. penalties: C_r and C_c.
    """
    is_reward = np.arange(x.shape[1]) < d_r
    at_limit = np.abs(x) >= (1 - SURFACE) * np.where(is_reward, *penalties)
    is_free = ~at_limit & (is_reward | (x > 0))
    moved = np.zeros((*x.shape, 2 + x.shape[1] - d_r))
    moved[:, :, 0] = np.where(at_limit & is_reward, np.sign(x), 0.0)
    moved[:, :, 1] = np.where(at_limit & ~is_reward, 1.0, 0.0)
    pushed = hessian @ moved
    pushed[:, d_r:, 2:] += np.eye(x.shape[1] - d_r)
    # The fixed entries have their own equations, of the size of the others.
    size = np.einsum("ndd->nd", hessian).max(axis=1, initial=0.0, where=is_free)
    both = is_free[:, :, None] & is_free[:, None, :]
    system = np.where(both, hessian, np.where(size > 0, size, 1.0)[:, None, None] * np.eye(x.shape[1]))
    return np.where(is_free[:, :, None], -np.linalg.pinv(system, hermitian=True) @ pushed, moved)
