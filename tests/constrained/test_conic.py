"""The cone program for distances: weak duality judges its answer."""

import numpy as np
from strategies import random_domain, random_policy

import tutelage as tl
from tutelage.constrained import conic
from tutelage.constrained.conic import Ball, best_within_balls


def test_a_wrong_solution_of_the_cone_program_is_not_taken(monkeypatch):
    """Weak duality: with wrong multipliers, or another policy, the gap is too large."""
    rng = np.random.default_rng([1, 3])
    domain = random_domain(rng, max_states=12, n_preference=3)
    liked = tl.expectation(domain, random_policy(rng, domain.mdp)).preference
    ball = Ball(liked, np.ones(3), 0.02 * domain.mdp.horizon)
    problem = (domain, np.linspace(-1, 2, domain.n_reward), tl.preference_limits(domain, 1.5 * liked), [ball])
    right, t = best_within_balls(*problem)
    assert right.gap <= 1e-7 * (1 + abs(right.value)) and np.linalg.norm(t) > 1e-3
    solve = conic._solved
    for wrong in (lambda z, y, t: (z, y, 0.9 * t), lambda z, y, t: (z[::-1], y, t), lambda z, y, t: (z, y + 0.1, t)):
        monkeypatch.setattr(conic, "_solved", lambda *given, wrong=wrong: wrong(*solve(*given)))
        assert best_within_balls(*problem) is None
