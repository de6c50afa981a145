"""Processes that compute, each one job at a time, so that no job can hold up the page or take it down.

A job and its events cross the pipe as text, never as pickled objects. A process that is too slow, that crashes, or
whose listener has gone is killed, and another takes its place.
"""

import asyncio
import heapq
import json
import logging
import multiprocessing
import signal
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count as count_from
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from typing import Any

from tutelage.outcomes import TutelageError

Perform = Callable[[str, str, Callable[[str, Any], None]], None]

# How often a thread that waits for a worker looks up.
LOOK_SECONDS = 0.2


class JobRefused(TutelageError):
    """The job itself says why it cannot be done."""


class TooSlow(TutelageError):
    """The job was stopped when its time was up."""


class Crashed(TutelageError):
    """The process ended, or failed in a way that nobody foresaw."""


class TooBusy(TutelageError):
    """There are so many jobs already that another would wait for long."""


@dataclass(frozen=True, slots=True)
class Event:
    """What a job sends: a name, and a JSON text on one line."""

    name: str
    data: str


class Workers:
    """A fixed number of processes, and jobs that wait for one.

    perform: does a job by its name and a JSON text, sending events; a function of a module, not of a script.
    time_limit: seconds for one job, not counting how long it waits. most_waiting: jobs beyond which none is taken.
    """

    def __init__(self, perform: Perform, *, count: int, time_limit: float, most_waiting: int = 100) -> None:
        self.perform, self.count, self.time_limit, self.most_waiting = perform, count, time_limit, most_waiting
        self._idle: list[_Worker] = []
        # Jobs that wait, those that are urgent first, each kind in the order in which they came.
        self._waiting: list[tuple[bool, int, asyncio.Future[_Worker]]] = []
        self._numbers = count_from()
        self._threads = ThreadPoolExecutor(max_workers=2 * count, thread_name_prefix="tutelage-wait")
        self._all: set[_Worker] = set()
        self._is_open = False

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Workers"]:
        """The processes live for as long as this is open."""
        context = _context(self.perform)
        self._is_open = True
        for _ in range(self.count):
            self._add(context)
        try:
            yield self
        finally:
            self.stop()
            self._threads.shutdown()

    def stop(self) -> None:
        """End all processes, and with them every job: those that run and those that wait are told so."""
        self._is_open = False
        for worker in self._all:
            worker.end()

    async def events(self, name: str, request: str, *, is_urgent: bool = True) -> AsyncGenerator[Event, None]:
        """Do a job, and give each event as it comes. Whoever stops listening stops the job.

        is_urgent: it goes before those that wait and are not.
        """
        worker = await self._acquire(is_urgent)
        is_done = False
        try:
            async with aclosing(self._conversation(worker, name, request)) as conversation:
                async for event in conversation:
                    yield event
            is_done = True
        except JobRefused:
            is_done = True
            raise
        finally:
            self._release(worker, is_done=is_done)

    async def answer(self, name: str, request: str) -> str:
        """The data of the only event of a job."""
        async with aclosing(self.events(name, request)) as events:
            found = [event async for event in events]
        return found[0].data

    async def _conversation(self, worker: "_Worker", name: str, request: str) -> AsyncGenerator[Event, None]:
        deadline = time.monotonic() + self.time_limit
        await self._wait(worker.send, json.dumps([name, request]))
        while True:
            frame = await self._wait(worker.receive, deadline)
            if frame is None:
                raise TooSlow(f"this took longer than {self.time_limit:g} s and was stopped; try a smaller world")
            kind, _, rest = frame.partition("\n")
            if kind == "done":
                return
            if kind == "refused":
                raise JobRefused(rest)
            if kind == "failed":
                raise Crashed(rest)
            event, _, data = rest.partition("\n")
            yield Event(event, data)

    async def _wait(self, call: Callable[..., Any], *given: Any) -> Any:
        """A call that blocks, in a thread of our own: nobody else's work can keep it from one."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, call, *given)
        except (EOFError, OSError) as error:
            sentence = "the process that computed this has crashed; the others go on"
            raise Crashed(sentence if self._is_open else "the playground has ended") from error

    async def _acquire(self, is_urgent: bool) -> "_Worker":
        while self._idle:
            worker = self._idle.pop()
            if worker.process.is_alive() or not self._is_open:
                return worker
            # It died of something else than a job.
            self._replace(worker)
        if len(self._waiting) >= self.most_waiting:
            raise TooBusy(f"{len(self._waiting)} requests are waiting already; try again in a moment")
        given: asyncio.Future[_Worker] = asyncio.get_running_loop().create_future()
        place = (not is_urgent, next(self._numbers), given)
        heapq.heappush(self._waiting, place)
        try:
            return await given
        except asyncio.CancelledError:
            if place in self._waiting:
                self._waiting.remove(place)
                heapq.heapify(self._waiting)
            elif not given.cancelled():
                # It was given a worker at the very moment it left.
                self._hand_on(given.result())
            raise

    def _release(self, worker: "_Worker", *, is_done: bool) -> None:
        # Where all have been ended, the next in line is told so by a worker that was.
        if not self._is_open or (is_done and worker.process.is_alive()):
            self._hand_on(worker)
        else:
            self._replace(worker)

    def _replace(self, worker: "_Worker") -> None:
        worker.end()
        self._all.discard(worker)
        self._add(_context(self.perform))

    def _hand_on(self, worker: "_Worker") -> None:
        """To the first in line, or to whoever comes."""
        while self._waiting:
            *_, place = heapq.heappop(self._waiting)
            if not place.done():
                place.set_result(worker)
                return
        self._idle.append(worker)

    def _add(self, context: BaseContext) -> None:
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, self.perform), daemon=True)  # type: ignore[attr-defined]
        process.start()
        theirs.close()
        worker = _Worker(process, ours)
        self._all.add(worker)
        self._hand_on(worker)


@dataclass(eq=False, slots=True)
class _Worker:
    """A process and our end of its pipe."""

    process: BaseProcess
    connection: "Connection[bytes, bytes]"
    is_ended: bool = field(default=False)

    def send(self, text: str) -> None:
        self.connection.send_bytes(text.encode())

    def receive(self, deadline: float) -> str | None:
        """The next frame; nothing where time is up."""
        while not self.is_ended:
            left = deadline - time.monotonic()
            if self.connection.poll(max(0.0, min(left, LOOK_SECONDS))):
                return self.connection.recv_bytes().decode()
            if left <= 0:
                return None
        raise EOFError

    def end(self) -> None:
        """Kill the process. Its pipe stays open for a thread that may still look at it, and sees the end there."""
        self.is_ended = True
        self.process.kill()
        self.process.join()


def _context(perform: Perform) -> BaseContext:
    """Processes forked from one that has loaded the job's module and nothing else, where the system can do that."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([perform.__module__])
    from multiprocessing import forkserver

    with _uninterrupted():
        forkserver.ensure_running()
    return context


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """A process started in here ignores Ctrl-C from its birth, and so do those forked from it.

    A terminal sends Ctrl-C to all of them; it is the server that hears it, and ends them.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _serve(connection: "Connection[bytes, bytes]", perform: Perform) -> None:
    """A worker's life: one job after the other, until the other end of the pipe is gone."""
    from threadpoolctl import threadpool_limits

    def frame(*lines: str) -> None:
        connection.send_bytes("\n".join(lines).encode())

    def send(event: str, data: Any) -> None:
        frame("event", event, json.dumps(data, allow_nan=False))

    # Where it was not ignored from birth.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with threadpool_limits(1), suppress(EOFError, OSError):
        while True:
            name, request = json.loads(connection.recv_bytes())
            try:
                perform(name, request, send)
                frame("done")
            except TutelageError as error:
                frame("refused", str(error))
            except Exception as error:
                logging.getLogger(__name__).exception("the job %r failed", name)
                frame("failed", f"this should not have happened: {type(error).__name__}: {error}")
