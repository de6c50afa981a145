"""The least-squares problem of a fit, and its first guess: exact where the learner pays the same in every answer."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracles import central_difference
from problems import seen_in_part

from tutelage.inference.misfit import FitProblem, SharedProgram, guesses


@pytest.mark.parametrize("seed", range(4))
def test_a_learner_that_pays_in_full_is_guessed(seed):
    """Then all multipliers are C_c, and nothing but the small preference for small ones moves the guess."""
    _, evidence = seen_in_part(seed, 0.0)
    problem = FitProblem.of(evidence)
    penalty, violation, *delta = guesses(problem)[0][0] * problem.unit
    assert penalty == pytest.approx(1.2, rel=0.02) and violation == pytest.approx(1.5, rel=0.1)
    assert_allclose(delta, 0.0)


@pytest.mark.parametrize("seed", range(4))
def test_the_derivative_is_that_of_central_differences(seed):
    learner, evidence = seen_in_part(seed, 0.0)
    rng, d_r = np.random.default_rng(seed), learner.domain.n_reward
    shared = SharedProgram(FitProblem.of(evidence), rng.choice([-1.0, 0.0, 1.0], size=(len(evidence.shown), d_r)))
    z = np.abs(rng.normal(size=3 + shared.n_free))
    here = shared.evaluate(z, None)
    for row in range(len(here.value)):
        slope = central_difference(lambda x, row=row: shared.evaluate(x, None).value[row], z)
        assert_allclose(slope, here.jacobian[row], rtol=1e-5, atol=1e-7)
