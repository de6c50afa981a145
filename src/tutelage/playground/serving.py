"""Runs the server on a socket and opens the page in a browser."""

import asyncio
import socket
import threading
import webbrowser
from collections.abc import Callable
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from tutelage.outcomes import Unavailable
from tutelage.playground.server import Settings, is_loopback, make_app

MOST_CONNECTIONS = 256


def serve_page(settings: Settings, port: int, *, is_opened: bool, on_start: Callable[[str], object]) -> None:
    """Serve until interrupted. on_start: called with a sentence that has the address, once the server answers."""
    listening = _listen(settings.host, port)
    address = _address(settings.host, listening.getsockname()[1])
    app = make_app(settings)

    class Announcing(uvicorn.Server):
        """Announces its start, and kills running jobs when it ends."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            others = "" if is_loopback(settings.host) else ", open to every machine that can reach this one"
            on_start(f"The playground is at {address}{others} (Ctrl-C ends it)")
            if is_opened:
                # In a thread: a text browser blocks until it is closed.
                threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            app.state.workers.stop()
            await super().shutdown(sockets)

    Announcing(configured(app, settings)).run(sockets=[listening])


def configured(app: Any, settings: Settings, log_level: str = "warning") -> uvicorn.Config:
    """The settings of uvicorn. Responses that have begun get two seconds to finish when the server ends."""
    limits: dict[str, Any] = {"timeout_keep_alive": settings.client_seconds, "timeout_graceful_shutdown": 2}
    return uvicorn.Config(app, log_level=log_level, http=Connection, ws="none", **limits)


class Connection(H11Protocol):
    """A connection that is closed when it only waits for its client. uvicorn itself waits without a limit."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.abort()
        self.loop.call_later(self.timeout_keep_alive, self._watch, object())

    def _watch(self, last: object) -> None:
        """Close the connection if it waits for its client in the same request as at the last look."""
        is_answered = self.cycle is None or self.cycle.response_complete
        is_half_sent = self.conn.their_state is h11.SEND_BODY
        is_waiting = is_answered or is_half_sent or self.flow.write_paused or self.transport.is_closing()
        if is_waiting and self.cycle is last:
            self.transport.abort()
        else:
            seen = self.cycle if is_waiting else object()
            self.loop.call_later(self.timeout_keep_alive, self._watch, seen)


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, *_, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        is_dual = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
        return socket.create_server(place, family=family, dualstack_ipv6=is_dual)
    except OSError as error:
        # `create_server` adds the address to the reason.
        reason = (error.strerror or str(error)).partition(" (while ")[0]
        raise Unavailable(f"cannot listen at {host}, port {port}: {reason}; --port 0 chooses a free port") from error


def _address(host: str, port: int) -> str:
    """The address for a browser on this machine."""
    name = "127.0.0.1" if host in ("0.0.0.0", "::") else host
    return f"http://[{name}]:{port}/" if ":" in name else f"http://{name}:{port}/"
