"""The direct route: the whole program over occupancies at once, its bound certified by one pricing step.

    z >= 0,   sum over choices of s' of z = initial(s') + sum over c of discount(c) T(s' | c) z(c)              (App. F)

(unnormalised: the right-hand side is `initial`, without 1 - discount). It takes more time with more choices, and the
decomposition more rounds with more features to match or limits to keep.
"""

from dataclasses import replace

import numpy as np
from scipy import sparse

from tutelage.chains.resolvent import discounted_rows
from tutelage.constrained.columns import Planner
from tutelage.constrained.objectives import Hull, Mixture, Objective
from tutelage.constrained.problem import HalfSpaces
from tutelage.convex.programs import InfeasibleProgram
from tutelage.model.mdp import Domain, per_choice
from tutelage.outcomes import NotConverged, Solution

# Up to this number of choices one program over all of them takes a second or less.
FEW_CHOICES = 2_000
# The largest relative gap that is accepted of the libraries.
LOOSEST_GAP = 1e-7


def flow(domain: Domain) -> Hull:
    """All occupancies: v = z / horizon (C,), whose sum is at most one; the equalities are the flow equations."""
    mdp = domain.mdp
    n_choices, horizon = mdp.n_choices, mdp.steps
    leave = sparse.csr_array((np.ones(n_choices), np.arange(n_choices), mdp.first_choice), (mdp.n_states, n_choices))
    features = np.hstack([per_choice(mdp, domain.reward_features), per_choice(mdp, domain.preference_features)])
    flow = (leave - discounted_rows(mdp, np.arange(n_choices)).T).tocsr()
    return Hull(sparse.csr_array(horizon * features.T), flow, mdp.initial / horizon)


def solve_directly(domain: Domain, objective: Objective, limits: HalfSpaces) -> Solution[Mixture]:
    """The optimal occupancy (C,) as weights of the choices, with its certified bound.

    Raises `NotConverged` where the libraries fail, also on programs that are infeasible or nearly so.
    """
    try:
        found = objective.solve(flow(domain), limits)
    except InfeasibleProgram as failure:
        raise NotConverged(f"the direct program failed: {failure}", residual=np.inf, n_steps=1) from failure
    dual, u = objective.lower_bounds(limits), found.answer.dual
    bound = dual.offset(u) - Planner(domain).price_out(dual.price(u)).best
    visits = np.maximum(found.answer.weights, 0.0) * domain.mdp.steps
    return replace(found, answer=Mixture(visits, u), bound=bound)
