"""Every place of the page on three screens, in light and dark: axe, sizes of targets, and nothing cut or outside."""

from itertools import pairwise

import pytest
from page_support import (
    COVERED,
    EVERY_LOOK,
    FAULTS,
    TARGETS,
    check_with_axe,
    open_tab,
    press_and_drag,
    settled,
    visit,
    watched,
)
from playground_support import MAY_SKIP_PAGE, NO_BROWSER
from playwright.sync_api import Browser, Page, expect
from strategies import some_of

pytestmark = [pytest.mark.skipif(MAY_SKIP_PAGE, reason=NO_BROWSER), pytest.mark.timeout(600)]
TO_THE_PLUS = (32, 31, 30, 24, 18, 12)
# To the last round that is there, until it is the last of all.
TO_THE_END = """() => {
  const slider = document.getElementById("round");
  slider.value = slider.max;
  slider.dispatchEvent(new Event("input"));
  return document.getElementById("round-ending").textContent.includes("possible");
}"""


def compared(page: Page) -> None:
    """The cards, with the figures behind one of them."""
    settled(page)
    expect(page.locator("[data-teacher=bilevel] .percent")).to_contain_text("%")
    page.locator("[data-teacher=bilevel] summary").click()


def detected(page: Page) -> None:
    """The last round, and all that experts see."""
    expect(page.locator("#film")).to_be_visible()
    page.get_by_text("For experts").first.click()
    page.get_by_text("All rounds as a table").first.click()
    expect(page.locator("#planes svg")).to_have_count(3)
    page.wait_for_function(TO_THE_END)


def taught(page: Page) -> None:
    """A path, its answer and the best lesson."""
    press_and_drag(page, *TO_THE_PLUS)
    expect(page.locator("#score .percent")).to_contain_text("%")
    page.get_by_role("button", name="Show me the best lesson").click()


def learned(page: Page) -> None:
    """A walk, what is concluded from it, and the reveal."""
    page.get_by_role("checkbox", name="green within 1 cell").check()
    page.get_by_role("button", name="Show me the first lesson").click()
    expect(page.locator("#walk-lesson")).to_contain_text("Lesson 1")
    press_and_drag(page, *TO_THE_PLUS)
    page.get_by_role("button", name="This is my walk").click()
    page.get_by_role("button", name="Reveal my secret").click()
    expect(page.locator("#estimate")).to_contain_text("statistics")
    for summary in page.locator("#panel-learn summary").all():
        summary.click()


PLACES = {
    "Compare teachers": compared,
    "Round by round": detected,
    "Be the teacher": taught,
    "Be the learner": learned,
    "Share and keep": lambda page: expect(page.locator("#snippet")).not_to_be_empty(),
    "Five gardens": lambda page: expect(page.locator("#challenge")).not_to_be_empty(),
}


@pytest.mark.parametrize(("size", "scheme"), some_of(EVERY_LOOK, [("narrow", "light"), ("wide", "dark")]))
def test_every_place_is_whole_and_accessible(browser: Browser, address: str, size: str, scheme: str):
    """At its fullest, each place has no finding of axe; on the phone every target has at least 40 px."""
    with watched(browser, address, size, scheme, bypass_csp=True, has_touch=size == "narrow") as page:
        visit(page, f"{address}/#compare")
        for place, fill in PLACES.items():
            open_tab(page, place)
            fill(page)
            check_with_axe(page)
            assert page.evaluate(FAULTS) == [], place
            small = [found for found in page.evaluate(TARGETS) if min(found[1:]) < 39.5]
            assert size != "narrow" or small == [], place
        assert page.evaluate(COVERED) == []


# The box of the text in an element, which may be smaller than the element.
TEXT = """(element) => {
  const range = document.createRange();
  range.selectNodeContents(element);
  const { left, right, top, bottom } = range.getBoundingClientRect();
  return { left, right, top, bottom };
}"""
# How many parts the ring and the coloured squares of the detective's map have, and how many signs lie on one.
COVERING = """() => {
  const boxes = (names) => [...document.querySelectorAll(names)].map((e) => e.getBoundingClientRect());
  const marks = boxes("#clues circle, #clues rect[rx]");
  const meet = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
  const covering = boxes("#clues text").filter((sign) => marks.some((one) => meet(sign, one)));
  return [marks.length, covering.length];
}"""


def test_what_stands_side_by_side_does_not_touch(browser: Browser, address: str):
    """A title and its cross, a button's ring of focus and the world, signs and marks in a cell, a sum and its cell."""
    with watched(browser, address) as page:
        visit(page, f"{address}/#compare")
        settled(page)
        head = page.locator("[data-teacher=agnostic] .card-head")
        title, cross = (head.locator(part).evaluate(TEXT) for part in ("h3", ".remove"))
        assert title["right"] + 6 < cross["left"]
        button, world = (page.locator(part).bounding_box() for part in ("label.file", "#grid"))
        assert button["y"] + button["height"] + 5 < world["y"]
        open_tab(page, "Round by round")
        expect(page.locator("#clues text")).to_have_count(36)
        # The two circles of the ring, the green square, and Pip.
        assert page.evaluate(COVERING) == [4, 0]
        page.goto(f"{address}/#story-2")
        total = page.locator("#garden text").filter(has_text="=").evaluate(TEXT)
        cell = page.locator("#garden-15").bounding_box()
        assert cell["y"] < total["top"] and total["bottom"] < cell["y"] + cell["height"]
        assert cell["x"] < total["left"] and total["right"] < cell["x"] + cell["width"]


def test_what_stands_side_by_side_on_a_phone_does_not_touch(browser: Browser, address: str):
    """Undo and redo are in one line, buttons in rows have a distance, and a dialog opens with its title."""
    with watched(browser, address, "narrow", has_touch=True) as page:
        visit(page, f"{address}/#compare")
        assert len({page.locator(name).bounding_box()["y"] for name in ("#undo", "#redo")}) == 1
        box, text = page.locator("label.file").bounding_box(), page.locator("label.file").evaluate(TEXT)
        assert (text["top"] + text["bottom"]) / 2 == pytest.approx(box["y"] + box["height"] / 2, abs=1.5)
        open_tab(page, "Share and keep")
        rows = [row.bounding_box() for row in page.locator("#panel-keep > .row").all()]
        assert all(one["y"] + one["height"] + 6 <= other["y"] for one, other in pairwise(rows))
        page.get_by_role("button", name="About").click()
        assert page.locator("#about").evaluate("(dialog) => dialog.scrollTop") == 0
        expect(page.get_by_role("heading", name="What this is")).to_be_in_viewport(ratio=1)
