"""The playground's server: sends the page, checks requests, and passes jobs to the worker processes.

It keeps no state between requests, and no request names a file. Every refusal is a status code and a sentence.
"""

import asyncio
import base64
import json
import os
import re
import signal
import socket
import sys
import threading
import webbrowser
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from importlib import resources
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import quote

import uvicorn
from fastapi import FastAPI, Path, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException

import tutelage
from tutelage.environments.object_world import object_world
from tutelage.outcomes import TutelageError
from tutelage.playground import jobs, schema, serving
from tutelage.playground.workers import Event, JobFailed, RunJob, WorkerPool

# The first seconds of a search for a bound are spent waiting: a client that moves a slider has gone by then.
SETTLING = 0.8
MEDIA_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
# The responses in the OpenAPI schema: refusals by status code, and by job the answers that are not JSON.
REASONS = {400: "Not JSON", 413: "Too large", 422: "Refused, with the reason"}
REFUSED: dict[int | str, Any] = {code: {"model": schema.Refusal, "description": why} for code, why in REASONS.items()}
CONTENT = {
    "teach": {"description": "Events: the rounds, then the end", "content": {"text/event-stream": {}}},
    "transcript": {"description": "An .npz file", "content": {"application/octet-stream": {}}},
}
# Of the page as one file, whose modules are in its import map.
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; img-src data: blob:; "
    "base-uri 'none'; form-action 'none'"
)

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class Settings:
    """host: also a name that is answered (`is_known`). opened: the name and content of a file that the page opens."""

    host: str = "127.0.0.1"
    time_limit: float = 60.0
    client_seconds: int = 20
    n_workers: int = max(2, os.cpu_count() or 1)
    run_job: RunJob = jobs.run_job
    opened: tuple[str, bytes] | None = None


def make_app(settings: Settings) -> FastAPI:
    workers = WorkerPool(settings.run_job, count=settings.n_workers, time_limit=settings.time_limit)
    # FastAPI's own documentation pages load scripts from another host.
    told: dict[str, Any] = {"openapi_url": "/api/openapi.json", "docs_url": None, "redoc_url": None}
    told |= {"title": "Tutelage playground", "version": tutelage.__version__}
    app = FastAPI(lifespan=lambda _: workers.running(), **told)
    app.state.workers = workers
    _add_refusals(app)
    for name, text in (_page() | {"whole.html": bundled()}).items():
        _add_file(app, name, text)
    _add_worlds(app, settings)
    for path, (form, about) in OPERATIONS.items():
        _add_operation(app, workers, path, form, about)
    app.add_middleware(serving.Bounded, host=settings.host)
    return app


def _add_file(app: FastAPI, name: str, text: str) -> None:
    """The route of a file of the page. The files are read once; no request names a path."""
    kind = MEDIA_TYPES[name.rpartition(".")[2]]
    app.get(f"/{name.removeprefix('index.html')}", include_in_schema=False)(lambda: Response(text, media_type=kind))


def _page() -> dict[str, str]:
    files = resources.files("tutelage.playground").joinpath("page").iterdir()
    return {file.name: file.read_text(encoding="utf-8") for file in files}


def bundled(recording: Mapping[str, Any] | None = None, title: str = "Tutelage") -> str:
    """The page as one HTML file that needs no server: its modules, its style, and a recording of answers.

    recording: what the page has instead of a server: the answers by request, the scene that it opens with, and the
    places that it shows. Without one, the text `tutelageRecording = null` can be replaced by it.
    """
    page, modules = _page(), {}
    for name, text in page.items():
        if name.endswith(".js"):
            # In an import map modules have bare names: a data address is no base for relative ones.
            module = text.replace(' from "./', ' from "').encode()
            modules[name] = f"data:text/javascript;base64,{base64.b64encode(module).decode()}"
    kept = json.dumps(recording, allow_nan=False).replace("<", "\\u003c")
    head = [
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        f'<link rel="icon" href="data:image/svg+xml,{quote(page["icon.svg"])}">',
        f"<style>\n{page['style.css']}</style>",
        f"<script>globalThis.tutelageRecording = {kept};</script>",
        f'<script type="importmap">{json.dumps({"imports": modules})}</script>',
        '<script type="module">import "app.js";</script>',
        "</head>",
    ]
    text = re.sub(r"<(?:link|script) [^>]*>(?:</script>)?\n", "", page["index.html"])
    return re.sub(r"<title>[^<]*</title>", f"<title>{title}</title>", text).replace("</head>", "\n".join(head))


def _add_worlds(app: FastAPI, settings: Settings) -> None:
    name, content = settings.opened or (None, b"")
    answer = {"name": name, "file": base64.b64encode(content).decode()}

    app.get("/api/players", name="players")(schema.known_players)

    @app.get("/api/world/{generator}/{seed}/{size}", responses=REFUSED)
    async def generated_world(
        generator: Literal["published", "text"],
        seed: Annotated[int, Path(ge=0, lt=2**32)],
        size: Annotated[int, Path(ge=schema.SMALLEST_GRID, le=schema.LARGEST_GRID)],
    ) -> Any:
        """A generated world of the paper, by its seed."""
        return json.loads(object_world(size, seed, generator).to_json())

    @app.post("/api/world", responses=REFUSED)
    async def checked_world(asked: schema.World) -> Any:
        """The same world, if it is valid."""
        return json.loads(asked.make().to_json())

    @app.get("/api/opened")
    async def opened() -> dict[str, Any]:
        """The file that the server was started with, in base 64; a name of null if there is none."""
        return answer


# The operations that run a job, the last part of the path: the form of the request, and what the answer is.
OPERATIONS: dict[str, tuple[type[schema.Asked], str]] = {
    "teach": (schema.Teaching, "The rounds as server-sent events, as they come. Closing stops it."),
    "domain/teach": (schema.DomainTeaching, "The same in a domain from a file."),
    "transcript": (schema.Teaching, "The rounds as a file that `load_transcript` reads."),
    "domain/transcript": (schema.DomainTeaching, "The same in a domain from a file."),
    "domain/transcript/read": (schema.TranscriptReading, "The rounds of a transcript from a file."),
    "domain": (schema.Opening, "The sizes and names of a domain from a file."),
    "domain/reach": (schema.DomainReaching, "The reachable reward expectations, as projections."),
    "answer": (schema.Demonstrating, "The learner's response to paths that a person drew."),
    "adapt": (schema.Walking, "The next lesson for a person who answered with walks."),
    "infer": (schema.Walking, "What the walks of a person say about their preferences."),
    "reach": (schema.Reaching, "The reachable reward expectations, for each pair of object types."),
}


def _add_operation(app: FastAPI, workers: WorkerPool, path: str, form: type[schema.Asked], about: str) -> None:
    job = path.rpartition("/")[2]

    async def operation(asked: Any, request: Request) -> Any:
        if job == "teach":
            events = teaching_events(workers, asked)
            # Before the first event, a refusal can still have its own status code.
            first = await _unless_closed(request, anext(events))
            return StreamingResponse(_stream(first, events), media_type="text/event-stream")
        answer = await _unless_closed(request, workers.answer(job, asked.model_dump_json()))
        if job == "transcript":
            return Response(base64.b64decode(json.loads(answer)["base64"]), media_type="application/octet-stream")
        return Response(answer, media_type="application/json")

    operation.__annotations__["asked"] = form
    responses = REFUSED | ({200: CONTENT[job]} if job in CONTENT else {})
    app.post(f"/api/{path}", name=path, description=about, responses=responses)(operation)


async def teaching_events(workers: WorkerPool, asked: schema.Asked) -> AsyncGenerator[Event, None]:
    """The events of a teacher. A continuation of the job runs only when no other job waits: lessons before bounds."""
    later = None
    async with aclosing(workers.events("teach", asked.model_dump_json())) as events:
        async for event in events:
            if event.name == "later":
                later = event.data
            else:
                yield event
    if later is None:
        return
    await asyncio.sleep(SETTLING)
    try:
        async with aclosing(workers.events("bound", asked.model_dump_json(), is_urgent=False)) as events:
            async for event in events:
                yield event
    # This takes nothing from the lesson: its bound is only not tight.
    except JobFailed as error:
        yield Event("unbounded", json.dumps({"detail": str(error)}))
        yield Event("end", later)


async def _unless_closed(request: Request, work: Coroutine[Any, Any, ResultT]) -> ResultT:
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


async def _stream(first: Event, events: AsyncGenerator[Event, None]) -> AsyncIterator[str]:
    """The events as text; an error after the first event is an event too."""
    form = "event: {}\ndata: {}\n\n"
    try:
        async with aclosing(events):
            yield form.format(*first)
            async for event in events:
                yield form.format(*event)
    except JobFailed as error:
        yield form.format("refused", json.dumps({"detail": str(error)}))


def _add_refusals(app: FastAPI) -> None:
    @app.exception_handler(RequestValidationError)
    async def malformed(request: Request, error: RequestValidationError) -> JSONResponse:
        first, *others = error.errors()
        if first["type"] == "json_invalid":
            return JSONResponse({"detail": f"the request is not JSON, from character {first['loc'][-1]} on"}, 400)
        place = ".".join(str(part) for part in first["loc"] if part != "body") or "the request"
        # The name of an unknown field can have any length.
        place = place if len(place) <= 100 else f"{place[:100]}..."
        more = f" (and {len(others)} more)" if others else ""
        return JSONResponse({"detail": f"{place}: {first['msg'][:1].lower()}{first['msg'][1:]}{more}"}, 422)

    @app.exception_handler(TutelageError)
    async def refused(request: Request, error: TutelageError) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, error.status if isinstance(error, JobFailed) else 422)


def serve_page(settings: Settings, port: int, *, is_opened: bool, on_start: Callable[[str], object]) -> None:
    """Serve until interrupted or terminated. on_start: called with a sentence that has the address, at the start."""
    app = make_app(settings)

    class Stopping(uvicorn.Server):
        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            app.state.workers.stop()
            await super().shutdown(sockets)

    # Without this, uvicorn ends the process by the signal itself, and the exit code is not that of this program.
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        listening = serving.listen(settings.host, port)
        name = "127.0.0.1" if settings.host in ("0.0.0.0", "::") else settings.host
        name = f"[{name}]" if ":" in name else name
        address = f"http://{name}:{listening.getsockname()[1]}/"
        others = "" if serving.is_loopback(settings.host) else ", open to every machine that can reach this one"
        # Whoever connects from now on is answered once the server runs.
        on_start(f"The playground is at {address}{others} (Ctrl-C ends it)")
        if is_opened:
            # In a thread: a text browser blocks until it is closed.
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
        Stopping(serving.configured(app, settings.client_seconds)).run(sockets=[listening])
    finally:
        signal.signal(signal.SIGTERM, before)
