"""Hypothesis: the same examples in every run, without a deadline. One compiler for all test processes. A missing
browser is reported.
"""

import os
import signal
import tempfile
from pathlib import Path
from typing import Any, TextIO

import pytest
from hypothesis import settings
from numba.core.dispatcher import Dispatcher
from playground_support import CHROMIUM, NO_BROWSER
from strategies import some_of

(EXAMPLES,) = some_of([100], [12])
settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True, max_examples=EXAMPLES)
settings.load_profile("ci")

# A shell makes background jobs and their children ignore SIGINT; some tests send SIGINT to a child.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def let_one_process_compile(lock: TextIO) -> None:
    """Let one test process at a time compile loops: the others then load from numba's cache what it compiled."""
    import fcntl

    compile_loop, depth = Dispatcher.compile, 0

    def compile_alone(loop: Dispatcher, signature: Any) -> Any:
        # A loop compiles those that it calls; the process that has the lock may take it again.
        nonlocal depth
        fcntl.flock(lock, fcntl.LOCK_EX)
        depth += 1
        try:
            return compile_loop(loop, signature)
        finally:
            depth -= 1
            if not depth:
                fcntl.flock(lock, fcntl.LOCK_UN)

    Dispatcher.compile = compile_alone


if os.name == "posix" and (run := os.environ.get("PYTEST_XDIST_TESTRUNUID")):
    let_one_process_compile((Path(tempfile.gettempdir()) / f"tutelage-{run}").open("w"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Two processes more than there are cores, because many tests wait for a browser, a server or a deadline."""
    return (os.cpu_count() or 1) + 2


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report a missing browser next to the failures, in red."""
    if CHROMIUM is None:
        terminalreporter.write_sep("!", NO_BROWSER, red=True, bold=True)
