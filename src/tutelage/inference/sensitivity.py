"""How the answer of a soft learner depends on its parameters: exact derivatives by the implicit function theorem.

The learner's x = (a, y) minimises f(x) = P0 @ V(L x) - a @ mu_hat + delta @ y over |a_k| <= C_r, 0 <= y_j <= C_c, with
L x = (a, -y). An entry at its limit moves with it: da_k = sign(a_k) dC_r, dy_j = dC_c. An entry y_j = 0 stays. The free
entries keep their gradient at zero. With H = L' J L, the Hessian of f, F the free entries and B the others,

    H_FF dx_F + H_FB dx_B + E_F d delta = 0            E: delta_j enters the gradient of y_j alone
    d mu = J L dx

The derivative exists wherever no multiplier is at a limit with a gradient of zero, that is almost everywhere. Where
y_j is at a limit, delta_j changes nothing until it reaches mu_c[j]; there the answer has a kink.
"""

import numpy as np

from tutelage.arrays import Matrix, Vector
from tutelage.bellman.soft_expectations import combined_features, soft_expansion
from tutelage.convex.blocks import SURFACE
from tutelage.learners.entropy import SoftLearner
from tutelage.roles import Response


def response_derivative(learner: SoftLearner, response: Response) -> Matrix:
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
