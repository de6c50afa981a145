"""How the answer of a soft learner depends on its parameters: exact derivatives by the implicit function theorem.

The learner's x = (a, y) minimises f(x) = P0 @ V(L x) - a @ mu_hat + delta @ y over |a_k| <= C_r, 0 <= y_j <= C_c, with
L x = (a, -y). An entry at its limit moves with it: da_k = sign(a_k) dC_r, dy_j = dC_c. An entry y_j = 0 stays. The free
entries keep their gradient at zero. With H = L' J L, the Hessian of f, F the free entries and B the others,

    H_FF dx_F + H_FB dx_B + E_F d delta = 0            E: delta_j enters the gradient of y_j alone
    d mu = J L dx

The derivative exists wherever no multiplier is at a limit with a gradient of zero, that is almost everywhere.
"""

import numpy as np

from tutelage.arrays import Matrix, Vector
from tutelage.learners.entropy import SoftLearner
from tutelage.roles import Response
from tutelage.solvers.blocks import SURFACE
from tutelage.solvers.soft_expectations import combined_features, soft_expansion


def response_derivative(learner: SoftLearner, response: Response) -> Matrix:
    """(d, 2 + d_c), the derivative of mu = (mu_r, mu_c) in C_r, C_c and each delta_j, at the learner's response."""
    domain, d_r = learner.domain, learner.domain.n_reward
    soft = soft_expansion(domain.mdp, combined_features(domain), response.learned_weights)
    sign = np.concatenate([np.ones(d_r), -np.ones(domain.n_preference)])
    moved = _moved(learner, sign * response.learned_weights, sign[:, None] * soft.jacobian * sign, d_r)
    return np.asarray(soft.jacobian @ (sign[:, None] * moved))


def _moved(learner: SoftLearner, x: Vector, hessian: Matrix, d_r: int) -> Matrix:
    """(d, 2 + d_c), the derivative of x = (a, y), from the Hessian of f."""
    is_reward = np.arange(len(x)) < d_r
    limit = np.where(is_reward, learner.mismatch_penalty, learner.violation_penalty)
    at_limit = np.abs(x) >= (1 - SURFACE) * limit
    is_free = ~at_limit & (is_reward | (x > 0))
    moved = np.zeros((len(x), 2 + len(x) - d_r))
    moved[:, 0] = np.where(at_limit & is_reward, np.sign(x), 0.0)
    moved[:, 1] = np.where(at_limit & ~is_reward, 1.0, 0.0)
    pushed = hessian[is_free] @ moved
    pushed[:, 2:] += np.eye(len(x))[is_free, d_r:]
    moved[is_free] = -np.linalg.pinv(hessian[np.ix_(is_free, is_free)], hermitian=True) @ pushed
    return moved
