"""Every example runs as it stands, with warnings as errors, and is short enough to read."""

import runpy
import warnings
from pathlib import Path

import pytest
from strategies import some_of

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


# The longest one is left to `make docs` and `make test-all`.
RUN = some_of(EXAMPLES, (path for path in EXAMPLES if path.stem != "unknown_learner"))


@pytest.mark.parametrize("path", RUN, ids=lambda path: path.stem)
def test_example_runs(path, capsys, tmp_path, monkeypatch):
    """In a temporary folder, because some examples write files."""
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out
    assert len(path.read_text().splitlines()) <= 40
