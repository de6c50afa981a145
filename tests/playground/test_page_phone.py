"""The page on a phone of 390x844, by touch."""

import pytest
from page_support import finger, open_tab
from playground_support import MAY_SKIP_PAGE, NO_BROWSER
from playwright.sync_api import Page, expect

pytestmark = [pytest.mark.skipif(MAY_SKIP_PAGE, reason=NO_BROWSER), pytest.mark.timeout(600)]


def middle(page: Page, number: int) -> tuple[float, float]:
    box = page.locator(f"#grid-{number}").bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_a_touch_at_the_path_s_end_draws_and_every_other_touch_scrolls(phone: Page):
    page = phone
    open_tab(page, "Be the teacher")
    page.evaluate("() => scrollTo(0, 0)")
    finger(page, *[middle(page, number) for number in (32, 26, 20)])
    expect(page.get_by_role("list", name="Your paths").locator("li")).to_contain_text(["2 steps, then stays"])
    assert page.evaluate("() => scrollY") == 0
    finger(page, *[middle(page, number) for number in (20, 14, 8)])
    expect(page.get_by_role("list", name="Your paths").locator("li")).to_contain_text(["4 steps, then stays"])
    x, y = middle(page, 33)
    finger(page, *[(x, y - 40 * k) for k in range(6)])
    page.wait_for_function("() => scrollY > 50")
    expect(page.get_by_role("list", name="Your paths").locator("li")).to_contain_text(["4 steps, then stays"])


def test_what_is_said_fits_a_finger_and_a_small_screen(phone: Page):
    """No hint names a key; a share is one word; a picture is as wide as the screen allows."""
    page = phone
    expect(page.locator("[data-teacher=bilevel] .percent")).to_have_text("at least 99.1 %")
    assert page.locator("[data-teacher=bilevel] .percent").evaluate("(e) => e.textContent") == "at least 99.1\u00a0%"
    assert page.locator("[data-teacher=bilevel] .picture").first.bounding_box()["width"] > 300
    for place in ("Compare teachers", "Be the teacher", "Be the learner"):
        open_tab(page, place)
        hint = page.locator("#stage-hint").inner_text()
        assert "key" not in hint and "click" not in hint.lower() and "Enter" not in hint


def test_the_hidden_workbench_is_hidden_below_the_story(phone: Page):
    open_tab(phone, "The story")
    expect(phone.locator("#bench")).to_be_hidden()
    phone.reload()
    phone.wait_for_selector("body[data-ready]")
    expect(phone.locator("#bench")).to_be_hidden()


def test_all_tabs_are_seen(phone: Page):
    """Every tab lies on the screen: none is behind an edge that shows no sign of it."""
    boxes = [tab.bounding_box() for tab in phone.get_by_role("tab").all()]
    assert len(boxes) == 7
    assert all(box["x"] >= 0 and box["x"] + box["width"] <= 390 for box in boxes)
