"""The page on a phone of 390x844, by touch."""

import pytest
from page_support import finger, open_tab, reload, settled, visit, watched
from playground_support import MAY_SKIP_PAGE, NO_BROWSER
from playwright.sync_api import Browser, Page, expect

pytestmark = [pytest.mark.skipif(MAY_SKIP_PAGE, reason=NO_BROWSER), pytest.mark.timeout(600)]
PLACES = ["compare", "rounds", "teach", "learn", "keep", "play", "story-0"]

# Everything that can be touched: its box in pixels, and a name to find it.
TARGETS = """() => [...document.querySelectorAll("button, select, summary, input, a, [role=tab]")]
  .filter((e) => e.checkVisibility({ visibilityProperty: true, opacityProperty: false }) && !e.closest(".sr, .skip"))
  .map((e) => { const b = e.getBoundingClientRect();
    return [e.id || e.getAttribute("aria-label") || e.textContent, b.width, b.height, b.left, b.right]; })
  .filter(([, width]) => width > 0)"""


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


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_target_is_large_enough_and_on_the_screen(browser: Browser, address: str, scheme: str):
    """At least 40 px in both directions, in every place; all tabs are seen; the hidden workbench is hidden."""
    with watched(browser, address, "narrow", scheme, has_touch=True) as page:
        for place in PLACES:
            visit(page, f"{address}/#{place}")
            reload(page)
            settled(page)
            small = [found for found in page.evaluate(TARGETS) if min(found[1:3]) < 39.5 or found[4] > 390.5]
            assert small == [], place
            assert page.get_by_role("tab").count() == sum(
                tab.bounding_box()["x"] + tab.bounding_box()["width"] <= 390 for tab in page.get_by_role("tab").all()
            )
        expect(page.locator("#bench")).to_be_hidden()


def test_what_is_said_fits_a_finger_and_a_small_screen(phone: Page):
    """No hint names a key; a share is one word; a picture is as wide as the screen allows."""
    page = phone
    expect(page.locator("[data-teacher=bilevel] .percent")).to_have_text("98 %")
    assert page.locator("[data-teacher=bilevel] .percent").evaluate("(e) => e.textContent") == "98\u00a0%"
    assert page.locator("[data-teacher=bilevel] .picture").first.bounding_box()["width"] > 300
    for place in ("Compare teachers", "Be the teacher", "Be the learner"):
        open_tab(page, place)
        hint = page.locator("#stage-hint").inner_text()
        assert "key" not in hint and "click" not in hint.lower() and "Enter" not in hint
