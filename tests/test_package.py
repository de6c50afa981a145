"""The package as a whole: importing it loads no solver, and every public name exists."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

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


def test_a_small_problem_is_solved_without_loading_the_compiler():
    program = """if True:
        import sys
        import tutelage as tl
        domain = tl.object_world(size=10, seed=0).domain("L3")
        tl.solve_soft(domain.mdp, domain.reward_features[:, 0])
        print("numba" in sys.modules)
    """
    assert in_fresh_interpreter(program).strip() == "False"


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


def test_large_models_work_where_numba_can_write_no_cache(tmp_path):
    """A copy of the package that cannot be written, and no other folder for the cache: one warning, the same answer."""
    package = tmp_path / "copy" / "tutelage"
    shutil.copytree(Path(tl.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    # Files in the place of folders cannot be written into, not even by root.
    (package / "bellman" / "__pycache__").touch()
    nowhere = str(package / "py.typed" / "none")
    program = (
        "import sys, tutelage; assert tutelage.__file__.startswith(sys.argv[1])\n"
        "from tutelage.bellman.backups import reachable\n"
        "import numpy as np; print(reachable(np.array([0, 1, 2, 3]), np.array([1, 0, 2]), np.array([1.0, 0.0, 0.0])))"
    )
    environment = os.environ | {"PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    environment |= dict.fromkeys(("HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR"), nowhere)
    ran = subprocess.run(
        [sys.executable, "-c", program, str(package)],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "[0 1]\n"
    assert ran.stderr.count("numba cannot write its cache") == 1 and "Traceback" not in ran.stderr
