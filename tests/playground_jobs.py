"""Jobs for worker processes that end in every way a job can; light, since each process loads this module."""

import itertools
import json
import os
import signal
from typing import Any

from tutelage.outcomes import InvalidModel


def run_job(name: str, request: str, send: Any) -> None:
    """Do the job of a name; those that fail or never end say first which process they are in."""
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
    """As a process does whose memory runs out in C."""
    os._exit(3)


def is_killed(request: str) -> None:
    """As the system does with a process that takes too much."""
    os.kill(os.getpid(), signal.SIGKILL)


def hangs(request: str) -> None:
    """For ever, and never listening."""
    for _ in itertools.count():
        pass


def fails(request: str) -> None:
    """As only a mistake of ours can."""
    raise ZeroDivisionError("a mistake")


def refuses(request: str) -> None:
    """As one does that cannot be done."""
    raise InvalidModel("there is no such world")


ENDINGS = {"exit": exits, "kill": is_killed, "hang": hangs, "fail": fails, "refuse": refuses}


def stubborn(name: str, request: str, send: Any) -> None:
    """In place of the page's jobs: rounds that never end, a set that is never found, an answer, and a crash."""
    if name == "teach":
        send("round", {"process": os.getpid()})
    if name == "answer":
        send("answer", {"process": os.getpid()})
        return
    ENDINGS["kill" if name == "adapt" else "fail" if name == "transcript" else "hang"](request)


def without_bounds(name: str, request: str, send: Any) -> None:
    """The page's own jobs, except that the search for a bound never ends."""
    from tutelage.playground.jobs import run_job as page_job

    if name == "bound":
        hangs(request)
    page_job(name, request, send)


def numbered(name: str, request: str, send: Any) -> None:
    """Lessons and bounds that say in which order the process runs them; `reach` hangs."""
    if name == "reach":
        send("process", os.getpid())
        hangs(request)
    send("round", next(NUMBERS))
    send("end" if name == "bound" else "later", {})


NUMBERS = itertools.count(1)


def two_rounds(name: str, request: str, send: Any) -> None:
    """The page's own jobs, except that a third round never comes."""
    from tutelage.playground.jobs import run_job as page_job

    def send_two(event: str, data: Any) -> None:
        send(event, data)
        if event == "round" and data["number"] == 2:
            hangs(request)

    page_job(name, request, send_two)
