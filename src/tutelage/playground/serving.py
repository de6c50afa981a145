"""What stands between the network and the application: hosts, sizes of requests, response headers, connections."""

import asyncio
import errno
import re
import socket
from ipaddress import ip_address
from typing import Any

import h11
import uvicorn
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from tutelage.outcomes import Unavailable
from tutelage.playground import schema

MOST_CONNECTIONS = 256
# A Host header: an IPv6 address in brackets, or a name or IPv4 address; then perhaps a port. Nothing else around them.
HOST = re.compile(r"(\[(?P<numeric>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(:\d{1,5})?")
# The largest request of the page has a world of 900 cells and 60 walks of 1000 cells each.
LARGEST_BODY = 512 * 1024
LARGEST_UPLOAD = schema.LONGEST_TEXT + LARGEST_BODY
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


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
    written = HOST.fullmatch(header)
    if written is None:
        return False
    name = (written["numeric"] or written["name"]).lower()
    if name in ("localhost", "127.0.0.1", "::1", host.lower()):
        return True
    if is_loopback(host):
        return False
    try:
        return bool(ip_address(name))
    except ValueError:
        return name == socket.gethostname().lower()


class Bounded:
    def __init__(self, app: ASGIApp, host: str) -> None:
        self.app, self.host = app, host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if not is_known(dict(scope["headers"]).get(b"host", b"").decode("latin-1"), self.host):
            await JSONResponse({"detail": "this server does not answer to that host name"}, 400)(scope, receive, send)
            return
        most = LARGEST_UPLOAD if scope["path"].startswith("/api/domain") else LARGEST_BODY
        size = 0

        async def counted() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > most:
                raise HTTPException(413, f"the request is too large; the limit is {most // 1024} KiB")
            return message

        await self.app(scope, counted, send)


def configured(app: ASGIApp, client_seconds: int) -> uvicorn.Config:
    """client_seconds: a client that neither sends a whole request nor reads its answer for so long is disconnected."""
    limits: dict[str, Any] = {"timeout_keep_alive": client_seconds, "timeout_graceful_shutdown": 2}
    return uvicorn.Config(app, log_level="warning", http=Connection, ws="none", headers=[*HEADERS.items()], **limits)


class Connection(H11Protocol):
    """A connection that is closed when it only waits for its client. uvicorn itself waits without a limit.

    Beyond the largest number, the oldest that waits makes room: clients that send nothing cannot shut out the others.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.opened = self.loop.time()
        if len(self.connections) > MOST_CONNECTIONS:
            others: set[Any] = self.connections - {self}
            waiting = [other for other in others if other.is_waiting and not other.transport.is_closing()]
            min(waiting, key=lambda other: other.opened, default=self).transport.abort()
        self.loop.call_later(self.timeout_keep_alive, self._watch, object())

    @property
    def is_waiting(self) -> bool:
        """Whether the server can do nothing before the client sends or reads."""
        is_answered = self.cycle is None or self.cycle.response_complete
        return is_answered or self.conn.their_state is h11.SEND_BODY or self.flow.write_paused

    def _watch(self, last: object) -> None:
        """Close the connection if it waits for its client in the same request as at the last look."""
        is_waiting = self.is_waiting or self.transport.is_closing()
        if is_waiting and self.cycle is last:
            self.transport.abort()
        else:
            seen = self.cycle if is_waiting else object()
            self.loop.call_later(self.timeout_keep_alive, self._watch, seen)


def listen(host: str, port: int) -> socket.socket:
    try:
        family, *_, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        is_dual = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
        return socket.create_server(place, family=family, dualstack_ipv6=is_dual)
    except OSError as error:
        # `create_server` adds the address to the reason.
        reason = (error.strerror or str(error)).partition(" (while ")[0]
        is_taken = error.errno in (errno.EADDRINUSE, errno.EACCES)
        advice = "--port 0 chooses a free port" if is_taken else "--host must be an address of this machine"
        raise Unavailable(f"cannot listen at {host}, port {port}: {reason}; {advice}") from error
