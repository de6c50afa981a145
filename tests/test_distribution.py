"""The wheel and the sdist: what is in them, and that the same source makes the same bytes."""

import tarfile
import zipfile
from pathlib import Path

import pytest
from build import ProjectBuilder

ROOT = Path(__file__).parents[1]
NEEDED = {
    "tutelage/__init__.pyi",
    "tutelage/py.typed",
    "tutelage/experiments/printed.json",
    "tutelage/experiments/report.html",
    "tutelage/playground/page/index.html",
}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The wheel and the sdist, built twice, at a stated time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOURCE_DATE_EPOCH", "1700000000")
        folders = [tmp_path_factory.mktemp("dist") for _ in range(2)]
        return [[Path(ProjectBuilder(ROOT).build(kind, folder)) for folder in folders] for kind in ("wheel", "sdist")]


def test_the_same_source_makes_the_same_bytes(built):
    for first, second in built:
        assert first.name == second.name and first.read_bytes() == second.read_bytes()


def test_the_wheel_has_the_package_and_nothing_else(built):
    names = zipfile.ZipFile(built[0][0]).namelist()
    assert set(names) >= NEEDED
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"tutelage"}
    sources = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src").rglob("*.py*")
        if path.suffix in (".py", ".pyi")
    }
    assert sources <= set(names)
    assert not [
        name for name in names if name.endswith((".pyc", ".nbi", ".nbc")) or "/tests/" in name or "benchmark" in name
    ]
    page = {path.name for path in (ROOT / "src/tutelage/playground/page").rglob("*") if path.is_file()}
    assert page <= {Path(name).name for name in names}


def test_the_sdist_has_the_package_and_its_documents(built):
    with tarfile.open(built[1][0]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert names >= {f"src/{name}" for name in NEEDED}
    assert names >= {"README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "pyproject.toml", "PKG-INFO"}
    assert {name.split("/")[0] for name in names if "/" in name} == {"src"}
