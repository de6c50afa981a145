"""The server and the browser that the tests of the page share."""

import pytest
from page_support import visit, watched
from playground_support import CHROMIUM, running
from playwright.sync_api import Browser, sync_playwright


@pytest.fixture(scope="module")
def address():
    with running() as place:
        yield place


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        # Where tests run as root, as in a container, Chromium's sandbox does not.
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Browser, address: str):
    """The comparison of two teachers, on a screen of 1280x800."""
    with watched(browser, address) as opened:
        visit(opened, f"{address}/#compare")
        yield opened


@pytest.fixture
def phone(browser: Browser, address: str):
    """The same on a phone, in the dark."""
    with watched(browser, address, "narrow", "dark", has_touch=True) as opened:
        visit(opened, f"{address}/#compare")
        yield opened
