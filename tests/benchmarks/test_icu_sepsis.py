"""ICU-Sepsis without discount: figures that its authors print, or that HiGHS computed on the whole flow program."""

import os
import re
from pathlib import Path

import numpy as np
import pytest

import tutelage as tl
from benchmarks.icu_sepsis import ALLOWANCE, assets, main, soft_learner, ward
from tutelage.learners.dual import Reduction
from tutelage.teachers.bounding import search
from tutelage.teachers.climbing import ReducedProblem

if assets() is None and os.environ.get("CI", "false") != "false":
    pytest.fail("icu-sepsis is missing: make setup installs it", pytrace=False)
pytestmark = pytest.mark.skipif(
    assets() is None, reason="icu-sepsis is not installed: pip install --no-deps icu-sepsis"
)


@pytest.fixture(scope="module")
def icu():
    return ward(assets())


def test_random_clinical_and_optimal_treatment_have_the_printed_results(icu):
    """Survival and length; the package prints 0.78, 0.78, 0.88 and 9.45, 9.22, 10.99."""
    mdp = icu.domain.mdp
    assert mdp.n_choices == 2_240 and mdp.horizon == pytest.approx(31.7647, abs=1e-4)
    best = tl.solve_hard(mdp, icu.domain.reward_features[:, 0])
    assert mdp.initial @ best.value == pytest.approx(0.875142, abs=1e-6)
    wanted = ((tl.uniform_policy(mdp), 0.7801, 9.46), (icu.clinicians, 0.7818, 9.24), (best.policy, 0.8751, 10.99))
    for policy, survival, length in wanted:
        met = tl.expectation(icu.domain, policy).reward
        assert met[:2] == pytest.approx([survival, length], abs=0.006) and met[0] == pytest.approx(survival, abs=6e-5)


def test_reluctant_clinicians_end_below_todays_practice_and_the_aware_lesson_recovers_it(icu):
    domain, weights = icu.domain, icu.survival
    learner = tl.HardLearner(domain, violation_allowance=ALLOWANCE)
    aware = tl.best_policy(domain, weights, tl.preference_limits(domain, ALLOWANCE))
    assert aware.value == pytest.approx(0.835835, abs=1e-6) and aware.gap < 1e-9
    assert aware.multipliers == pytest.approx([0.0301, 0.0257], abs=5e-5)
    looser = tl.best_policy(domain, weights, tl.preference_limits(domain, ALLOWANCE | {"high fluid": 1.0}))
    assert looser.value == pytest.approx(0.846240, abs=1e-6)
    best = tl.solve_hard(domain.mdp, domain.reward_features @ weights).policy
    shown = learner.respond(tl.Lesson.from_policy(domain, best)).expectation.reward[0]
    taught = learner.respond(tl.AwareCmdpTeacher(domain, weights, learner).open().lesson).expectation
    today = tl.expectation(domain, icu.clinicians).reward[0]
    assert shown < today < taught.reward[0] == pytest.approx(0.835835, abs=1e-5)
    assert (taught.preference <= np.array(list(ALLOWANCE.values())) + 1e-7).all()


def test_one_stay_counts_what_happened(icu):
    """Survival is one or zero for a stay, not the chance that its last treatment had."""
    walks = tl.sample_demonstrations(icu.domain, icu.clinicians, 200, rng=0)
    counts = np.array([tl.empirical_expectation(icu.domain, walks[k : k + 1]).reward[:2] for k in range(200)])
    assert set(counts[:, 0]) == {0.0, 1.0}
    assert (counts[:, 0] == (walks.last_states == icu.domain.state("well"))).all()
    assert (counts[:, 1] == walks.lengths - 1).all()


def test_the_bound_of_the_bilevel_lesson_falls_with_the_cells(icu):
    """At the best weights known; a hundred cells leave a third of what the best policy has more."""
    learner = soft_learner(icu.domain)
    reduction, block = Reduction(learner.preference.on(learner.domain)), learner.mismatch.block(learner.domain)
    problem = ReducedProblem(reduction, block, np.eye(4)[0])
    achieved = reduction.settle(np.array([5.0, -3.3, -5.0, -5.0])).expectation.reward[0]
    assert achieved == pytest.approx(0.7856, abs=5e-5)
    gaps = [search(problem, achieved=achieved, ceiling=0.8752, max_cells=n).bound - achieved for n in (10, 100)]
    assert gaps[1] < 0.03 < gaps[0] < 0.0896


def test_the_figures_of_the_tutorial_are_printed(capsys):
    main()
    printed = capsys.readouterr().out
    page = (Path(__file__).parents[2] / "docs" / "tutorials" / "icu-sepsis.md").read_text(encoding="utf-8")
    for figure in re.findall(r"\d+\.\d+", printed.partition(";")[2]):
        assert figure in page, figure
