"""Worker processes: each runs one job at a time, so that a job can neither block the page nor crash the server.

Jobs and events cross a socket pair as lines of text, never as pickled objects. A process is killed and replaced when it
exceeds the time limit, when its job fails, or when the client of its job disconnects; its temporary files are deleted.
"""

import asyncio
import itertools
import json
import logging
import multiprocessing
import os
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from queue import SimpleQueue
from typing import Any, NamedTuple

from tutelage.outcomes import TutelageError

# Of an error that is not the user's: what it is called is in the log.
FAILED = "this should not have happened: it is a mistake in Tutelage, and the terminal of the server says where"

RunJob = Callable[[str, str, Callable[[str, Any], None]], None]


class JobRefused(TutelageError):
    """The job raised a `TutelageError` with this message."""


class TooSlow(TutelageError):
    """The job exceeded the time limit and was stopped."""


class Crashed(TutelageError):
    """The process ended, or the job raised an unexpected error."""


class TooBusy(TutelageError):
    """The maximum number of jobs is waiting already."""


class Event(NamedTuple):
    """A message of a job: a name, and a JSON text on one line."""

    name: str
    data: str


class WorkerPool:
    """A fixed number of processes, and the jobs that wait for one.

    run_job: a function of a module; its arguments are a job's name, a JSON text and a function that sends events.
    time_limit: seconds for one job once it has started. most_waiting: the maximum number of jobs that wait.
    """

    def __init__(self, run_job: RunJob, *, count: int, time_limit: float, most_waiting: int = 100) -> None:
        self.run_job, self.count, self.time_limit, self.most_waiting = run_job, count, time_limit, most_waiting
        self._workers: set[_Worker] = set()
        self._idle: list[_Worker] = []
        # Of each job: whether it is not urgent, and the number of its arrival. The least is the next to run.
        self._waiting: list[tuple[bool, int]] = []
        self._arrivals, self._changed, self._is_open = itertools.count(), asyncio.Event(), False

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Start the processes; stop them at the end of the block."""
        self._is_open = True
        self._idle = [self._started() for _ in range(self.count)]
        try:
            yield
        finally:
            self.stop()

    def stop(self) -> None:
        """Kill all processes. Every job that runs or waits raises `Crashed`."""
        self._is_open = False
        for worker in self._workers:
            worker.kill()
        for worker in self._idle:
            worker.socket.close()
        self._idle = []
        self._tell()

    def _tell(self) -> None:
        """Let all waiting jobs look whether it is their turn."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def events(self, name: str, request: str, *, is_urgent: bool = True) -> AsyncGenerator[Event, None]:
        """Run a job and yield its events as they arrive; an urgent job overtakes others. Closing this stops the job.

        Events wait in memory for a slow receiver. The worker does not: it is released when its job ends.
        """
        worker = await self._acquire(is_urgent)
        arrived: asyncio.Queue[Event | None] = asyncio.Queue()
        job = asyncio.create_task(self._run(worker, name, request, arrived))
        try:
            while event := await arrived.get():
                yield event
            await job
        finally:
            job.cancel()
            await asyncio.wait((job,))

    async def _run(self, worker: "_Worker", name: str, request: str, arrived: "asyncio.Queue[Event | None]") -> None:
        """Run a job and put its events into the queue, then None; raises how the job ended."""
        loop, deadline, is_reusable = asyncio.get_running_loop(), None, False
        try:
            await loop.sock_sendall(worker.socket, f"{json.dumps([name, request])}\n".encode())
            while True:
                async with asyncio.timeout_at(deadline):
                    kind, _, rest = (await worker.receive()).partition(" ")
                is_reusable = kind in ("done", "refused")
                if kind == "started":
                    deadline = loop.time() + self.time_limit
                elif kind == "done":
                    return
                elif kind == "event":
                    arrived.put_nowait(Event(*rest.split(" ", 1)))
                else:
                    raise (JobRefused if kind == "refused" else Crashed)(json.loads(rest))
        except TimeoutError as error:
            message = f"this took longer than {self.time_limit:g} s and was stopped; try a smaller world"
            raise TooSlow(message) from error
        except (EOFError, OSError) as error:
            raise self._crashed() from error
        finally:
            if not self._is_open:
                worker.socket.close()
            else:
                self._idle.append(worker if is_reusable else self._replacement(worker))
            self._tell()
            arrived.put_nowait(None)

    async def answer(self, name: str, request: str) -> str:
        """Run a job that sends one event; return the data of that event."""
        async with aclosing(self.events(name, request)) as events:
            (answer,) = [event.data async for event in events]
        return answer

    def _crashed(self) -> Crashed:
        sentence = "the process that computed this has crashed; the others go on"
        return Crashed(sentence if self._is_open else "the playground has ended")

    async def _acquire(self, is_urgent: bool) -> "_Worker":
        """An idle worker, at once or after the jobs that come first."""
        if not self._idle and len(self._waiting) >= self.most_waiting:
            raise TooBusy(f"{len(self._waiting)} requests are waiting already; try again in a moment")
        place = (not is_urgent, next(self._arrivals))
        self._waiting.append(place)
        try:
            while self._is_open and not (self._idle and min(self._waiting) == place):
                await self._changed.wait()
        finally:
            self._waiting.remove(place)
            self._tell()
        if not self._is_open:
            raise self._crashed()
        worker = self._idle.pop()
        return worker if worker.process.is_alive() else self._replacement(worker)

    def _replacement(self, worker: "_Worker") -> "_Worker":
        worker.kill()
        worker.socket.close()
        self._workers.discard(worker)
        return self._started()

    def _started(self) -> "_Worker":
        ours, theirs = socket.socketpair()
        folder = tempfile.mkdtemp(prefix="tutelage-")
        with theirs:
            process: BaseProcess = _context(self.run_job).Process(
                target=_serve, args=(theirs, self.run_job, folder), daemon=True
            )
            process.start()
        ours.setblocking(False)
        worker = _Worker(process, ours, folder)
        self._workers.add(worker)
        return worker


@dataclass(eq=False, slots=True)
class _Worker:
    """A process, the server's end of its socket pair, and the folder of its temporary files."""

    process: BaseProcess
    socket: socket.socket
    folder: str
    unread: bytes = b""

    async def receive(self) -> str:
        """The next line; `EOFError` if the process has ended."""
        while b"\n" not in self.unread:
            chunk = await asyncio.get_running_loop().sock_recv(self.socket, 2**18)
            if not chunk:
                raise EOFError
            self.unread += chunk
        line, _, self.unread = self.unread.partition(b"\n")
        return line.decode()

    def kill(self) -> None:
        """Kill the process and delete its files. Its socket stays open: a coroutine may be waiting for it."""
        self.process.kill()
        self.process.join()
        shutil.rmtree(self.folder, ignore_errors=True)


def _context(run_job: RunJob) -> Any:
    """Where the system can fork: fork from a process that has only imported the job's module. Elsewhere: spawn."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    from multiprocessing import forkserver

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([run_job.__module__])
    # A terminal sends Ctrl-C to all processes. The fork server and its children inherit that they ignore it.
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN) if is_main else None
    try:
        forkserver.ensure_running()
    finally:
        if is_main:
            signal.signal(signal.SIGINT, before)
    return context


def _serve(connection: socket.socket, run_job: RunJob, folder: str) -> None:
    """The main function of a worker process: run one job after the other. folder: for its temporary files."""
    from threadpoolctl import threadpool_limits

    def write(*words: str) -> None:
        connection.sendall(f"{' '.join(words)}\n".encode())

    def send(event: str, data: Any) -> None:
        write("event", event, json.dumps(data, allow_nan=False))

    # A spawned process does not inherit this.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The server deletes what a killed process could not.
    tempfile.tempdir = folder
    jobs: SimpleQueue[list[str]] = SimpleQueue()
    threading.Thread(target=_read, args=(connection, jobs, folder), daemon=True).start()
    with threadpool_limits(1):
        while True:
            name, request = jobs.get()
            try:
                write("started")
                run_job(name, request, send)
                write("done")
            except TutelageError as error:
                write("refused", json.dumps(str(error)))
            except Exception:
                logging.getLogger(__name__).exception("the job %r failed", name)
                write("failed", json.dumps(FAILED))


def _read(connection: socket.socket, jobs: "SimpleQueue[list[str]]", folder: str) -> None:
    """Queue the jobs that the server sends. When the server has ended, end this process, even during a job."""
    with suppress(OSError), connection.makefile() as lines:
        for line in lines:
            jobs.put(json.loads(line))
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)
