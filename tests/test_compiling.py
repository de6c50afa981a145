"""Compiled loops: not loaded for small problems, cached on disk where possible, and answers without a cache."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import tutelage as tl


def test_a_small_problem_is_solved_without_loading_the_compiler():
    program = """if True:
        import sys
        import tutelage as tl
        domain = tl.object_world(size=10, seed=0).domain("L3")
        tl.solve_soft(domain.mdp, domain.reward_features[:, 0])
        print("numba" in sys.modules)
    """
    assert (
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()
        == "False"
    )


def test_large_models_work_where_numba_can_write_no_cache(tmp_path):
    """A copy of the package that cannot be written, and no other folder for the cache: one warning, the same answer."""
    package = tmp_path / "copy" / "tutelage"
    shutil.copytree(Path(tl.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    # Files in the place of folders cannot be written into, not even by root.
    (package / "bellman" / "__pycache__").touch()
    nowhere = str(package / "py.typed" / "none")
    program = (
        "import sys, tutelage; assert tutelage.__file__.startswith(sys.argv[1])\n"
        "from tutelage.bellman.backups import _exp\n"
        "print(_exp(0.0), _exp(-800.0))"
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
    assert ran.stdout == "1.0 0.0\n"
    assert ran.stderr.count("numba cannot write its cache") == 1 and "Traceback" not in ran.stderr
