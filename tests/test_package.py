"""The package as a whole: importing it loads no solver, and every public name exists."""

import json
import subprocess
import sys

import pytest

import tutelage as tl

HEAVY = ("numba", "matplotlib", "gymnasium", "networkx", "scipy.optimize")

# Public names that users rely on.
STABLE = {
    "MDP",
    "Domain",
    "object_world",
    "from_gymnasium",
    "from_graph",
    "save",
    "load",
    "occupancy",
    "expectation",
    "causal_entropy",
    "solve_hard",
    "solve_soft",
    "sample_demonstrations",
    "select_demonstrations",
    "SelectedDemonstrations",
    "TutelageError",
    "InvalidModel",
    "InfeasibleConstraints",
    "NotConverged",
    "Lesson",
    "StandardLearner",
    "SoftLearner",
    "HardLearner",
    "GenericLearner",
    "PublishedLearner",
    "PublishedHardLearner",
    "Mismatch",
    "Preference",
    "AgnosticTeacher",
    "ConservativeTeacher",
    "AwareCmdpTeacher",
    "BilevelTeacher",
    "teaching_value",
    "VolumeSearchTeacher",
    "LineSearchTeacher",
    "teach",
}


def in_fresh_interpreter(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout


def test_importing_loads_no_solver_and_nothing_heavy():
    loaded = json.loads(in_fresh_interpreter("import json, sys, tutelage; print(json.dumps(list(sys.modules)))"))
    assert not set(HEAVY) & set(loaded)
    assert not [name for name in loaded if name.startswith(("tutelage.constrained", "tutelage.compiling"))]


@pytest.mark.parametrize("name", tl.__all__)
def test_every_public_name_resolves(name):
    assert getattr(tl, name) is not None


def test_the_stable_surface_is_there():
    assert set(tl.__all__) >= STABLE
    assert tl.MDP.from_arrays and tl.MDP.from_choices


def test_dir_lists_the_public_names():
    assert set(tl.__all__) <= set(dir(tl))
    assert len(set(tl.__all__)) == len(tl.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = tl.no_such_name


def test_every_error_is_one_of_ours():
    for error in (tl.InvalidModel, tl.InfeasibleConstraints, tl.NotConverged):
        assert issubclass(error, tl.TutelageError)
    assert issubclass(tl.InvalidModel, ValueError)


def test_the_version_is_a_number():
    assert [int(part) for part in tl.__version__.split(".")]
