"""Domain files of a lake, of roads and of a plant, which several commands read."""

import pytest
from cli_support import ROADS, STREETS, printed

import tutelage as tl


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """The files of a lake, of roads and of a plant."""
    path = tmp_path_factory.mktemp("own")
    printed("import", "gymnasium", "FrozenLake-v1", "--cells", "--discount", "0.9", "-o", str(path / "lake.npz"))
    printed("import", "graph", STREETS, *ROADS, "--preferences", "highway=primary", "-o", str(path / "roads.npz"))
    tl.save(plant(), path / "plant.npz")
    return path


def plant():
    def outcomes(state, action):
        after = {"run": [(0.7, state), (0.3, min(state + 1, 3))], "service": [(1.0, 0)]}
        return after[action]

    return tl.explore(
        0,
        lambda state: ["run", "service"],
        outcomes,
        discount=0.9,
        reward=lambda state, action: {"output": action == "run" and state < 3, "services": action == "service"},
        preference=lambda state, action: {"worn": state >= 2},
    )
