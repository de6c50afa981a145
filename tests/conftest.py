"""Hypothesis: the same examples in every run, without a deadline. Reports a missing browser."""

import os
import signal

import pytest
from hypothesis import settings
from playground_support import CHROMIUM, NO_BROWSER
from strategies import some_of

(EXAMPLES,) = some_of([100], [12])
settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True, max_examples=EXAMPLES)
settings.load_profile("ci")

# A shell makes background jobs and their children ignore SIGINT; some tests send SIGINT to a child.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_xdist_auto_num_workers() -> int:
    """Two processes more than there are cores, because many tests wait for a browser, a server or a deadline."""
    return (os.cpu_count() or 1) + 2


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report a missing browser next to the failures, in red."""
    if CHROMIUM is None:
        terminalreporter.write_sep("!", NO_BROWSER, red=True, bold=True)
