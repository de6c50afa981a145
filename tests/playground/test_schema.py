"""The server and its OpenAPI schema: valid and invalid requests never cause an error of the server."""

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from playground_support import PATIENCE, running
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.config import SchemathesisConfig
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)
from strategies import some_of

from tutelage.playground.server import Settings, make_app

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
DESCRIBED = schemathesis.openapi.from_dict(
    make_app(Settings()).openapi(),
    config=SchemathesisConfig.from_dict({"seed": 0, "generation": {"deterministic": True, "no-shrink": True}}),
)
pytestmark = pytest.mark.timeout(600)
COMPUTED = ("teach", "transcript", "answer", "adapt", "reach")
# Left to `make test-all` and `make fuzz`: requests whose parts are also those of others.
REPEATED = some_of([], ["transcript", "domain/transcript", "domain/reach", "answer", "reach"])


@pytest.fixture(scope="module")
def hasty():
    """A server with a short time limit; a refusal for time is in the schema too."""
    with running(Settings(n_workers=2, time_limit=3.0)) as address:
        yield {"base_url": address, "timeout": PATIENCE}


@pytest.fixture(scope="module")
def server():
    """A server that has time for every small request."""
    with running(Settings(n_workers=2, time_limit=600.0)) as address:
        yield {"base_url": address, "timeout": PATIENCE}


@DESCRIBED.exclude(path=[f"/api/{name}" for name in REPEATED]).parametrize()
@settings(max_examples=some_of([10], [3])[0], suppress_health_check=list(HealthCheck))
def test_no_request_is_the_server_s_mistake(case, hasty):
    """Requests at and beyond every bound of the description: an answer as described, or a refusal as described."""
    case.call_and_validate(**hasty, checks=CHECKS)


@pytest.mark.parametrize("name", COMPUTED)
def test_whatever_fits_the_description_is_computed_or_refused(name, server):
    """Random requests, repaired where the schema cannot express a condition, so that they are computed."""
    statuses: list[int] = []

    @settings(max_examples=some_of([24], [12])[0], suppress_health_check=list(HealthCheck))
    @given(DESCRIBED[f"/api/{name}"]["POST"].as_strategy(generation_mode=GenerationMode.POSITIVE), st.integers(2, 5))
    def asked(case, size):
        case.body = mended(case.body, size)
        statuses.append(case.call_and_validate(**server, checks=CHECKS[:-1]).status_code)

    asked()
    assert statuses.count(200) > len(statuses) / 3 and set(statuses) <= {200, 422}


def mended(body: dict, size: int) -> dict:
    """The request in a small, valid world, with distinct preferences and paths that stay at the start."""
    kept = whole(body)
    kept["world"] = mended_world(kept["world"], size)
    if "learner" in kept:
        avoided = {(row["colour"], row["distance"]): row for row in kept["learner"]["preferences"]}
        kept["learner"]["preferences"] = list(avoided.values())
    for paths in ("paths", "walks"):
        kept |= {paths: [[kept["world"]["start"]]] * min(len(kept[paths]), 3)} if paths in kept else {}
    return kept | {"max_rounds": 2} if "max_rounds" in kept else kept


def mended_world(world: dict, size: int) -> dict:
    """A hand-made world; every cell is on the grid and used once."""
    kept = {name: value for name, value in world.items() if name not in ("generator", "seed")}
    for things in ("objects", "distractors"):
        taken: set[int] = set()
        kept[things] = {}
        for kind, cells in world[things].items():
            kept[things][kind] = sorted({cell % size**2 for cell in cells} - taken)
            taken.update(kept[things][kind])
    return kept | {"size": size, "start": world["start"] % size**2}


def whole(value):
    """The same with 2.0 written as 2: both are integers in the schema, but the server accepts only 2."""
    if isinstance(value, dict):
        return {name: whole(part) for name, part in value.items()}
    if isinstance(value, list):
        return [whole(part) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
