"""Linear systems by iteration: sweeps arrive where Krylov steps do not, and every answer is verified."""

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import spsolve
from strategies import CHAIN_DISCOUNT, CHAIN_STATES, CHAINS

from benchmarks.families import family_domain
from tutelage.chains import iterations
from tutelage.chains.iterations import Iterations
from tutelage.chains.resolvent import discounted_rows
from tutelage.outcomes import NotConverged


@pytest.mark.parametrize("build", CHAINS)
@pytest.mark.parametrize("max_steps", [0, 300])
def test_an_answer_is_as_accurate_as_asked_for(build, max_steps, monkeypatch):
    """In the norms in which it is verified, from any start; sweeps alone solve the system too."""
    monkeypatch.setattr(iterations, "MANY_STEPS", max_steps)
    step, rng = build(np.random.default_rng(4)), np.random.default_rng(1)
    system = (sparse.eye_array(CHAIN_STATES) - CHAIN_DISCOUNT * step).tocsc()
    sums, start = rng.normal(size=CHAIN_STATES), np.eye(CHAIN_STATES)[7]
    for matrix, norm, right in ((step, np.inf, sums), (step.T.tocsr(), 1, start)):
        moves, exact = CHAIN_DISCOUNT * matrix, spsolve(system if norm == np.inf else system.T.tocsc(), right)
        system_of = Iterations(moves, CHAIN_DISCOUNT, norm)
        for accuracy in (1e-4, 1e-11):
            for begin in (np.zeros(CHAIN_STATES), exact + 0.1 * rng.normal(size=CHAIN_STATES)):
                error = np.linalg.norm(system_of.solve(right, begin, accuracy) - exact, norm)
                assert error <= 1.01 * accuracy * np.linalg.norm(exact, norm) + 1e-12 * np.linalg.norm(exact, norm)


@pytest.mark.parametrize(("name", "is_fast"), [("garnet", True), ("slippery grid", False), ("roads", False)])
def test_few_steps_are_enough_only_where_a_chain_mixes(name, is_fast):
    mdp = family_domain(name, 1_000).mdp
    moves = discounted_rows(mdp, mdp.first_choice[:-1] + np.random.default_rng(0).integers(mdp.choices_per_state))
    assert Iterations(moves, mdp.discount, np.inf).is_fast() == is_fast


def test_an_accuracy_that_cannot_be_reached_is_an_error(monkeypatch):
    """Rows that sum to more than the discount: the contraction that bounds the error is not there."""
    monkeypatch.setattr(iterations, "MANY_STEPS", 0)
    moves = sparse.csr_array(np.full((3, 3), 1 / 3))
    with pytest.raises(NotConverged, match="a linear system of 3 states has relative error"):
        Iterations(moves, 0.9, np.inf).solve(np.ones(3), np.zeros(3), 1e-9)
