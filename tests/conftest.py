"""Hypothesis draws the same examples in every run, and waits for slow machines; and a missing browser is no secret."""

import signal

import pytest
from browsers import CHROMIUM, NO_BROWSER
from hypothesis import settings

settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("ci")

# A shell that runs tests in the background has them ignore Ctrl-C, and their children too; some tests send it to those.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say it where everyone looks, beside the failures, in red."""
    if CHROMIUM is None:
        terminalreporter.write_sep("!", NO_BROWSER, red=True, bold=True)
