"""The playground's server: hands out the page, checks what is asked, and passes jobs to the workers.

It holds no state, reads nothing that a request names, and answers what it cannot do with a sentence.
"""

import asyncio
import base64
import json
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from importlib import resources
from ipaddress import ip_address
from typing import Annotated, Any, Literal, TypeVar

from fastapi import FastAPI, Path, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import tutelage
from tutelage.environments.object_world import object_world
from tutelage.outcomes import InvalidModel
from tutelage.playground import jobs, schema
from tutelage.playground.workers import Crashed, Event, JobRefused, RunJob, TooBusy, TooSlow, WorkerPool

# A world of 900 cells and 60 walks of 1000 cells each fit; nothing that the page sends is larger.
LARGEST_BODY = 512 * 1024
MEDIA_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
# What is written to nobody, as other servers do.
NOBODY_LISTENS = 499
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}

# How each way of not getting an answer is told: the code that goes with the sentence.
REFUSALS: dict[type[Exception], int] = {InvalidModel: 422, JobRefused: 422, TooSlow: 422, TooBusy: 503, Crashed: 500}

REFUSED: dict[int | str, dict[str, Any]] = {
    400: {"model": schema.Refusal, "description": "Not JSON"},
    413: {"model": schema.Refusal, "description": "Too large"},
    422: {"model": schema.Refusal, "description": "Not possible, and why"},
    503: {"model": schema.Refusal, "description": "Too many requests are waiting"},
}
STREAM: dict[int | str, dict[str, Any]] = {
    200: {"description": "Events: rounds as they come, then the end", "content": {"text/event-stream": {}}}
}
BYTES: dict[int | str, dict[str, Any]] = {
    200: {"description": "An .npz file", "content": {"application/octet-stream": {}}}
}


Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Settings:
    """host: where it listens; beyond loopback any name is taken for its own. time_limit: seconds for one job."""

    host: str = "127.0.0.1"
    time_limit: float = 60.0
    n_workers: int = max(2, os.cpu_count() or 1)
    run_job: RunJob = jobs.run_job


def make_app(settings: Settings) -> FastAPI:
    """The server, with its workers alive for as long as it runs."""
    workers = WorkerPool(settings.run_job, count=settings.n_workers, time_limit=settings.time_limit)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with workers.running():
            yield

    app = FastAPI(
        title="Tutelage playground",
        version=tutelage.__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
    )
    app.state.workers = workers
    _add_refusals(app)
    _add_page(app)
    _add_answers(app, workers)
    if is_loopback(settings.host):
        # A page elsewhere whose name is made to point here must not get in.
        names = [*LOOPBACK, settings.host.lower()]
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=names, www_redirect=False)
    app.add_middleware(_Bounded)
    return app


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it, however that is spelt."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _add_page(app: FastAPI) -> None:
    """The page's files, read once: no request says which file to read."""
    files = {
        entry.name: (entry.read_bytes(), MEDIA_TYPES[entry.name.rpartition(".")[2]])
        for entry in resources.files("tutelage.playground").joinpath("page").iterdir()
    }

    def handing_out(name: str) -> Callable[[], Response]:
        content, media_type = files[name]
        return lambda: Response(content, media_type=media_type)

    for name in files:
        route = "/" if name == "index.html" else f"/{name}"
        app.get(route, include_in_schema=False)(handing_out(name))


def _add_answers(app: FastAPI, workers: WorkerPool) -> None:
    @app.get("/api/world/{generator}/{seed}/{size}", responses=REFUSED)
    async def generated_world(
        generator: Literal["published", "text"],
        seed: Annotated[int, Path(ge=0, lt=2**32)],
        size: Annotated[int, Path(ge=schema.SMALLEST_SIZE, le=schema.LARGEST_SIZE)],
    ) -> dict[str, Any]:
        """A world of the paper, by its seed."""
        return _plain(object_world(size, seed, generator).to_json())

    @app.post("/api/world", responses=REFUSED)
    async def checked_world(asked: schema.World) -> dict[str, Any]:
        """The same world, if it is one."""
        return _plain(asked.make().to_json())

    @app.post("/api/teach", responses=REFUSED | STREAM)
    async def teach(asked: schema.Teaching, request: Request) -> Response:
        """Rounds as they come, as server-sent events. Whoever hangs up stops them."""
        events = _rounds(workers, asked)
        # Until the first event a refusal can still have a status of its own.
        first = await _unless_left(request, anext(events))
        return StreamingResponse(_stream(first, events), media_type="text/event-stream")

    @app.post("/api/transcript", responses=REFUSED | BYTES)
    async def transcript(asked: schema.Teaching, request: Request) -> Response:
        """The rounds as a file that `tutelage.load_transcript` reads."""
        found = json.loads(await _unless_left(request, workers.answer("transcript", asked.model_dump_json())))
        return Response(base64.b64decode(found["base64"]), media_type="application/octet-stream")

    @app.post("/api/answer", responses=REFUSED)
    async def answer(asked: schema.Demonstrating, request: Request) -> dict[str, Any]:
        """What the learner makes of paths that a person drew."""
        return _plain(await _unless_left(request, workers.answer("answer", asked.model_dump_json())))

    @app.post("/api/adapt", responses=REFUSED)
    async def adapt(asked: schema.Walking, request: Request) -> dict[str, Any]:
        """The next lesson for a person who answered the earlier ones by walking."""
        return _plain(await _unless_left(request, workers.answer("adapt", asked.model_dump_json())))

    @app.post("/api/reach", responses=REFUSED)
    async def reach(asked: schema.Reaching, request: Request) -> dict[str, Any]:
        """What policies can collect, two types of object at a time."""
        return _plain(await _unless_left(request, workers.answer("reach", asked.model_dump_json())))


async def _rounds(workers: WorkerPool, asked: schema.Teaching) -> AsyncGenerator[Event, None]:
    """What a teacher comes to; the search for the bi-level one's bound lets everybody's lessons go first."""
    text = asked.model_dump_json()
    if asked.teacher == "bilevel":
        async with aclosing(workers.events("first_lesson", text)) as events:
            async for event in events:
                yield event
    async with aclosing(workers.events("teach", text, is_urgent=asked.teacher != "bilevel")) as events:
        async for event in events:
            yield event


async def _unless_left(request: Request, work: Coroutine[Any, Any, Found]) -> Found:
    """What the work finds; it is stopped if whoever asked hangs up first, and then nobody reads the refusal."""
    job, leaving = asyncio.create_task(work), asyncio.create_task(_left(request))
    try:
        await asyncio.wait((job, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not job.done():
            raise HTTPException(NOBODY_LISTENS, "nobody is listening any more")
        return job.result()
    finally:
        job.cancel()
        leaving.cancel()


async def _left(request: Request) -> None:
    """Returns once whoever asked has hung up; the body was read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _plain(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    return found


async def _stream(first: Event, events: AsyncGenerator[Event, None]) -> AsyncIterator[str]:
    """The events as lines; what goes wrong after the first is an event too."""
    try:
        async with aclosing(events):
            yield _lines(first)
            async for event in events:
                yield _lines(event)
    except tuple(REFUSALS) as error:
        yield _lines(Event("refused", json.dumps({"detail": str(error)})))


def _lines(event: Event) -> str:
    return f"event: {event.name}\ndata: {event.data}\n\n"


def _add_refusals(app: FastAPI) -> None:
    """Every way of not getting an answer is a status and a sentence, which does not repeat what was sent."""

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
    """Refuses bodies that are too large, as soon as that is known, and adds the headers to every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = ((name.lower().encode(), value.encode()) for name, value in HEADERS.items())
                message["headers"] = [*message["headers"], *added]
            await send(message)

        body = await _body(receive)
        if body is None:
            refusal = _refusal(413, f"a request may have {LARGEST_BODY // 1024} KiB at the most")
            await refusal(scope, receive, with_headers)
            return
        whole: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replayed() -> Message:
            return whole.pop() if whole else await receive()

        await self.app(scope, replayed, with_headers)


async def _body(receive: Receive) -> bytes | None:
    """All that was sent; nothing where it is too much."""
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > LARGEST_BODY:
            return None
        if not message.get("more_body", False):
            return bytes(body)
