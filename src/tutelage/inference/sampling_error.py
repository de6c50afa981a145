"""The covariance of the discounted feature counts of one trajectory of a policy, exactly.

With F the expected counts from each state, the count of a trajectory is F(s_0) plus the discounted sum of

    D_t = phi(c_t) + discount F(s_t+1) - F(s_t)              which has mean zero, given s_t.

The D_t are uncorrelated, so the covariance is that of F(s_0) plus the sum over t of discount^2t E[D_t D_t']:

    Cov = Cov_P0(F) + sum over c of z2(c) (A(c) A(c)' + discount^2 Cov over s' ~ T(c) of F(s'))

where A is the advantage and z2 the occupancy at the squared discount. The mean of n trajectories has Cov / n.
"""

from dataclasses import replace

import numpy as np

from tutelage.arrays import Matrix
from tutelage.bellman.soft_expectations import SoftExpansion
from tutelage.chains.expectations import occupancy
from tutelage.model.mdp import MDP


def count_covariance(mdp: MDP, soft: SoftExpansion) -> Matrix:
    """(d, d), the covariance of one trajectory's discounted counts of the features of a soft policy."""
    squared = mdp.discount**2
    visits = occupancy(replace(mdp, discount=squared), soft.solved.policy)
    ahead, advantages = soft.ahead, soft.advantages
    weight = visits * squared
    expected = mdp.transition @ ahead
    later = ahead.T @ ((mdp.transition.T @ weight)[:, None] * ahead) - expected.T @ (weight[:, None] * expected)
    mean = mdp.initial @ ahead
    first = (ahead - mean).T @ (mdp.initial[:, None] * (ahead - mean))
    return np.asarray(first + advantages.T @ (visits[:, None] * advantages) + later)
