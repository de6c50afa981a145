"""Shared by the tests of the playground: requests as the page makes them, jobs, a server, and the browser.

Worker processes load this module for its jobs: it imports no solver and no server before a function needs one.
"""

import itertools
import json
import os
import shutil
import signal
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

import tutelage as tl
from tutelage.environments.placement import NAMED, preference_names
from tutelage.outcomes import InvalidModel

# The browser of the page's tests: the one that the environment names, otherwise Debian's Chromium.
CHROMIUM = os.environ.get("TUTELAGE_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
# In continuous integration a missing browser is a failure: tests that are skipped there would not be missed.
MAY_SKIP_PAGE = CHROMIUM is None and os.environ.get("CI", "false") == "false"
NO_BROWSER = (
    "THERE IS NO CHROMIUM, SO THE PAGE WAS NOT TESTED: apt-get install chromium, "
    "or set TUTELAGE_CHROMIUM to the path of one"
)
# Seconds after which a start, a stop or an answer counts as never coming; for a machine that does other work too.
PATIENCE = 240.0

# The star has the largest reward and lies on green; the plus and the dot do not.
SMALL = tl.ObjectWorld(
    4,
    6,
    {"star": [0], "plus": [11], "dot": [13]},
    {"green": [0, 12], "yellow": [3]},
    discount=0.9,
    end_probability=0.25,
    weights=(1.0, 0.75, 0.3),
)
# Neither L1 .. L5 nor in the order of the columns.
CHOSEN = ("yellow within 1 cell", "green within 0 cells")


def world_fields(world: tl.ObjectWorld) -> dict[str, Any]:
    """A world as the page sends it."""
    found: dict[str, Any] = json.loads(world.to_json())
    return found


def learner_fields(
    model: str, preferences: str | Sequence[str], allowances: float | Sequence[float] = 0.0, **penalties: float
) -> dict[str, Any]:
    """A learner as the page sends it. preferences: L1 .. L5, or names."""
    names = preference_names(preferences)
    granted = [allowances] * len(names) if isinstance(allowances, int | float) else list(allowances)
    avoided = [
        {"colour": NAMED[name][0], "distance": NAMED[name][1], "allowance": allowance}
        for name, allowance in zip(names, granted, strict=True)
    ]
    return {"model": model, "preferences": avoided, **penalties}


def teaching(
    teacher: str, learner: Mapping[str, Any], world: tl.ObjectWorld = SMALL, max_rounds: int = 20
) -> dict[str, Any]:
    """A request for a teacher's rounds."""
    return {"world": world_fields(world), "learner": learner, "teacher": teacher, "max_rounds": max_rounds}


def performed(name: str, request: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The events of a job, each sent as a JSON text and read again."""
    from tutelage.playground.jobs import run_job
    from tutelage.playground.workers import as_json

    sent: list[tuple[str, dict[str, Any]]] = []

    def send(event: str, data: Any) -> None:
        sent.append((event, json.loads(as_json(data))))

    run_job(name, json.dumps(request), send)
    return sent


def taught(request: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """All events of a teacher: of the job `teach` and of its continuation."""
    events = performed("teach", request)
    if events[-1][0] == "later":
        events[-1:] = performed("bound", request)
    return events


def beyond(points: ArrayLike, place: ArrayLike) -> float:
    """How far, in any coordinate, a place (d,) is from the convex hull of points (n, d): a linear program."""
    from scipy.optimize import linprog

    corners, aim = np.asarray(points, dtype=float), np.asarray(place, dtype=float)
    n, d = corners.shape
    # Variables: convex weights of the points, and the distance.
    rows = np.block([[corners.T, -np.ones((d, 1))], [-corners.T, -np.ones((d, 1))]])
    found = linprog(np.eye(n + 1)[n], A_ub=rows, b_ub=np.concatenate([aim, -aim]), A_eq=[[1.0] * n + [0.0]], b_eq=[1.0])
    assert found.success
    return float(found.fun)


@contextmanager
def running(settings: Any = None) -> Iterator[str]:
    """A server on a free port, until the end of the block; yields its address, without a slash."""
    import uvicorn

    from tutelage.playground.server import Settings, make_app
    from tutelage.playground.serving import configured

    is_ready = threading.Event()

    class Announced(uvicorn.Server):
        """Sets `is_ready` when it answers."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            is_ready.set()

    listening = socket.create_server(("127.0.0.1", 0))
    settings = settings or Settings(time_limit=600.0)
    server = Announced(configured(make_app(settings), settings.client_seconds))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        assert is_ready.wait(PATIENCE), "the server did not start"
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
        listening.close()
        assert not thread.is_alive(), "the server did not stop"


def echo_job(name: str, request: str, send: Any) -> None:
    """Run the job of a name. A job that fails or never ends first sends the number of its process."""
    if name == "echo":
        send("answer", {"said": json.loads(request), "process": os.getpid()})
        return
    if name == "events":
        for number in range(json.loads(request)):
            send("number", number)
        return
    send("process", os.getpid())
    ENDINGS[name](request)


def exits(request: str) -> None:
    """End as a process whose memory runs out in C."""
    os._exit(3)


def is_killed(request: str) -> None:
    """End as a process that the system kills for its memory."""
    os.kill(os.getpid(), signal.SIGKILL)


def hangs(request: str) -> None:
    """Never end, and never read."""
    for _ in itertools.count():
        pass


def fails(request: str) -> None:
    """Raise an error that no job should raise."""
    raise ZeroDivisionError("a mistake")


def refuses(request: str) -> None:
    """Raise the error of a bad request."""
    raise InvalidModel("there is no such world")


ENDINGS = {"exit": exits, "kill": is_killed, "hang": hangs, "fail": fails, "refuse": refuses}


def stubborn(name: str, request: str, send: Any) -> None:
    """Jobs instead of the page's: `teach` and `reach` hang, `adapt` crashes, `transcript` fails, `answer` works."""
    if name == "teach":
        send("round", {"process": os.getpid()})
    if name == "answer":
        send("answer", {"process": os.getpid()})
        return
    ENDINGS["kill" if name == "adapt" else "fail" if name == "transcript" else "hang"](request)


def floods(name: str, request: str, send: Any) -> None:
    """`teach` sends 40 MB, more than all buffers of a connection hold; the other jobs are those of `stubborn`."""
    if name != "teach":
        stubborn(name, request, send)
        return
    for _ in range(400):
        send("round", "x" * 100_000)


def without_bounds(name: str, request: str, send: Any) -> None:
    """The jobs of the page, except that the search for a bound never ends."""
    from tutelage.playground.jobs import run_job as page_job

    if name == "bound":
        hangs(request)
    page_job(name, request, send)


def failing_bounds(name: str, request: str, send: Any) -> None:
    """The jobs of the page, except that the process of a search for a bound is killed."""
    from tutelage.playground.jobs import run_job as page_job

    if name == "bound":
        is_killed(request)
    page_job(name, request, send)


def numbered(name: str, request: str, send: Any) -> None:
    """Lessons and bounds are numbered in the order in which the process runs them; `reach` hangs."""
    if name == "reach":
        send("process", os.getpid())
        hangs(request)
    send("round", next(NUMBERS))
    send("end" if name == "bound" else "later", {})


NUMBERS = itertools.count(1)


def two_rounds(name: str, request: str, send: Any) -> None:
    """The jobs of the page, except that a third round never comes."""
    from tutelage.playground.jobs import run_job as page_job

    def send_two(event: str, data: Any) -> None:
        send(event, data)
        if event == "round" and data["number"] == 2:
            hangs(request)

    page_job(name, request, send_two)
