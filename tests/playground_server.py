"""A playground that really listens, for tests that speak to it as a browser does."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from tutelage.playground.server import Settings, make_app

# Seconds for a server to start, or to stop, on a machine that does other work too.
PATIENCE = 240.0


class _Announced(uvicorn.Server):
    """Says when it answers, or that it never will."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_ready = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.is_ready.set()


@contextmanager
def running(settings: Settings | None = None) -> Iterator[str]:
    """The server on a free port of this machine, for as long as this is open; gives its address, without a slash."""
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        make_app(settings or Settings(time_limit=600.0)), log_level="critical", timeout_graceful_shutdown=2
    )
    server = _Announced(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        assert server.is_ready.wait(PATIENCE), "the server did not start"
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
        listening.close()
        assert not thread.is_alive(), "the server did not stop"
