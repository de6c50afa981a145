"""The server over HTTP: what it sends, what it refuses and how, and what it survives."""

import asyncio
import base64
import http.client
import json
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from importlib import resources
from urllib.parse import urlsplit

import httpx
import numpy as np
import playground_support
import psutil
import pytest
from playground_support import PATIENCE, SMALL, learner_fields, performed, running, taught, teaching, world_fields
from scipy import sparse

import tutelage as tl
from tutelage.playground import schema
from tutelage.playground.grounds import opened_file
from tutelage.playground.server import Settings, teaching_events
from tutelage.playground.serving import LARGEST_BODY
from tutelage.playground.workers import Event, WorkerPool
from tutelage.registry import LEARNER_MODELS, TEACHERS, Entry

PUBLISHED = tl.object_world(10, 0)
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SOFT = learner_fields("soft", "L2")
CHEAP = teaching("agnostic", SOFT)
DRAWN = {"world": CHEAP["world"], "learner": SOFT, "paths": [[6]]}
BILEVEL = teaching("bilevel", learner_fields("soft", "L2", mismatch_penalty=20.0, violation_penalty=1.0))
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def page():
    """A client of a server that really computes."""
    with (
        running(Settings(n_workers=2, time_limit=600.0)) as address,
        httpx.Client(base_url=address, timeout=PATIENCE) as client,
    ):
        yield client


@pytest.fixture
def stubborn():
    """A client of a server with one process, whose jobs hang, crash or fail."""
    settings = Settings(n_workers=1, time_limit=600.0, run_job=playground_support.stubborn)
    with running(settings) as address, httpx.Client(base_url=address, timeout=PATIENCE) as client:
        yield client


def heard(response: httpx.Response):
    """The events of a stream, each as soon as it is there."""
    name = ""
    for line in response.iter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


def changed(request: dict, **world) -> dict:
    """The same request in a changed world."""
    return request | {"world": request["world"] | world}


ANSWERS = {
    "the page": ("GET", "/", {}, 200),
    "a world": ("GET", "/api/world/text/3/8", {}, 200),
    "a checked world": ("POST", "/api/world", {"json": world_fields(SMALL)}, 200),
    "rounds": ("POST", "/api/teach", {"json": CHEAP}, 200),
    "a file": ("POST", "/api/transcript", {"json": CHEAP}, 200),
    "the description": ("GET", "/api/openapi.json", {}, 200),
    "no such page": ("GET", "/../pyproject.toml", {}, 404),
    "no such seed": ("GET", "/api/world/text/-1/8", {}, 422),
    "the wrong method": ("GET", "/api/teach", {}, 405),
    "a preflight": ("OPTIONS", "/api/teach", {"headers": {"Origin": "http://elsewhere.example"}}, 405),
    "not JSON": ("POST", "/api/teach", {"content": b"{", "headers": {"Content-Type": "application/json"}}, 400),
    "a refusal": ("POST", "/api/teach", {"json": CHEAP | {"teacher": "nobody"}}, 422),
    "too large": ("POST", "/api/teach", {"content": b" " * (LARGEST_BODY + 1)}, 413),
    "another host": ("GET", "/", {"headers": {"Host": "elsewhere.example"}}, 400),
}


@pytest.mark.parametrize("kind", ANSWERS)
def test_every_answer_carries_the_headers(page, kind):
    """A browser then loads nothing from other hosts, guesses no type and shares nothing with other sites."""
    method, path, given, status = ANSWERS[kind]
    answer = page.request(method, path, **given)
    assert answer.status_code == status
    assert answer.headers.get_list("Content-Security-Policy") == [POLICY]
    assert answer.headers.get_list("X-Content-Type-Options") == ["nosniff"]
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers.get_list("Referrer-Policy") == ["no-referrer"]
    assert answer.headers.get_list("Cross-Origin-Opener-Policy") == ["same-origin"]
    assert answer.headers.get_list("Cross-Origin-Resource-Policy") == ["same-origin"]
    assert not [name for name in answer.headers if name.startswith("access-control-")]


def test_the_page_is_sent_with_its_types(page):
    """Each file of the page, byte for byte, with its media type; the page itself at the root."""
    types = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
    for entry in resources.files("tutelage.playground").joinpath("page").iterdir():
        answer = page.get("/" if entry.name == "index.html" else f"/{entry.name}")
        assert answer.content == entry.read_bytes()
        assert answer.headers["Content-Type"].startswith(types[entry.name.rpartition(".")[2]])


def test_nothing_refers_to_another_host():
    """No file of the page or of the server names another host, except for the namespace of SVG."""
    folder = resources.files("tutelage.playground")
    files = [*folder.joinpath("page").iterdir(), *(entry for entry in folder.iterdir() if entry.name.endswith(".py"))]
    assert len(files) > 5
    for entry in files:
        # A link that a person may follow is not loaded.
        elsewhere = re.findall(
            r"https?://(?!www\.w3\.org/|\{|\[\{)\S*|[\"'(]//[a-z]\S*",
            entry.read_text(encoding="utf-8").replace('<a href="https://', ""),
        )
        assert not elsewhere, entry.name


BAD = {
    "nothing": b"",
    "not JSON": b"world",
    "half of it": json.dumps(CHEAP).encode()[:-1],
    "not UTF-8": json.dumps(CHEAP).encode().replace(b"agnostic", b"agn\xffstic"),
    "half a letter": json.dumps({**CHEAP, "\ud800": 1}).encode(),
    "a list": b"[]",
    "null": b"null",
    "deep": b"[" * 200_000,
    "deep and closed": b'{"world":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "an endless number": json.dumps(CHEAP).encode().replace(b'"size": 4', b'"size": ' + b"9" * 10_000),
    "a large number": changed(CHEAP, size=10**300),
    "a large discount": changed(CHEAP, discount=10**400),
    "a large seed": changed(CHEAP, generator="text", seed=2**32),
    "not a number": json.dumps(changed(CHEAP, discount=float("nan"))).encode(),
    "infinity": json.dumps(changed(CHEAP, weights=[float("inf"), 0, 0])).encode(),
    "an infinite exponent": json.dumps(CHEAP).encode().replace(b'"discount": 0.9', b'"discount": 1e999'),
    "a truth value for a number": changed(CHEAP, size=True),
    "a truth value for a weight": changed(CHEAP, weights=[True, 0.0, 0.0]),
    "a number in quotes": changed(CHEAP, size="4"),
    "a weight in quotes": changed(CHEAP, weights=["1", "0", "0"]),
    "a fraction of a cell": changed(CHEAP, start=0.5),
    "an unknown field": CHEAP | {"path": "/etc/passwd"},
    "an unknown field within": changed(CHEAP, owner="nobody"),
    "an unknown field of great length": CHEAP | {"x" * 100_000: 1},
    "a missing field": {"world": CHEAP["world"], "teacher": "agnostic"},
    "too small a world": changed(CHEAP, size=1, start=0, objects={}, distractors={}),
    "too large a world": changed(CHEAP, size=31),
    "a start off the grid": changed(CHEAP, start=16),
    "an object off the grid": changed(CHEAP, objects={"star": [16]}),
    "a cell below zero": changed(CHEAP, objects={"star": [-1]}),
    "two objects in one cell": changed(CHEAP, objects={"star": [1], "dot": [1]}),
    "one object twice": changed(CHEAP, objects={"star": [1, 1]}),
    "two colours in one cell": changed(CHEAP, distractors={"green": [1], "yellow": [1]}),
    "an unknown kind of object": changed(CHEAP, objects={"comet": [1]}),
    "a discount of one": changed(CHEAP, discount=1),
    "a chance of two": changed(CHEAP, end_probability=2),
    "two weights": changed(CHEAP, weights=[1.0, 2.0]),
    "a seed of a hand-made world": changed(CHEAP, seed=3),
    "a generator that made another": changed(CHEAP, generator="published", seed=3),
    "no rounds": CHEAP | {"max_rounds": 0},
    "too many rounds": CHEAP | {"max_rounds": 61},
    "a preference twice": CHEAP | {"learner": {**SOFT, "preferences": SOFT["preferences"][:1] * 2}},
    "an allowance below zero": CHEAP | {"learner": learner_fields("soft", "L2", -1.0)},
    "a penalty of nothing": CHEAP | {"learner": {**SOFT, "mismatch_penalty": 0}},
    "an unknown learner model": CHEAP | {"learner": {**SOFT, "model": "clever"}},
    "a teacher that cannot": CHEAP | {"learner": learner_fields("hard", "L2"), "teacher": "bilevel"},
    "a learner that no policy satisfies": changed(
        CHEAP | {"learner": learner_fields("hard", "L2")}, distractors={"green": [6]}
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_request_is_refused_in_a_sentence(page, kind):
    """Bad input is an error of the client: a status of 400 to 422, and a sentence of a readable length."""
    body = BAD[kind] if isinstance(BAD[kind], bytes) else json.dumps(BAD[kind]).encode()
    answer = page.post("/api/teach", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)
    assert list(answer.json()) == ["detail"]
    assert 10 < len(answer.json()["detail"]) < 600


def test_a_form_of_another_site_is_not_read(page):
    """A browser lets any site send plain text or a body without a type; neither is read as JSON."""
    for headers in ({"Content-Type": "text/plain"}, {}):
        assert page.post("/api/teach", content=json.dumps(CHEAP), headers=headers).status_code == 422


@pytest.mark.parametrize("path", [[], [5], [6, 4], [6, 16], [6] * 1001], ids=["empty", "start", "jump", "off", "long"])
def test_impossible_paths_are_refused(page, path):
    """A path has no jump, no cell outside the grid, and at most 1000 cells."""
    asked = {"world": world_fields(SMALL), "learner": SOFT, "paths": [path]}
    for where, request in (
        ("answer", asked),
        ("adapt", {"world": asked["world"], "teacher": "line_search", "walks": [path]}),
    ):
        answer = page.post(f"/api/{where}", json=request)
        assert answer.status_code == 422 and answer.json()["detail"]


def test_generated_worlds_are_the_library_s(page):
    """The same seed is the same world here, in the library and in the published experiments."""
    for generator in ("published", "text"):
        found = page.get(f"/api/world/{generator}/7/10")
        world = tl.object_world(10, 7, generator)
        assert tl.ObjectWorld.from_json(found.text) == world
        assert page.post("/api/world", json=found.json()).json() == found.json()


def test_answers_are_those_of_the_jobs(page):
    """The server sends the numbers of the job unchanged."""
    world = world_fields(SMALL)
    asked = {
        "answer": {"world": world, "learner": SOFT, "paths": [[6, 7, 11]]},
        "adapt": {"world": world, "teacher": "volume_search", "walks": [[6, 7]]},
        "reach": {"world": world, "learner": SOFT},
    }
    for name, request in asked.items():
        ((_, expected),) = performed(name, request)
        assert page.post(f"/api/{name}", json=request).json() == expected
    with page.stream("POST", "/api/teach", json=CHEAP) as answer:
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        assert list(heard(answer)) == performed("teach", CHEAP)


def test_the_transcript_is_a_file(page, tmp_path):
    """`load_transcript` reads the download, which has the rounds that were streamed."""
    answer = page.post("/api/transcript", json=teaching("volume_search", SOFT, max_rounds=2))
    assert answer.headers["Content-Type"] == "application/octet-stream"
    (tmp_path / "transcript.npz").write_bytes(answer.content)
    assert len(tl.load_transcript(tmp_path / "transcript.npz", SMALL.domain("L2")).rounds) == 2


def test_rounds_arrive_one_by_one(page):
    """A search sends numbered rounds and then the end."""
    with page.stream("POST", "/api/teach", json=teaching("line_search", SOFT, max_rounds=8)) as answer:
        events = list(heard(answer))
    names = [name for name, _ in events]
    assert names == ["round"] * (len(names) - 1) + ["end"] and len(names) > 3
    assert [data["number"] for _, data in events[:-1]] == list(range(1, len(names)))


def test_a_round_is_shown_though_the_next_never_comes(stubborn):
    """The first round arrives before the end: this job never ends."""
    with stubborn.stream("POST", "/api/teach", json=CHEAP) as answer:
        assert next(heard(answer))[0] == "round"


def test_the_page_is_served_while_every_process_hangs(stubborn):
    """Jobs do not block the page: without a free process, the page is sent and worlds are checked."""
    with stubborn.stream("POST", "/api/teach", json=CHEAP) as answer:
        next(heard(answer))
        assert stubborn.get("/").status_code == 200
        assert stubborn.get("/api/world/text/0/30").status_code == 200
        assert stubborn.post("/api/teach", json={}).status_code == 422


def test_closing_the_connection_frees_the_process(stubborn):
    """The job of a closed stream is stopped before its time limit, and its process is killed."""
    with stubborn.stream("POST", "/api/teach", json=CHEAP) as answer:
        stuck = next(heard(answer))[1]["process"]
    asked = {"world": CHEAP["world"], "learner": SOFT, "paths": [[6]]}
    assert stubborn.post("/api/answer", json=asked).json()["process"] != stuck
    assert not psutil.pid_exists(stuck)


def test_closing_the_connection_before_the_first_event_frees_the_process(stubborn):
    """Closing the connection before any answer stops the job too: the next request does not wait for it."""
    client = http.client.HTTPConnection(urlsplit(str(stubborn.base_url)).netloc, timeout=PATIENCE)
    request = json.dumps({"world": CHEAP["world"], "learner": SOFT})
    client.request("POST", "/api/reach", request, {"Content-Type": "application/json"})
    # The server reads requests in the order of their connections: it has read the first once it answers the second.
    assert stubborn.get("/").status_code == 200
    client.close()
    asked = {"world": CHEAP["world"], "learner": SOFT, "paths": [[6]]}
    assert stubborn.post("/api/answer", json=asked).json()["process"]


def test_a_crash_is_a_sentence_and_the_server_goes_on(stubborn):
    """A crash or an unexpected error is reported without a traceback, and the next request is answered."""
    world = CHEAP["world"]
    crashed = stubborn.post("/api/adapt", json={"world": world, "teacher": "line_search", "walks": []})
    assert crashed.status_code == 500 and crashed.json() == {
        "detail": "the process that computed this has crashed; the others go on"
    }
    failed = stubborn.post("/api/transcript", json=CHEAP)
    assert failed.status_code == 500 and "should not have happened" in failed.json()["detail"]
    # The class of an exception is for the log, not for the user.
    assert "ZeroDivisionError" not in failed.json()["detail"]
    assert failed.headers["Content-Security-Policy"] == POLICY
    answered = stubborn.post("/api/answer", json={"world": world, "learner": SOFT, "paths": [[6]]})
    assert answered.status_code == 200


def test_a_job_beyond_the_time_limit_is_stopped_with_a_sentence():
    """Before the first event the refusal is a status, after it an event."""
    with running(Settings(n_workers=1, time_limit=2.0, run_job=playground_support.stubborn)) as address:
        answer = httpx.post(f"{address}/api/reach", json={"world": CHEAP["world"], "learner": SOFT}, timeout=PATIENCE)
        assert answer.status_code == 422 and "longer than 2 s" in answer.json()["detail"]
        with httpx.stream("POST", f"{address}/api/teach", json=CHEAP, timeout=PATIENCE) as answer:
            (first, _), (second, data) = heard(answer)
        assert (first, second) == ("round", "refused") and "longer than 2 s" in data["detail"]


def test_twenty_at_once_are_all_answered(page):
    """Twenty clients at once: each receives the rounds of its own request."""
    requests = [
        BILEVEL
        if number % 10 == 0
        else teaching("aware_cmdp" if number % 2 else "agnostic", learner_fields("soft", "L3"), PUBLISHED)
        for number in range(20)
    ]

    def answered(request: dict) -> list:
        with httpx.stream("POST", f"{page.base_url}/api/teach", json=request, timeout=PATIENCE) as answer:
            assert answer.status_code == 200
            return list(heard(answer))

    with ThreadPoolExecutor(20) as clients:
        found = list(clients.map(answered, requests))
    first = {name: found[number] for number, name in enumerate(("bilevel", "aware_cmdp", "agnostic"))}
    assert [len(events) for events in first.values()] == [3, 2, 2]
    for request, events in zip(requests, found, strict=True):
        assert events == first[request["teacher"]]


def test_a_lesson_is_sent_before_its_bound_is_known():
    """The search for the bound never ends here, but the round with the lesson arrives."""
    with (
        running(Settings(n_workers=1, time_limit=600.0, run_job=playground_support.without_bounds)) as address,
        httpx.stream("POST", f"{address}/api/teach", json=BILEVEL, timeout=PATIENCE) as answer,
    ):
        name, sent = next(heard(answer))
        assert (name, sent) == performed("teach", BILEVEL)[0]


def test_all_lessons_come_before_all_bounds():
    """Three clients and one worker: all three lessons are computed first, then the bounds, each in order of arrival."""

    async def events(pool: WorkerPool) -> list[int]:
        asked = schema.Teaching.model_validate(BILEVEL)
        return [int(event.data) async for event in teaching_events(pool, asked) if event.name == "round"]

    async def scenario() -> list[list[int]]:
        pool = WorkerPool(playground_support.numbered, count=1, time_limit=600.0)
        async with pool.running():
            async with aclosing(pool.events("reach", "")) as hanging:
                await anext(hanging)
                clients = [asyncio.create_task(events(pool)) for _ in range(3)]
                await asyncio.wait(clients, timeout=0)
            return await asyncio.gather(*clients)

    assert asyncio.run(scenario()) == [[1, 4], [2, 5], [3, 6]]


def test_a_bound_is_asked_for_without_urgency():
    """A lesson that arrives while a bound waits is computed first: the bound has the lower priority."""
    asked = []

    class Pool:
        async def events(self, name, request, *, is_urgent=True):
            asked.append((name, request, is_urgent))
            yield Event("round", "{}") if name == "teach" else Event("end", "{}")
            if name == "teach":
                yield Event("later", "what is left")

    async def scenario() -> list[str]:
        return [event.name async for event in teaching_events(Pool(), schema.Teaching.model_validate(BILEVEL))]

    assert asyncio.run(scenario()) == ["round", "end"]
    assert [(name, is_urgent) for name, _, is_urgent in asked] == [("teach", True), ("bound", False)]
    assert asked[1][1] == asked[0][1]


@pytest.fixture
def toy(monkeypatch):
    """A teacher that is in the registry for one test."""
    entry = Entry("Toy", "shows an optimal policy", "tutelage:AgnosticTeacher", is_adaptive=True)
    monkeypatch.setitem(TEACHERS, "toy", entry)
    return entry


def test_a_new_teacher_of_the_registry_is_offered_described_and_run(toy):
    """One entry in the registry: the page and the schema list it, requests may name it, and it teaches."""
    with (
        running(Settings(n_workers=1, time_limit=600.0)) as address,
        httpx.Client(base_url=address, timeout=PATIENCE) as client,
    ):
        players = client.get("/api/players").json()
        assert players["teachers"]["toy"]["label"] == "Toy" and players["teachers"]["toy"]["about"] == toy.about
        described = client.get("/api/openapi.json").json()["components"]["schemas"]
    assert described["Teaching"]["properties"]["teacher"]["enum"] == list(TEACHERS)
    assert "toy" in described["Walking"]["properties"]["teacher"]["enum"]
    *rounds, (last, ending) = taught(teaching("toy", SOFT))
    assert rounds[0][1]["reward"] == taught(CHEAP)[0][1]["reward"] and last == "end"
    assert "teacher = tl.AgnosticTeacher(domain, world.true_weights)" in ending["snippet"]


def test_an_unknown_name_is_refused_with_the_known_ones(page):
    """Names are looked up in the registry at each request; an unknown name is refused before anything is computed."""
    answer = page.post("/api/teach", json=CHEAP | {"teacher": "toy"})
    assert answer.status_code == 422 and answer.json()["detail"] == f"teacher: must be one of {', '.join(TEACHERS)}"


def test_the_page_gets_every_player(page):
    """All teachers, learner models, preferences and presets, with labels, sentences, defaults and ranges."""
    players = page.get("/api/players").json()
    assert list(players["teachers"]) == list(TEACHERS) and list(players["learner_models"]) == list(LEARNER_MODELS)
    assert players["learner_models"]["soft"]["options"]["mismatch_penalty"]["default"] == 5
    assert [row["name"] for row in players["preferences"]] == list(PUBLISHED.domain("L5").preference_names)
    assert players["presets"]["L1"] == {"about": "avoids nothing", "preferences": []}
    assert players["presets"]["L3"]["about"] == "avoids green within 2 cells and yellow within 0 cells"
    for name, preset in players["presets"].items():
        assert tuple(preset["preferences"]) == PUBLISHED.domain(name).preference_names


@pytest.mark.parametrize("model", LEARNER_MODELS)
def test_every_learner_model_can_be_asked_for(page, model):
    """Each model with its own options and defaults, with preferences and without."""
    for preferences in ("L1", "L2"):
        asked = {"world": world_fields(SMALL), "learner": learner_fields(model, preferences), "paths": [[6, 7, 11]]}
        answer = page.post("/api/answer", json=asked)
        if model in ("cloning", "bayesian"):  # a path says where one goes, not what one chooses
            assert answer.status_code == 422 and "needs demonstrations with choices" in answer.json()["detail"]
        else:
            assert answer.status_code == 200 and f"tl.{type_name(model)}(domain" in answer.json()["snippet"]


def type_name(model: str) -> str:
    return LEARNER_MODELS[model].maker.partition(":")[2]


def brought(domain: tl.Domain, folder) -> str:
    """A domain as a request contains it."""
    tl.save(domain, folder / "domain.npz")
    return base64.b64encode((folder / "domain.npz").read_bytes()).decode()


def test_a_domain_from_a_file_is_taught_as_the_library_teaches_it(page, tmp_path):
    """A domain that is no grid, with ragged choices: opened, taught, its planes drawn, its rounds saved and read."""
    domain = queue_domain()
    file, learner = brought(domain, tmp_path), {"model": "hard", "preferences": [{"name": "full", "allowance": 0.5}]}
    about = page.post("/api/domain", json={"file": file}).json()
    assert (about["n_states"], about["reward_names"], about["preference_names"]) == (6, ["served", "rest"], ["full"])
    assert about["avoidable"] == [[5]] and about["map"]["roads"][0] == [0, 1] and about["map"]["places"][5] is None
    scene = {"domain": {"file": file, "weights": [1.0, 0.25]}, "learner": learner}
    with page.stream("POST", "/api/domain/teach", json=scene | {"teacher": "aware_cmdp"}) as answer:
        events = list(heard(answer))
    model = tl.HardLearner(domain, violation_allowance=[0.5])
    best = tl.AwareCmdpTeacher(domain, np.array([1.0, 0.25]), model).plan()
    assert events[0][1]["reward"] == pytest.approx(best.achieved, abs=1e-9)
    assert all(state < 6 for walk in events[0][1]["done"] for state in walk)
    assert len(page.post("/api/domain/reach", json=scene).json()["reachable"]) == 1
    saved = page.post("/api/domain/transcript", json=scene | {"teacher": "line_search", "max_rounds": 3})
    found = page.post(
        "/api/domain/transcript/read", json={"file": base64.b64encode(saved.content).decode(), "scene": scene}
    ).json()
    (tmp_path / "transcript.npz").write_bytes(saved.content)
    loaded = tl.load_transcript(tmp_path / "transcript.npz", domain)
    assert [one["reward"] for one in found["rounds"]] == [one.response_reward for one in loaded.rounds]


def queue_domain() -> tl.Domain:
    """A queue of up to five that is served or left alone; nobody can be served when it is empty."""
    rows, first = [], [0]
    for length in range(6):
        longer = np.eye(6)[min(length + 1, 5)]
        rows += [0.5 * longer + 0.5 * np.eye(6)[length]] + ([np.eye(6)[length - 1]] if length else [])
        first.append(len(rows))
    mdp = tl.MDP.from_choices(np.array(rows), first, np.eye(6)[0], 0.9)
    served = np.zeros((len(rows), 2))
    served[2::2, 0] = 1.0
    served[:, 1] = 1 - served[:, 0]
    full = np.zeros((len(rows), 1))
    full[first[5] :] = 1.0
    places = np.column_stack([np.arange(6.0), np.zeros(6)])
    places[5] = np.nan
    return tl.Domain(mdp, served, full, ("served", "rest"), ("full",), positions=places)


def test_a_wrong_or_huge_file_is_refused_in_a_sentence(page, tmp_path):
    """Not base 64, not an archive, of another format, too large, too many states; weights or names that do not fit."""
    good = brought(queue_domain(), tmp_path)
    scene = {"domain": {"file": good, "weights": [1.0, 1.0]}, "learner": {"model": "hard", "preferences": []}}
    large = cycle(20_001)
    asked = [
        ("", {"file": "?"}, 422, "not in base 64"),
        (
            "",
            {"file": base64.b64encode(b"PK but no archive").decode()},
            422,
            "the file cannot be read as a tutelage domain",
        ),
        ("", {"file": base64.b64encode(bytes(schema.LONGEST_TEXT)).decode()}, 413, "too large"),
        ("", {"file": "A" * (schema.LONGEST_TEXT + 4)}, 422, "should have at most"),
        ("", {"file": brought(large, tmp_path)}, 422, "20001 states; the playground takes at most 20000"),
        (
            "/teach",
            scene | {"teacher": "agnostic", "domain": {"file": good, "weights": [1.0]}},
            422,
            "2 reward features",
        ),
        (
            "/teach",
            scene | {"teacher": "agnostic", "learner": {"model": "hard", "preferences": [{"name": "nobody"}]}},
            422,
            "no preference 'nobody'",
        ),
        ("/transcript/read", {"file": good, "scene": scene}, 422, "not a tutelage transcript file"),
    ]
    for path, request, status, sentence in asked:
        answer = page.post(f"/api/domain{path}", json=request)
        assert answer.status_code == status and sentence in answer.json()["detail"], sentence
        assert "/tmp" not in answer.json()["detail"] and len(answer.json()["detail"]) < 600


def cycle(n: int) -> tl.Domain:
    """n states in a circle."""
    step = sparse.csr_array((np.ones(n), (np.arange(n) + 1) % n, np.arange(n + 1)), shape=(n, n))
    return tl.Domain(tl.MDP.from_choices(step, np.arange(n + 1), np.eye(1, n)[0], 0.9), np.zeros((n, 1)))


def test_a_lesson_stands_when_the_search_for_its_bound_is_stopped():
    """Only the bound fails here: the events are the lesson, why there is no tight bound, and the end."""
    settings = Settings(n_workers=1, time_limit=600.0, run_job=playground_support.failing_bounds)
    with running(settings) as address, httpx.Client(base_url=address, timeout=PATIENCE) as client:
        events = list(heard(client.post("/api/teach", json=BILEVEL)))
    assert [name for name, _ in events] == ["round", "unbounded", "end"]
    assert events[0][1]["is_bounded"] is False and "crashed" in events[1][1]["detail"]
    assert "BilevelTeacher" in events[2][1]["snippet"]


def test_the_file_of_the_command_line_is_opened_first(tmp_path):
    """The server sends the file that it was started with, and none otherwise; a wrong file is refused at the start."""
    brought(queue_domain(), tmp_path)
    content = opened_file(tmp_path / "domain.npz")
    with running(Settings(n_workers=1, opened=("domain.npz", content))) as address:
        found = httpx.get(f"{address}/api/opened", timeout=PATIENCE).json()
    assert found["name"] == "domain.npz" and base64.b64decode(found["file"]) == content
    (tmp_path / "bad.npz").write_bytes(b"PK")
    with pytest.raises(tl.InvalidModel, match="cannot be read"):
        opened_file(tmp_path / "bad.npz")
