"""Eq. 1 directly over occupancies with relative-entropy cones, in CVXPY: an independent route to every learner.

H(pi) = - sum over c of z(c) log(z(c) / sum of z over the state's choices)
"""

import cvxpy as cp
import numpy as np

from tutelage.mdp.model import per_choice


def cone_optimum(domain, mismatch, preference, shown, convex=()):
    """The optimal objective and the expectations mu = (mu_r, mu_c), by Clarabel.

    convex: the preference's convex constraints again, as CVXPY functions of mu_c.
    """
    mdp = domain.mdp
    leave = (np.arange(mdp.n_states)[:, None] == mdp.state_of_choice).astype(float)
    features = np.hstack([per_choice(mdp, domain.reward_features), per_choice(mdp, domain.preference_features)])
    z = cp.Variable(mdp.n_choices, nonneg=True)
    total = leave.T @ (leave @ z)
    mu = features.T @ z
    objective = -cp.sum(cp.rel_entr(z, total))
    rules = [leave @ z - mdp.discount * (mdp.transition.toarray().T @ z) == mdp.initial]
    excess = cp.pos(cp.abs(mu[: domain.n_reward] - shown) - mismatch.block(domain).slope)
    if np.isinf(mismatch.penalty):
        rules.append(excess <= 0)
    elif mismatch.squared:
        objective -= mismatch.penalty * cp.sum_squares(excess)
    else:
        objective -= mismatch.penalty * cp.norm(excess, mismatch.norm)
    constraints = preference.on(domain)
    if len(constraints.allowance):
        values = [constraints.rows @ mu[domain.n_reward :], *(g(mu[domain.n_reward :]) for g in convex)]
        violation = cp.hstack([cp.reshape(value, (value.size,), order="C") for value in values]) - constraints.allowance
        if preference.is_hard:
            rules.append(violation <= 0)
        else:
            objective -= preference.penalty * cp.norm(cp.pos(violation), preference.norm)
    problem = cp.Problem(cp.Maximize(objective), rules)
    for tolerance in (1e-10, 1e-8, 1e-6):
        # Clarabel fails where the tolerance is too small.
        try:
            problem.solve(solver=cp.CLARABEL, tol_gap_abs=tolerance, tol_gap_rel=tolerance, tol_feas=tolerance)
            break
        except cp.SolverError:
            continue
    assert problem.status in ("optimal", "optimal_inaccurate"), problem.status
    return float(problem.value), mu.value
