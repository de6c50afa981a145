"""The answers of a soft learner to several lessons, and their derivatives in its parameters theta = (C_r, C_c, delta).

With x = (a / C_r, y / C_c), low = (-1, 0) and D = diag(C_r, -C_c), the learner's answer to mu_hat is the soft policy of
the weights D x that minimise, over low <= x <= 1,

    f(x) = P0 @ V(D x) - C_r x_r @ mu_hat + C_c x_c @ delta - tau sum of [log(1 - x) + log(x - low)]       tau = 0

The box makes kinks and flats of the answer as a function of theta, where a search for theta gets stuck. With a
logarithmic barrier, tau > 0, the answer is smooth in theta, and every parameter has an influence:

    H dx + (d grad f / d theta) d theta = 0,     d mu = J (D dx + dD x),     J: the Hessian of P0 @ V in the weights.

Without a barrier an entry at its limit stays there, dx = 0, and H is that of the free entries; where y_j is at a limit,
delta_j changes nothing until it reaches mu_c[j].
"""

from dataclasses import dataclass

import numpy as np

from tutelage import outcomes
from tutelage.arrays import Matrix, Vector
from tutelage.bellman.soft_expectations import SoftExpansion, soft_expansion
from tutelage.convex.blocks import SURFACE, box_minimum
from tutelage.model.mdp import Domain, combined_features
from tutelage.outcomes import NotConverged


@dataclass(frozen=True, slots=True)
class NewtonSteps:
    """How the answers are computed, by Newton's method.

    towards: the part of the way to a barrier that a step may go. armijo: the least share of the predicted decrease.
    last: a step that predicts a smaller decrease, in units of the accuracy, is the last one, to first order; or one
    below `least`, in nats. shorter: the factor of a step after a refused one. flat: the curvature that rounding leaves,
    relative to the largest of the Hessian. rounding: the error of f, relative to its size.
    """

    max_steps: int = 60
    towards: float = 0.95
    armijo: float = 1e-4
    last: float = 1e-2
    least: float = 1e-14
    shorter: float = 0.25
    flat: float = 1e-13
    rounding: float = 1e-10


NEWTON = NewtonSteps()


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """theta: (2 + d_c,). x: (n, d), (a / C_r, y / C_c) of each answer. expectation: (n, d), mu. softs: the soft
    policies near the answers. moved: (n, d, 2 + d_c), dx / d theta. slopes: (n, d, 2 + d_c), d mu / d theta.
    """

    theta: Vector
    x: Matrix
    expectation: Matrix
    softs: tuple[SoftExpansion, ...]
    moved: Matrix
    slopes: Matrix

    @property
    def paid(self) -> Matrix:
        """(n, d_c), multipliers of the preferences."""
        return np.asarray(self.theta[1] * self.x[:, self.x.shape[1] - len(self.theta) + 2 :])


def answers_of(
    domain: Domain, theta: Vector, shown: Matrix, tau: float, near: Answers | None, *, accuracy: float = 1e-10
) -> Answers:
    """The answers to the lessons shown (n, d_r).

    near: those of other parameters to the first lessons, or to all, to start from. accuracy: of the expectations,
    relative to their range.
    """
    answers = list[tuple[Vector, Vector, SoftExpansion, Matrix, Matrix]]()
    for place, lesson in enumerate(shown):
        program = _Program(domain, theta, lesson, tau, max(NEWTON.last * accuracy, NEWTON.least))
        x, soft = program.minimum(*program.start(near, place))
        # To first order at the minimum, since the last step is not worth another soft policy.
        mu = soft.expectation + soft.jacobian @ (program.scale * x - soft.weights)
        answers.append((x, mu, soft, *program.slopes(x, soft)))
    points, expectation, softs, moved, slopes = zip(*answers, strict=True)
    return Answers(theta, np.array(points), np.array(expectation), softs, np.array(moved), np.array(slopes))


@dataclass(frozen=True, slots=True, eq=False)
class _Program:
    """f for one lesson. enough: in nats, the accuracy of soft values, and the predicted decrease that is worth another
    soft policy.
    """

    domain: Domain
    theta: Vector
    shown: Vector
    tau: float
    enough: float

    @property
    def low(self) -> Vector:
        return np.repeat([-1.0, 0.0], [self.domain.n_reward, self.domain.n_preference])

    @property
    def scale(self) -> Vector:
        """(d,), the diagonal of D."""
        return np.asarray(np.where(self.low < 0, self.theta[0], -self.theta[1]))

    @property
    def target(self) -> Vector:
        """(d,), the expectation at which the slope of f beside the barrier is zero."""
        return np.concatenate([self.shown, self.theta[2:]])

    def start(self, near: Answers | None, place: int) -> tuple[Vector, SoftExpansion | None]:
        """x to start from, to first order that of a near answer; and the soft policy of that."""
        if near is None or place >= len(near.softs):
            return np.asarray((self.low + 1) / 2 if self.tau > 0 else np.zeros(len(self.low))), None
        x, step = near.x[place], near.moved[place] @ (self.theta - near.theta)
        moved = x + self.inside(x, step) if self.tau > 0 else np.asarray(np.clip(x + step, self.low, 1.0))
        return moved, near.softs[place]

    def minimum(self, x: Vector, near: SoftExpansion | None) -> tuple[Vector, SoftExpansion]:
        """x of the answer, from a start, and the soft policy before the last step."""
        rule, share, (value, soft) = NEWTON, 1.0, self.value(x, near)
        step, predicted = self.step(x, soft)
        for n_steps in range(rule.max_steps):
            if share == 1 and abs(predicted) <= self.enough:
                return x + step, soft
            outcomes.report("Newton steps", n_steps, predicted)
            new, at_new = self.value(x + share * step, soft)
            noise = rule.rounding * (1 + abs(value)) + self.enough
            if new <= value - rule.armijo * share * predicted + noise:
                x, value, soft, share = x + share * step, new, at_new, 1.0
                step, predicted = self.step(x, soft)
            else:
                share *= rule.shorter
        raise NotConverged("an answer was not found", residual=predicted, n_steps=rule.max_steps)

    def step(self, x: Vector, soft: SoftExpansion) -> tuple[Vector, float]:
        """The step (d,) to the minimum of the second-order model, and the decrease that it predicts."""
        gradient = self.scale * (soft.expectation - self.target)
        hessian = self.scale[:, None] * soft.jacobian * self.scale
        if self.tau > 0:
            slope, bend = self.barrier(x)
            gradient, hessian = gradient + slope, hessian + np.diag(bend)
        hessian = hessian + (NEWTON.flat * float(np.diag(hessian).max(initial=0.0)) + 1e-300) * np.eye(len(x))
        if self.tau > 0:
            step = self.inside(x, np.asarray(np.linalg.solve(hessian, -gradient)))
        else:
            room = self.low - x, 1 - x
            change = box_minimum(hessian, gradient, *room)
            if change is None:
                # So flat that rounding decides which entries are free: a step that the diagonal shortens.
                change = box_minimum(hessian + np.diag(np.diag(hessian)), gradient, *room)
            if change is None:
                raise NotConverged("a step towards an answer was not found", residual=np.inf, n_steps=0)
            step = np.clip(x + change, self.low, 1.0) - x
        return step, -float(gradient @ step + 0.5 * step @ hessian @ step)

    def value(self, x: Vector, near: SoftExpansion | None) -> tuple[float, SoftExpansion]:
        """f at x, and the soft policy there."""
        features = combined_features(self.domain)
        soft = soft_expansion(self.domain.mdp, features, self.scale * x, near=near, accuracy=self.enough)
        value = soft.soft_return - float(self.target @ (self.scale * x))
        if self.tau > 0:
            value -= self.tau * float((np.log(1 - x) + np.log(x - self.low)).sum())
        return value, soft

    def barrier(self, x: Vector) -> tuple[Vector, Vector]:
        """The first and the second derivative (d,) of the barrier."""
        above, below = 1 / (1 - x), 1 / (x - self.low)
        return self.tau * (above - below), self.tau * (above**2 + below**2)

    def inside(self, x: Vector, step: Vector) -> Vector:
        """The part of a step that stays inside the barrier."""
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(step > 0, (1 - x) / step, np.where(step < 0, (self.low - x) / step, np.inf))
        return np.asarray(min(1.0, NEWTON.towards * float(room.min(initial=np.inf))) * step)

    def slopes(self, x: Vector, soft: SoftExpansion) -> tuple[Matrix, Matrix]:
        """dx / d theta and d mu / d theta, (d, 2 + d_c), by the derivative of the weights D x."""
        d_r, d_c, is_reward = self.domain.n_reward, self.domain.n_preference, self.low < 0
        is_free = (np.abs(x) < 1 - SURFACE) & (x > self.low) | (self.tau > 0)
        turned = np.column_stack([is_reward, -1.0 * ~is_reward, np.zeros((len(x), d_c))])
        # An entry at its limit moves with it.
        direct = turned * x[:, None]
        ways = np.where(is_free[:, None], 0.0, direct)
        pushed, hessian = soft.jacobian @ ways, soft.jacobian
        pushed[d_r:, 2:] -= np.eye(d_c)
        if self.tau > 0:
            here = soft.weights / self.scale
            slope, bend = self.barrier(x)[0], self.barrier(here)[1]
            hessian = hessian + np.diag(bend / self.scale**2)
            pushed -= turned * ((slope + bend * here) / self.scale**2)[:, None]
        both = is_free[:, None] & is_free
        ways = ways - np.linalg.pinv(np.where(both, hessian, 0.0), hermitian=True) @ pushed
        return (ways - direct) / self.scale[:, None], soft.jacobian @ ways
