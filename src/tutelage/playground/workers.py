"""Worker processes: each runs one job at a time, so that a job can neither block the page nor crash the server.

Jobs and events cross a socket pair as lines of text, never as pickled objects. A process is killed and replaced when it
exceeds the time limit, when its job fails, or when the client of its job disconnects.
"""

import asyncio
import itertools
import json
import logging
import multiprocessing
import os
import signal
import socket
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, closing, suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple

from tutelage.outcomes import TutelageError

CRASHED, CLOSED = "the process that computed this has crashed; the others go on", "the playground has ended"
# Of an error that is not the user's: what it is called is in the log.
FAILED = "this should not have happened: it is a mistake in Tutelage, and the terminal of the server says where"
# In place of the name of an event: the job has ended, with a sentence and the status code of a refusal.
END = "."
as_json = partial(json.dumps, allow_nan=False, default=lambda array: array.tolist())
LONGEST_LINE = 2**30

# A function of a module: of a job's name, a JSON text and a function that sends events.
RunJob = Callable[[str, str, Callable[[str, Any], None]], None]
# A process, and the server's end of its socket pair.
Worker = tuple[BaseProcess, asyncio.StreamReader, asyncio.StreamWriter]


class JobFailed(TutelageError):
    """A job without an answer. status: the HTTP status code of the reason."""

    def __init__(self, sentence: str, status: int = 500) -> None:
        super().__init__(sentence)
        self.status = status


class Event(NamedTuple):
    """A message of a job: a name, and a JSON text on one line."""

    name: str
    data: str


@dataclass(eq=False, slots=True)
class _Job:
    """A job. request: None when the answer is no longer wanted. arrived: its events, then None or why it failed."""

    name: str
    request: str | None
    arrived: asyncio.Queue[Event | JobFailed | None] = field(default_factory=asyncio.Queue)
    process: BaseProcess | None = None


class WorkerPool:
    """A fixed number of processes, and the jobs that wait for one; a job has time_limit seconds once it has started."""

    def __init__(self, run_job: RunJob, *, count: int, time_limit: float) -> None:
        self.run_job, self.count, self.time_limit = run_job, count, time_limit
        # Of each job: whether it is not urgent, and the number of its arrival. The least is the next to run.
        self._waiting: asyncio.PriorityQueue[tuple[bool, int, _Job]] = asyncio.PriorityQueue()
        self._workers: list[asyncio.Task[None]] = []
        self._arrivals, self._is_open = itertools.count(), False

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        self._is_open = True
        self._workers = [asyncio.create_task(self._work()) for _ in range(self.count)]
        try:
            yield
        finally:
            self.stop()
            await asyncio.wait(self._workers)

    def stop(self) -> None:
        """Kill all processes. Every job that runs or waits raises `JobFailed`."""
        self._is_open = False
        for worker in self._workers:
            worker.cancel()
        while not self._waiting.empty():
            self._waiting.get_nowait()[-1].arrived.put_nowait(JobFailed(CLOSED))

    async def events(self, name: str, request: str, *, is_urgent: bool = True) -> AsyncGenerator[Event, None]:
        """Run a job and yield its events; an urgent job overtakes others. Closing this stops the job."""
        if not self._is_open:
            raise JobFailed(CLOSED)
        job = _Job(name, request)
        self._waiting.put_nowait((not is_urgent, next(self._arrivals), job))
        try:
            # Events wait in memory for a slow receiver; the worker does not.
            while isinstance(event := await job.arrived.get(), Event):
                yield event
            if event is not None:
                raise event
        finally:
            job.request = None
            if job.process is not None:
                job.process.kill()
                job.process.join()

    async def answer(self, name: str, request: str) -> str:
        async with aclosing(self.events(name, request)) as events:
            (answer,) = [event.data async for event in events]
        return answer

    async def _work(self) -> None:
        """Run one job after the other, in a process that is replaced when it may be broken."""
        while True:
            try:
                async with _started(self.run_job) as worker:
                    while await self._run(worker, (await self._waiting.get())[-1]):
                        pass
            # As of a system that has no memory or no files left at the moment.
            except (OSError, EOFError):
                logging.getLogger(__name__).exception("a worker process could not be started")
                await asyncio.sleep(1)

    async def _run(self, worker: Worker, job: _Job) -> bool:
        """Run a job, and pass on its events and how it ended. Whether the process can be kept."""
        if job.request is None:
            return True
        job.process, reader, writer = worker
        ended: JobFailed | None = None
        try:
            async with asyncio.timeout(self.time_limit):
                writer.write(f"{json.dumps([job.name, job.request])}\n".encode())
                while True:
                    line = await reader.readuntil()
                    name, data = line.decode().rstrip().split(" ", 1)
                    if name == END:
                        sentence, status = json.loads(data)
                        ended = JobFailed(sentence, status) if sentence else None
                        # If the answer is not wanted any more, the process was killed while this line was on its way.
                        return status != 500 and job.request is not None
                    job.arrived.put_nowait(Event(name, data))
        except TimeoutError:
            sentence = f"this took longer than {self.time_limit:g} s and was stopped; try a smaller world"
            ended = JobFailed(sentence, 422)
        except (OSError, EOFError):
            ended = JobFailed(CRASHED)
        finally:
            job.process = None
            job.arrived.put_nowait(ended if self._is_open else JobFailed(CLOSED))
        return False


@asynccontextmanager
async def _started(run_job: RunJob) -> AsyncIterator[Worker]:
    ours, theirs = socket.socketpair()
    with theirs:
        process = _context(run_job).Process(target=_serve, args=(theirs, run_job), daemon=True)
        process.start()
    try:
        reader, writer = await asyncio.open_connection(sock=ours, limit=LONGEST_LINE)
        with closing(writer):
            # Its first line says that it is ready: the time of a job is not spent on the start of a process.
            await reader.readline()
            yield process, reader, writer
    finally:
        process.kill()
        process.join()


def _context(run_job: RunJob) -> Any:
    """Where the system can fork: fork from a process that has only imported the job's module. Elsewhere: spawn."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    from multiprocessing import forkserver, resource_tracker

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([run_job.__module__])
    # A terminal sends Ctrl-C to all processes. The fork server and its children inherit that it is blocked.
    resource_tracker.ensure_running()  # this ends a block
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return context


def _serve(connection: socket.socket, run_job: RunJob) -> None:
    """The main function of a worker process: run one job after the other."""
    from threadpoolctl import threadpool_limits

    def send(name: str, data: Any) -> None:
        connection.sendall(f"{name} {as_json(data)}\n".encode())

    # A spawned process does not inherit that Ctrl-C is blocked.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_server, daemon=True).start()
    with suppress(OSError), threadpool_limits(1), connection.makefile() as lines:
        send(END, ("ready", 200))
        for line in lines:
            name, request = json.loads(line)
            try:
                run_job(name, request, send)
                send(END, ("", 200))
            except TutelageError as error:
                send(END, (str(error), 422))
            except Exception:
                logging.getLogger(__name__).exception("the job %r failed", name)
                send(END, (FAILED, 500))


def _end_with_server() -> None:
    """End this process when the server has ended, even during a job."""
    if (server := multiprocessing.parent_process()) is not None:
        server.join()
    os._exit(0)
