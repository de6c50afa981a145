"""`tutelage serve` as a shell runs it: it prints its address, answers, and ends with all its processes."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import httpx
import psutil
import pytest
from playground_support import PATIENCE, learner_fields, teaching
from typer.testing import CliRunner

import tutelage as tl
from tutelage.cli import main
from tutelage.cli.app import make_app

PROGRAM = "import sys; from tutelage.cli import main; sys.argv[0] = 'tutelage'; main()"
pytestmark = pytest.mark.timeout(600)


@contextmanager
def serving() -> Iterator[tuple[subprocess.Popen, str]]:
    """The server in a new process group, as a terminal starts it, and the address that it printed."""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "serve", "--no-browser", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as server:
        try:
            said = server.stdout.readline()
            found = re.fullmatch(r"The playground is at (http://127\.0\.0\.1:\d+)/ \(Ctrl-C ends it\)\n", said)
            assert found, said
            yield server, found[1]
        finally:
            server.kill()


def ended(server: subprocess.Popen) -> tuple[str, list[psutil.Process]]:
    """What it prints after Ctrl-C to its process group, and the processes that are left."""
    started = psutil.Process(server.pid).children(recursive=True)
    assert len(started) > 2
    os.killpg(server.pid, signal.SIGINT)
    _, complaints = server.communicate(timeout=PATIENCE)
    return complaints, psutil.wait_procs(started, timeout=PATIENCE)[1]


def test_it_answers_until_it_is_interrupted_and_leaves_nothing_behind():
    """During a long computation too: exit code 130, no traceback, and no process is left."""
    request = teaching("bilevel", learner_fields("soft", "L5"), tl.object_world(30, 0))
    with serving() as (server, address):
        world = httpx.get(f"{address}/api/world/published/0/10", timeout=PATIENCE).json()
        assert tl.ObjectWorld.from_json(json.dumps(world)) == tl.object_world(10, 0)
        client = http.client.HTTPConnection(urlsplit(address).netloc, timeout=PATIENCE)
        client.request("POST", "/api/teach", json.dumps(request), {"Content-Type": "application/json"})
        # The server reads requests in order: it has read the first once it answers the second.
        assert httpx.get(address, timeout=PATIENCE).status_code == 200
        complaints, left = ended(server)
        client.close()
        assert server.returncode == 130 and complaints == "" and not left


def test_a_killed_server_leaves_no_process_behind():
    """A killed server cannot stop its workers: each ends by itself, during a long computation too."""
    request = teaching("bilevel", learner_fields("soft", "L5"), tl.object_world(30, 0))
    with serving() as (server, address):
        client = http.client.HTTPConnection(urlsplit(address).netloc, timeout=PATIENCE)
        client.request("POST", "/api/teach", json.dumps(request), {"Content-Type": "application/json"})
        assert httpx.get(address, timeout=PATIENCE).status_code == 200
        started = psutil.Process(server.pid).children(recursive=True)
        server.kill()
        server.communicate()
        client.close()
        assert len(started) > 2 and not psutil.wait_procs(started, timeout=PATIENCE)[1]


def test_a_terminated_server_leaves_no_process_and_no_file_behind(tmp_path, monkeypatch):
    """SIGTERM, as a service manager sends it, during a computation: nothing was written to disk."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    request = teaching("bilevel", learner_fields("soft", "L5"), tl.object_world(30, 0))
    with serving() as (server, address):
        client = http.client.HTTPConnection(urlsplit(address).netloc, timeout=PATIENCE)
        client.request("POST", "/api/teach", json.dumps(request), {"Content-Type": "application/json"})
        assert httpx.get(address, timeout=PATIENCE).status_code == 200
        started = psutil.Process(server.pid).children(recursive=True)
        server.terminate()
        _, complaints = server.communicate(timeout=PATIENCE)
        client.close()
    assert server.returncode == 143 and complaints == ""
    assert not psutil.wait_procs(started, timeout=PATIENCE)[1] and not list(tmp_path.iterdir())


def test_a_port_in_use_is_a_sentence(monkeypatch, capsys):
    """Another program listens there: exit code 2, the sentence names the port, and SIGTERM ends as before."""
    before = signal.getsignal(signal.SIGTERM)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr("sys.argv", ["tutelage", "serve", "--no-browser", "--port", str(port)])
        with pytest.raises(SystemExit) as refused:
            main()
    assert refused.value.code == 2 and signal.getsignal(signal.SIGTERM) is before
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(
        f"tutelage: cannot listen at 127.0.0.1, port {port}: Address already in use; --port 0 chooses"
    )


@pytest.mark.parametrize("options", [["--port", "65536"], ["--port", "-1"], ["--port", "http"], ["--time-limit", "0"]])
def test_options_out_of_bounds_are_refused(options):
    """A port is a number below 65536, and the time limit is positive."""
    refused = CliRunner().invoke(make_app(), ["serve", "--no-browser", *options])
    assert refused.exit_code == 2 and options[0] in refused.output


def test_an_address_of_another_machine_is_refused():
    """The server cannot listen at an address of another machine."""
    refused = CliRunner().invoke(make_app(), ["serve", "--no-browser", "--port", "0", "--host", "192.0.2.1"])
    assert isinstance(refused.exception, tl.Unavailable)
    assert "cannot listen at 192.0.2.1, port 0" in str(refused.exception)
    assert "--host must be an address of this machine" in str(refused.exception), "another port would not help"


def test_the_help_says_what_it_is():
    """The help lists the playground and says how to stop it."""
    assert "serve" in CliRunner().invoke(make_app(), ["--help"]).output
    text = " ".join(CliRunner().invoke(make_app(), ["serve", "--help"]).output.split())
    assert "Press Ctrl-C to stop" in text and "--no-browser" in text
