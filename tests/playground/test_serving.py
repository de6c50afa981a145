"""What stands between the network and the application: hosts, sizes, and clients that do not finish."""

import json
import socket
import threading
from contextlib import ExitStack
from urllib.parse import urlsplit

import httpx
import playground_support
import pytest
from playground_support import PATIENCE, learner_fields, running, teaching

from tutelage.playground import serving
from tutelage.playground.server import Settings
from tutelage.playground.serving import LARGEST_BODY, is_loopback

SOFT = learner_fields("soft", "L2")


CHEAP = teaching("agnostic", SOFT)


DRAWN = {"world": CHEAP["world"], "learner": SOFT, "paths": [[6]]}


@pytest.fixture(scope="module")
def page():
    """A client of a server that really computes."""
    with (
        running(Settings(n_workers=2, time_limit=600.0)) as address,
        httpx.Client(base_url=address, timeout=PATIENCE) as client,
    ):
        yield client


@pytest.mark.parametrize(
    "host",
    [
        *("elsewhere.example", "127.0.0.1.elsewhere.example:80", "localhost.elsewhere.example", "169.254.0.1", ""),
        *("[::1].elsewhere.example", "elsewhere.example@127.0.0.1", "[::1]elsewhere.example:80", "127.0.0.1:80:80"),
        *("localhost/elsewhere.example", "[::1", "[elsewhere.example]", "localhost:", "127.0.0.1 elsewhere.example"),
    ],
)
def test_another_host_s_name_is_refused(page, host):
    """DNS rebinding: a site whose name resolves to this machine must not read from it."""
    assert page.get("/api/world/text/0/8", headers={"Host": host}).status_code == 400


@pytest.mark.parametrize("host", ["localhost:80", "127.0.0.1", "LOCALHOST", "[::1]:8000", "[::1]"])
def test_this_machine_by_any_of_its_names_is_answered(page, host):
    """IPv4, IPv6 and localhost, in capitals too, with the port or without."""
    assert page.get("/api/world/text/0/8", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "box.example"])
def test_beyond_loopback_addresses_and_own_names_are_answered_and_no_others(host):
    """A page that rebinds its name to this machine sends that name; a numeric address cannot be rebound."""
    with running(Settings(host=host, n_workers=1, run_job=playground_support.stubborn)) as address:
        for name in ("192.0.2.7:8000", "[2001:db8::1]", "localhost", f"{host}:8000", socket.gethostname()):
            assert httpx.get(address, headers={"Host": name}, timeout=PATIENCE).status_code == 200, name
        for name in ("elsewhere.example", "box.example.elsewhere.example", "192.0.2.7.elsewhere.example", ""):
            assert httpx.get(address, headers={"Host": name}, timeout=PATIENCE).status_code == 400, name


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "localhost", "LOCALHOST", "::1", "0:0:0:0:0:0:0:1"])
def test_loopback_is_recognised_in_any_notation(host):
    """Other host names are refused only on loopback, so every notation of loopback must be recognised."""
    assert is_loopback(host)
    assert not is_loopback("0.0.0.0") and not is_loopback("192.0.2.1") and not is_loopback("localhost.example")


@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_body_that_is_too_large_is_refused(page, is_chunked):
    """One byte above the limit is refused, with a length or chunked; a body at the limit is read."""

    def sent(n_bytes: int) -> httpx.Response:
        body = b" " * n_bytes
        content = iter([body[: n_bytes // 2], body[n_bytes // 2 :]]) if is_chunked else body
        return page.post("/api/teach", content=content, headers={"Content-Type": "application/json"})

    refused = sent(LARGEST_BODY + 1)
    assert refused.status_code == 413 and "512 KiB" in refused.json()["detail"]
    assert sent(LARGEST_BODY).status_code == 400


def connected(address: str) -> socket.socket:
    """A bare connection with a small buffer, to send part of a request or never to read."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(PATIENCE)
    client.connect((urlsplit(address).hostname, urlsplit(address).port))
    return client


def closed(client: socket.socket) -> bool:
    """Whether the server ends the connection."""
    try:
        while client.recv(2**16):
            pass
    except ConnectionError:
        return True
    return True


def head(n_bytes: int) -> bytes:
    """The first lines of a request whose body has this size."""
    lines = ["POST /api/teach HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json"]
    return "\r\n".join([*lines, f"Content-Length: {n_bytes}", "", ""]).encode()


def test_a_client_that_stops_reading_keeps_no_process_and_is_disconnected(monkeypatch):
    lost, before = threading.Event(), serving.Connection.connection_lost

    def connection_lost(self, exc):
        before(self, exc)
        lost.set()

    monkeypatch.setattr(serving.Connection, "connection_lost", connection_lost)
    settings = Settings(n_workers=1, time_limit=600.0, client_seconds=1, run_job=playground_support.floods)
    body = json.dumps(CHEAP).encode()
    with running(settings) as address, connected(address) as stalled:
        stalled.sendall(head(len(body)) + body)
        assert stalled.recv(15) == b"HTTP/1.1 200 OK"
        assert lost.wait(PATIENCE)
        assert httpx.post(f"{address}/api/answer", json=DRAWN, timeout=PATIENCE).status_code == 200


def test_a_process_does_not_wait_for_a_client_that_has_stopped_reading():
    """Before the client is disconnected too: the events wait in memory."""
    settings = Settings(n_workers=1, time_limit=600.0, client_seconds=600, run_job=playground_support.floods)
    body = json.dumps(CHEAP).encode()
    with running(settings) as address, connected(address) as stalled:
        stalled.sendall(head(len(body)) + body)
        assert stalled.recv(15) == b"HTTP/1.1 200 OK"
        assert httpx.post(f"{address}/api/answer", json=DRAWN, timeout=PATIENCE).status_code == 200


@pytest.mark.parametrize("sent", [b"", b"POST /api/te", head(1000), head(1000) + b'{"world": '])
def test_a_client_that_does_not_finish_its_request_is_disconnected(sent):
    settings = Settings(n_workers=1, client_seconds=1, run_job=playground_support.stubborn)
    with running(settings) as address, connected(address) as client:
        client.sendall(sent)
        assert closed(client)


def test_the_number_of_connections_has_a_limit(monkeypatch):
    """The oldest client that sends nothing makes room for a new one, so nobody is shut out by idle connections."""
    monkeypatch.setattr(serving, "MOST_CONNECTIONS", 2)
    settings = Settings(n_workers=1, client_seconds=600, run_job=playground_support.stubborn)
    with running(settings) as address, connected(address) as first, connected(address) as second:
        assert httpx.get(address, timeout=PATIENCE).status_code == 200
        assert closed(first)
        second.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert second.recv(15) == b"HTTP/1.1 200 OK"


def test_a_connection_whose_job_runs_is_not_closed_for_a_new_one(monkeypatch):
    """The new one is refused instead."""
    monkeypatch.setattr(serving, "MOST_CONNECTIONS", 1)
    settings = Settings(n_workers=1, time_limit=600.0, client_seconds=600, run_job=playground_support.stubborn)
    body = json.dumps(CHEAP).encode()
    with running(settings) as address, connected(address) as busy:
        busy.sendall(head(len(body)) + body)
        assert busy.recv(15) == b"HTTP/1.1 200 OK"
        with pytest.raises(httpx.TransportError):
            httpx.get(address, timeout=PATIENCE)


def test_many_half_open_connections_shut_nobody_out():
    """300 clients on this machine that begin a request and never end it."""
    settings = Settings(n_workers=1, client_seconds=600, run_job=playground_support.stubborn)
    with running(settings) as address, ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(connected(address)).sendall(b"GET / HTTP/1.1\r\n")
        assert httpx.get(address, timeout=PATIENCE).status_code == 200
