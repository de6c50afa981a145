"""Shared by the browser tests of the page: a watched page, gestures, and what the library says about the garden.

Controls are found by role and name, as a screen reader finds them. A page fails its test if the browser logs an error,
if it requests anything from another host, or if it is wider than the screen.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from playground_support import running
from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, expect

import tutelage as tl
from tutelage.playground.server import Settings
from tutelage.playground.workers import RunJob

SIZES = {"large": (1920, 1080), "wide": (1280, 800), "narrow": (390, 844)}
EVERY_LOOK = [(size, scheme) for size in SIZES for scheme in ("light", "dark")]
# Milliseconds after which a control counts as never coming; for a machine that does other work too.
PATIENCE = 240_000
expect.set_options(timeout=PATIENCE)

# The world of the story and of the first scene.
GARDEN = tl.ObjectWorld(
    6, 32, {"star": [15], "plus": [12], "dot": [35]}, {"green": [16]}, discount=0.95, weights=(1.0, 0.9, 0.2)
)
NEAR_GREEN = ["green within 1 cell"]

# Everything that can be touched: its name, and its box in pixels.
TARGETS = """() => [...document.querySelectorAll("button, select, summary, input, a, [role=tab]")]
  .filter((e) => e.checkVisibility({ visibilityProperty: true, opacityProperty: false }) && !e.closest(".sr, .skip"))
  .map((e) => { const b = e.getBoundingClientRect();
    return [e.id || e.getAttribute("aria-label") || e.textContent, b.width, b.height]; })
  .filter(([, width]) => width > 0)"""
# Text that is cut, and elements that reach beyond the screen, outside of what can be scrolled.
FAULTS = """() => [...document.querySelectorAll("main *, header *")].filter((e) => {
  if (!e.checkVisibility() || e.closest("svg, .scroll > *, pre, .sr") || e.matches("input, select, h1")) return false;
  const box = e.getBoundingClientRect();
  const isCut = e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0 && !e.matches(".scroll")
    && getComputedStyle(e).display !== "inline";
  return box.width > 0 && (box.right > innerWidth + 0.5 || box.left < -0.5 || isCut);
}).map((e) => e.outerHTML.slice(0, 120))"""
# Texts of a story, or of a garden, that the bar with the buttons covers before anything is scrolled.
COVERED = """() => {
  const bar = [...document.querySelectorAll(".story-steps")].find((e) => e.checkVisibility()).getBoundingClientRect();
  return [...document.querySelectorAll(".story p, .story td, .story-extra *, .choices button")].filter((e) => {
    const box = e.getBoundingClientRect();
    const isBeside = box.left >= bar.right || box.right <= bar.left;
    return e.checkVisibility() && e.textContent && !isBeside && box.bottom > bar.top + 0.5;
  }).map((e) => e.textContent);
}"""


@contextmanager
def watched(browser: Browser, address: str, size: str = "wide", scheme: str = "light", **given) -> Iterator[Page]:
    """A new page. An error in the browser's log, a request to another host or a page that is too wide fails."""
    width, height = SIZES[size]
    options = {
        "viewport": {"width": width, "height": height},
        "color_scheme": scheme,
        "reduced_motion": "reduce",
    } | given
    context = browser.new_context(**options)
    context.set_default_timeout(PATIENCE)
    page, complaints, elsewhere = context.new_page(), [], []
    page.on(
        "console",
        lambda message: complaints.append(f"{message.text} {message.location}") if _is_complaint(message) else None,
    )
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda asked: elsewhere.append(asked.url) if not _is_ours(asked.url, address) else None)
    try:
        yield page
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    finally:
        context.close()
    assert complaints == []
    assert elsewhere == []


def _is_complaint(message: ConsoleMessage) -> bool:
    """The page shows a refusal as a sentence; the browser logs it too, which is no error of the page."""
    is_refusal = "Failed to load resource" in message.text and "/api/" in message.location["url"]
    return message.type == "error" and not is_refusal


def _is_ours(url: str, address: str) -> bool:
    return url.startswith((address, f"blob:{address}", "data:"))


def visit(page: Page, place: str) -> None:
    page.goto(place)
    opened_layers(page)


def reload(page: Page) -> None:
    page.reload()
    opened_layers(page)


def opened_layers(page: Page) -> None:
    """When the page is there, open all layers of the workbench."""
    page.wait_for_selector("body[data-ready]")
    page.evaluate("() => document.querySelectorAll('#controls details').forEach((layer) => { layer.open = true; })")


def story_of_the_docs() -> bytes:
    """The story in docs/playground.md."""
    text = (Path(__file__).parents[1] / "docs/playground.md").read_text(encoding="utf-8")
    whole = text[text.index('    {"title"') :].partition("\n\n")[0]
    return json.dumps(json.loads(whole)).encode()


@contextmanager
def opened(browser: Browser, jobs: RunJob, n_workers: int = 1) -> Iterator[Page]:
    """The page of a server with few workers and other jobs, for what the usual jobs do too fast to be seen."""
    settings = Settings(n_workers=n_workers, time_limit=600.0, run_job=jobs)
    with running(settings) as address, watched(browser, address) as page:
        visit(page, f"{address}/#compare")
        yield page


def open_tab(page: Page, name: str) -> None:
    page.get_by_role("tab", name=name, exact=True).click()


def cell(page: Page, number: int) -> Locator:
    return page.locator(f"#grid-{number}")


def card(page: Page, teacher: str) -> Locator:
    return page.locator(f"[data-teacher={teacher}]")


def settled(page: Page) -> None:
    """Wait until every card has the answer to the present scene."""
    expect(page.locator(".card.waiting, .story-pictures.waiting, .verdict.waiting")).to_have_count(0)


def press_and_drag(page: Page, *cells: int) -> None:
    """Down in the first cell, over the others, and up."""
    page.locator("#grid").scroll_into_view_if_needed()
    for k, number in enumerate(cells):
        box = cell(page, number).bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        if k == 0:
            page.mouse.down()
    page.mouse.up()


def tap(page: Page, number: int) -> None:
    page.evaluate("() => scrollTo(0, 0)")
    box = cell(page, number).bounding_box()
    page.touchscreen.tap(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)


def finger(page: Page, *places: tuple[float, float]) -> None:
    """A finger down at the first place, over the others, and up, as the screen reports it."""
    screen = page.context.new_cdp_session(page)
    for k, (x, y) in enumerate(places):
        points = [{"x": x, "y": y}]
        screen.send("Input.dispatchTouchEvent", {"type": "touchMove" if k else "touchStart", "touchPoints": points})
    screen.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


def downloaded(page: Page, button: str) -> bytes:
    with page.expect_download() as waiting:
        page.get_by_role("button", name=button, exact=True).click()
    return Path(waiting.value.path()).read_bytes()


def scene_of(page: Page) -> dict:
    """The scene on the page."""
    return json.loads(page.evaluate("async () => JSON.stringify((await import('/scene.js')).getScene())"))


def world_of(page: Page) -> tl.ObjectWorld:
    return tl.ObjectWorld.from_json(json.dumps(scene_of(page)["world"]))


def bring(page: Page, name: str, content: bytes) -> None:
    page.get_by_label("Open a file").set_input_files({"name": name, "mimeType": "", "buffer": content})


def choose_hard(page: Page) -> None:
    page.get_by_label("How strict it is").select_option("hard")


def reward_in_garden(teacher: str, *, hard: bool = False) -> float:
    """What the learner of the first scene earns, by the library."""
    domain = GARDEN.domain(NEAR_GREEN)
    learner = tl.HardLearner(domain) if hard else tl.SoftLearner(domain, mismatch_penalty=5, violation_penalty=10)
    told = {"agnostic": (tl.AgnosticTeacher, ()), "aware_cmdp": (tl.AwareCmdpTeacher, (learner,))}
    make, given = told[teacher]
    return tl.teach(make(domain, GARDEN.true_weights, *given), learner).final.response_reward


def check_with_axe(page: Page) -> None:
    """axe-core finds no violation in what is visible."""
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
