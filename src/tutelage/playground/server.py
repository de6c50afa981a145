"""The playground's server: sends the page, checks requests, and passes jobs to the worker processes.

It keeps no state between requests, and no request names a file. Every refusal is a status code and a sentence.
"""

import asyncio
import base64
import json
import os
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from importlib import resources
from ipaddress import ip_address
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import urlsplit

from fastapi import FastAPI, Path, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import tutelage
from tutelage.environments.object_world import object_world
from tutelage.outcomes import InvalidInput
from tutelage.playground import jobs, schema
from tutelage.playground.workers import Crashed, Event, JobRefused, RunJob, TooBusy, TooSlow, WorkerPool

# The largest request of the page has a world of 900 cells and 60 walks of 1000 cells each.
LARGEST_BODY = 512 * 1024
# The largest request with a file that a user brings.
LARGEST_UPLOAD = schema.LONGEST_TEXT + LARGEST_BODY
# The first seconds of a search for a bound are spent waiting: a client that moves a slider has gone by then.
SETTLING = 0.8
MEDIA_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}

# The status code of each error; its message is the sentence.
REFUSALS: dict[type[Exception], int] = {InvalidInput: 422, JobRefused: 422, TooSlow: 422, TooBusy: 503, Crashed: 500}

# The responses in the OpenAPI schema, by status code.
REASONS = {400: "Not JSON", 413: "Too large", 422: "Refused, with the reason", 503: "Too many requests are waiting"}
Responses = dict[int | str, dict[str, Any]]
REFUSED: Responses = {code: {"model": schema.Refusal, "description": reason} for code, reason in REASONS.items()}
STREAM: Responses = {200: {"description": "Events: the rounds, then the end", "content": {"text/event-stream": {}}}}
BYTES: Responses = {200: {"description": "An .npz file", "content": {"application/octet-stream": {}}}}

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Settings:
    """host: the address to listen at, and a name that is answered (`is_known`). time_limit: seconds for one job.

    client_seconds: a client that neither sends a whole request nor reads its answer for this long is disconnected.
    opened: the name and the content of a file that the page opens first.
    """

    host: str = "127.0.0.1"
    time_limit: float = 60.0
    client_seconds: int = 20
    n_workers: int = max(2, os.cpu_count() or 1)
    run_job: RunJob = jobs.run_job
    opened: tuple[str, bytes] | None = None


def make_app(settings: Settings) -> FastAPI:
    """The application. Its worker processes start and end with it."""
    workers = WorkerPool(settings.run_job, count=settings.n_workers, time_limit=settings.time_limit)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with workers.running():
            yield

    # FastAPI's own documentation pages load scripts from another host.
    urls: dict[str, Any] = {"docs_url": None, "redoc_url": None, "openapi_url": "/api/openapi.json"}
    app = FastAPI(title="Tutelage playground", version=tutelage.__version__, lifespan=lifespan, **urls)
    app.state.workers = workers
    _add_refusals(app)
    _add_page(app)
    _add_worlds(app)
    _add_opened(app, settings)
    _add_jobs(app, workers)
    app.add_middleware(_Bounded, host=settings.host)
    return app


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the host, in any notation."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def is_known(header: str, host: str) -> bool:
    """Whether a request with this Host header is answered by a server that listens at `host`.

    DNS rebinding: a foreign page whose host name resolves to this machine must not read from it. Such a page has a
    name. Beyond loopback, every numeric address is therefore answered, but only two names: `host` and this machine's.
    """
    try:
        name = urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return False
    if name in ("localhost", "127.0.0.1", "::1", host.lower()):
        return True
    if is_loopback(host):
        return False
    try:
        return bool(ip_address(name))
    except ValueError:
        return name == socket.gethostname().lower()


def _add_page(app: FastAPI) -> None:
    """One route per file of the page. The files are read once; no request names a path."""

    def sender(content: bytes, media_type: str) -> Callable[[], Response]:
        return lambda: Response(content, media_type=media_type)

    for file in resources.files("tutelage.playground").joinpath("page").iterdir():
        route = "/" if file.name == "index.html" else f"/{file.name}"
        media_type = MEDIA_TYPES[file.name.rpartition(".")[2]]
        app.get(route, include_in_schema=False)(sender(file.read_bytes(), media_type))


def _add_worlds(app: FastAPI) -> None:
    @app.get("/api/players")
    async def players() -> dict[str, Any]:
        """The teachers, the learner models and the preferences that a request can name."""
        return schema.known_players()

    @app.get("/api/world/{generator}/{seed}/{size}", responses=REFUSED)
    async def generated_world(
        generator: Literal["published", "text"],
        seed: Annotated[int, Path(ge=0, lt=2**32)],
        size: Annotated[int, Path(ge=schema.SMALLEST_SIZE, le=schema.LARGEST_SIZE)],
    ) -> dict[str, Any]:
        """A generated world of the paper, by its seed."""
        return _data(object_world(size, seed, generator).to_json())

    @app.post("/api/world", responses=REFUSED)
    async def checked_world(asked: schema.World) -> dict[str, Any]:
        """The same world, if it is valid."""
        return _data(asked.make().to_json())


def _add_opened(app: FastAPI, settings: Settings) -> None:
    name, content = settings.opened or (None, b"")
    found = {"name": name, "file": base64.b64encode(content).decode()}

    @app.get("/api/opened")
    async def opened() -> dict[str, Any]:
        """The file that the server was started with, in base 64; a name of null if there is none."""
        return found


def _add_jobs(app: FastAPI, workers: WorkerPool) -> None:
    async def computed(job: str, asked: schema.Asked, request: Request) -> dict[str, Any]:
        return _data(await _unless_closed(request, workers.answer(job, asked.model_dump_json())))

    @app.post("/api/teach", responses=REFUSED | STREAM)
    async def teach(asked: schema.Teaching, request: Request) -> Response:
        """The rounds as server-sent events, as they come. Closing the connection stops the job."""
        return await streamed("teach", asked, request)

    @app.post("/api/domain/teach", responses=REFUSED | STREAM)
    async def domain_teach(asked: schema.DomainTeaching, request: Request) -> Response:
        """The same in a domain from a file."""
        return await streamed("domain_teach", asked, request)

    async def streamed(job: str, asked: schema.Teaching | schema.DomainTeaching, request: Request) -> Response:
        events = teaching_events(workers, asked, job)
        # Before the first event, a refusal can still have its own status code.
        first = await _unless_closed(request, anext(events))
        return StreamingResponse(_stream(first, events), media_type="text/event-stream")

    @app.post("/api/transcript", responses=REFUSED | BYTES)
    async def transcript(asked: schema.Teaching, request: Request) -> Response:
        """The rounds as a file that `tutelage.load_transcript` reads."""
        return _file(await computed("transcript", asked, request))

    @app.post("/api/domain/transcript", responses=REFUSED | BYTES)
    async def domain_transcript(asked: schema.DomainTeaching, request: Request) -> Response:
        """The same in a domain from a file."""
        return _file(await computed("domain_transcript", asked, request))

    _add_answers(app, computed)


def _add_answers(app: FastAPI, computed: Callable[[str, schema.Asked, Request], Awaitable[dict[str, Any]]]) -> None:
    """The operations with one answer each."""

    @app.post("/api/domain/transcript/read", responses=REFUSED)
    async def read(asked: schema.TranscriptReading, request: Request) -> dict[str, Any]:
        """The rounds of a transcript from a file."""
        return await computed("read", asked, request)

    @app.post("/api/domain", responses=REFUSED)
    async def domain(asked: schema.Opening, request: Request) -> dict[str, Any]:
        """The sizes and names of a domain from a file."""
        return await computed("open", asked, request)

    @app.post("/api/domain/reach", responses=REFUSED)
    async def domain_reach(asked: schema.DomainReaching, request: Request) -> dict[str, Any]:
        """The reachable reward expectations in a domain from a file, projected onto each pair of features."""
        return await computed("domain_reach", asked, request)

    @app.post("/api/answer", responses=REFUSED)
    async def answer(asked: schema.Demonstrating, request: Request) -> dict[str, Any]:
        """The learner's response to paths that a person drew."""
        return await computed("answer", asked, request)

    @app.post("/api/adapt", responses=REFUSED)
    async def adapt(asked: schema.Walking, request: Request) -> dict[str, Any]:
        """The next lesson for a person who responded to the earlier ones with walks."""
        return await computed("adapt", asked, request)

    @app.post("/api/infer", responses=REFUSED)
    async def infer(asked: schema.Walking, request: Request) -> dict[str, Any]:
        """What the walks of a person say about their preferences, by `infer_learner`."""
        return await computed("infer", asked, request)

    @app.post("/api/reach", responses=REFUSED)
    async def reach(asked: schema.Reaching, request: Request) -> dict[str, Any]:
        """The reachable reward expectations, projected onto each pair of object types."""
        return await computed("reach", asked, request)


async def teaching_events(
    workers: WorkerPool, asked: schema.Teaching | schema.DomainTeaching, job: str = "teach"
) -> AsyncGenerator[Event, None]:
    """The events of a teacher. A continuation of the job runs only when no other job waits: lessons before bounds.

    A continuation that is stopped takes nothing from the lesson: the event `unbounded` says why its bound is not tight.
    """
    later = None
    async with aclosing(workers.events(job, asked.model_dump_json())) as events:
        async for event in events:
            if event.name == "later":
                later = event.data
            else:
                yield event
    if later is None:
        return
    await asyncio.sleep(SETTLING)
    try:
        async with aclosing(workers.events("bound", later, is_urgent=False)) as events:
            async for event in events:
                yield event
    except (TooSlow, TooBusy, Crashed) as error:
        yield Event("unbounded", json.dumps({"detail": str(error)}))
        yield Event("end", json.dumps(json.loads(later)["ending"]))


async def _unless_closed(request: Request, work: Coroutine[Any, Any, Found]) -> Found:
    """The result of the work, which is cancelled if the client closes the connection first."""

    async def closed() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    job, closing = asyncio.create_task(work), asyncio.create_task(closed())
    try:
        await asyncio.wait((job, closing), return_when=asyncio.FIRST_COMPLETED)
        if not job.done():
            raise HTTPException(499, "the client closed the connection")  # a non-standard status
        return job.result()
    finally:
        job.cancel()
        closing.cancel()


def _file(found: dict[str, Any]) -> Response:
    return Response(base64.b64decode(found["base64"]), media_type="application/octet-stream")


def _data(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    return found


async def _stream(first: Event, events: AsyncGenerator[Event, None]) -> AsyncIterator[str]:
    """The events as text; an error after the first event is an event too."""
    form = "event: {}\ndata: {}\n\n"
    try:
        async with aclosing(events):
            yield form.format(*first)
            async for event in events:
                yield form.format(*event)
    except tuple(REFUSALS) as error:
        yield form.format("refused", json.dumps({"detail": str(error)}))


def _add_refusals(app: FastAPI) -> None:
    """Every refusal is a status code and a sentence. The sentence does not repeat the request."""

    async def malformed(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        if first["type"] == "json_invalid":
            return _refusal(400, f"the request is not JSON, from character {first['loc'][-1]} on")
        return _refusal(422, schema.sentence(error.errors()))

    async def known(request: Request, error: HTTPException) -> JSONResponse:
        return _refusal(error.status_code, str(error.detail))

    async def refused(request: Request, error: Exception) -> JSONResponse:
        return _refusal(next(code for kind, code in REFUSALS.items() if isinstance(error, kind)), str(error))

    app.add_exception_handler(RequestValidationError, malformed)  # type: ignore[arg-type]
    app.add_exception_handler(HTTPException, known)  # type: ignore[arg-type]
    for kind in REFUSALS:
        app.add_exception_handler(kind, refused)


def _refusal(status: int, sentence: str) -> JSONResponse:
    return JSONResponse({"detail": sentence}, status)


class _Bounded:
    """Middleware: refuses other hosts and bodies that are too large, and adds the headers to every response."""

    def __init__(self, app: ASGIApp, host: str) -> None:
        self.app, self.host = app, host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = ((name.lower().encode(), value.encode()) for name, value in HEADERS.items())
                message["headers"] = [*message["headers"], *added]
            await send(message)

        if not is_known(dict(scope["headers"]).get(b"host", b"").decode("latin-1"), self.host):
            await _refusal(400, "this server does not answer to that host name")(scope, receive, with_headers)
            return
        most = LARGEST_UPLOAD if scope["path"].startswith("/api/domain") else LARGEST_BODY
        body, more = bytearray(), True
        while more and len(body) <= most:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        if len(body) > most:
            refusal = _refusal(413, f"the request is too large; the limit is {most // 1024} KiB")
            await refusal(scope, receive, with_headers)
            return
        whole: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

        async def replayed() -> Message:
            return whole.pop() if whole else await receive()

        await self.app(scope, replayed, with_headers)
