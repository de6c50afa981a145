"""The answers of a soft learner to several lessons, and their derivatives in its parameters theta = (C_r, C_c, delta).

With x = (a / C_r, y / C_c), low = (-1, 0) and D = diag(C_r, -C_c), the learner's answer to mu_hat is the soft policy of
the weights D x that minimise, over low <= x <= 1,

    f(x) = P0 @ V(D x) - C_r x_r @ mu_hat + C_c x_c @ delta - tau sum of [log(1 - x) + log(x - low)]       tau = 0

With a logarithmic barrier, tau > 0, the answer is smooth in theta, and every parameter has an influence:

    H dx + (d grad f / d theta) d theta = 0,     d mu = J (D dx + dD x),     J: the Hessian of P0 @ V in the weights.

Without a barrier an entry at its limit stays there, dx = 0, and H is that of the free entries.
"""

from dataclasses import dataclass

import numpy as np

from tutelage import outcomes
from tutelage.arrays import Matrix, Vector
from tutelage.bellman.soft_expectations import SoftExpansion, soft_expansion
from tutelage.convex.blocks import SURFACE, box_minimum
from tutelage.model.mdp import MDP, Domain, combined_features
from tutelage.outcomes import NotConverged


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """expectation: (n, d), mu. softs: near these. moved, slopes: (n, d, 2 + d_c), dx / d theta and d mu / d theta."""

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
    """The answers to the lessons shown (n, d_r). accuracy: of the expectations, relative to their range.

    near: those of other parameters to the first lessons, or to all, to start from.
    """
    features = combined_features(domain)
    low = np.repeat([-1.0, 0.0], [domain.n_reward, domain.n_preference])
    scale = np.where(low < 0, theta[0], -theta[1])
    enough = max(1e-2 * accuracy, 1e-14)
    answers = list[tuple[Vector, Vector, SoftExpansion, Matrix, Matrix]]()
    for place, lesson in enumerate(shown):
        program = _Program(domain.mdp, features, low, scale, np.append(lesson, theta[2:]), tau, enough)
        x = (low + 1) / 2 if tau > 0 else np.zeros(len(low))
        soft = None
        if near is not None and place < len(near.softs):
            # To first order the answer of these parameters.
            x = near.x[place]
            x = x + program.inside(x, near.moved[place] @ (theta - near.theta))
            soft = near.softs[place]
        x, soft = program.minimum(x, soft)
        # To first order at the minimum, since the last step is not worth another soft policy.
        mu = soft.expectation + soft.jacobian @ (scale * x - soft.weights)
        answers.append((x, mu, soft, *program.slopes(x, soft)))
    points, expectation, softs, moved, slopes = zip(*answers, strict=True)
    return Answers(theta, np.array(points), np.array(expectation), softs, np.array(moved), np.array(slopes))


@dataclass(frozen=True, slots=True, eq=False)
class _Program:
    """f for one lesson. scale: (d,), the diagonal of D. target: (d,), the expectation where f without barrier is flat.

    enough: in nats, the accuracy of soft values, and the predicted decrease that is worth another soft policy.
    """

    mdp: MDP
    features: Matrix
    low: Vector
    scale: Vector
    target: Vector
    tau: float
    enough: float

    def minimum(self, x: Vector, near: SoftExpansion | None) -> tuple[Vector, SoftExpansion]:
        """x of the answer, from a start, and the soft policy before the last step."""
        value, soft = self.value(x, near)
        step, predicted = self.step(x, soft)
        share = 1.0
        for n_steps in range(60):
            if share == 1 and abs(predicted) <= self.enough:
                return x + step, soft
            outcomes.report("Newton steps", n_steps, predicted)
            there = x + share * step
            new, at_there = self.value(there, soft)
            rounding = 1e-10 * (1 + abs(value)) + self.enough
            if new <= value - 1e-4 * share * predicted + rounding:
                x, value, soft = there, new, at_there
                step, predicted = self.step(x, soft)
                share = 1.0
            else:
                share *= 0.25
        raise NotConverged("an answer was not found", residual=predicted, n_steps=n_steps + 1)

    def step(self, x: Vector, soft: SoftExpansion) -> tuple[Vector, float]:
        """The step (d,) to the minimum of the second-order model, and the decrease that it predicts."""
        gradient = self.scale * (soft.expectation - self.target)
        hessian = self.scale[:, None] * soft.jacobian * self.scale
        if self.tau > 0:
            slope, bend = self.barrier(x)
            gradient = gradient + slope
            hessian = hessian + np.diag(bend)
        # As much curvature as rounding may leave, so that a flat model has a minimum.
        hessian = hessian + (1e-13 * float(np.diag(hessian).max(initial=0.0)) + 1e-300) * np.eye(len(x))
        change = np.linalg.solve(hessian, -gradient) if self.tau > 0 else self.on_box(x, gradient, hessian)
        step = self.inside(x, np.asarray(change))
        return step, -float(gradient @ step + 0.5 * step @ hessian @ step)

    def on_box(self, x: Vector, gradient: Vector, hessian: Matrix) -> Vector:
        # Where a model is so flat that rounding decides which entries are free, the diagonal shortens the step.
        for model in (hessian, hessian + np.diag(np.diag(hessian))):
            step = box_minimum(model, gradient, self.low - x, 1 - x)
            if step is not None:
                return step
        raise NotConverged("a step towards an answer was not found", residual=np.inf, n_steps=0)

    def value(self, x: Vector, near: SoftExpansion | None) -> tuple[float, SoftExpansion]:
        """f at x, and the soft policy there."""
        soft = soft_expansion(self.mdp, self.features, self.scale * x, near=near, accuracy=self.enough)
        value = soft.soft_return - float(self.target @ (self.scale * x))
        if self.tau > 0:
            value -= self.tau * float((np.log(1 - x) + np.log(x - self.low)).sum())
        return value, soft

    def barrier(self, x: Vector) -> tuple[Vector, Vector]:
        """The first and the second derivative (d,) of the barrier."""
        above = 1 / (1 - x)
        below = 1 / (x - self.low)
        return self.tau * (above - below), self.tau * (above**2 + below**2)

    def inside(self, x: Vector, step: Vector) -> Vector:
        """The part of a step that stays in the box, and keeps a share of its distance from a barrier."""
        if self.tau == 0:
            return np.clip(x + step, self.low, 1.0) - x
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(step == 0, np.inf, np.maximum((1 - x) / step, (self.low - x) / step))
        return min(1.0, 0.95 * float(room.min(initial=np.inf))) * step

    def slopes(self, x: Vector, soft: SoftExpansion) -> tuple[Matrix, Matrix]:
        """dx / d theta and d mu / d theta, (d, 2 + d_c), by the derivative of the weights D x."""
        is_reward = self.low < 0
        is_free = (np.abs(x) < 1 - SURFACE) & (x > self.low) | (self.tau > 0)
        of_allowances = -np.eye(len(x))[:, ~is_reward]
        turned = np.column_stack([is_reward, -1.0 * ~is_reward, np.zeros_like(of_allowances)])
        # An entry at its limit moves with it.
        direct = turned * x[:, None]
        ways = np.where(is_free[:, None], 0.0, direct)
        hessian = soft.jacobian
        pushed = hessian @ ways
        pushed[:, 2:] += of_allowances
        if self.tau > 0:
            here = soft.weights / self.scale
            slope, _ = self.barrier(x)
            _, bend = self.barrier(here)
            hessian = hessian + np.diag(bend / self.scale**2)
            pushed -= turned * ((slope + bend * here) / self.scale**2)[:, None]
        both = is_free[:, None] & is_free
        ways = ways - np.linalg.pinv(np.where(both, hessian, 0.0), hermitian=True) @ pushed
        return (ways - direct) / self.scale[:, None], soft.jacobian @ ways
