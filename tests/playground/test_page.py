"""The page in Debian's Chromium, with a real server, on a wide screen and a narrow one.

Controls are found by role and name, as a screen reader finds them. Every test fails if the browser logs an error or
requests anything from another host.
"""

import io
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import playground_support
import pytest
from PIL import Image
from playground_support import CHROMIUM, NO_BROWSER, running
from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, expect, sync_playwright

import tutelage as tl
from tutelage.playground.server import Settings
from tutelage.playground.workers import RunJob

pytestmark = [pytest.mark.skipif(CHROMIUM is None, reason=NO_BROWSER), pytest.mark.timeout(600)]

VIEWPORTS = {"wide": {"width": 1280, "height": 800}, "narrow": {"width": 390, "height": 844}}
# Milliseconds after which a control counts as never coming; for a machine that does other work too.
PATIENCE = 240_000
expect.set_options(timeout=PATIENCE)
# How different two marks must be in grey, as the mean difference of pixels between 0 and 255.
TOLD_APART = 8.0


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


@pytest.fixture(params=VIEWPORTS)
def page(request: pytest.FixtureRequest, browser: Browser, address: str):
    """The page, just opened. An error in the browser's log or a request to another host fails the test."""
    context = browser.new_context(viewport=VIEWPORTS[request.param], reduced_motion="reduce")
    context.set_default_timeout(PATIENCE)
    opened, complaints, elsewhere = context.new_page(), [], []
    opened.on("console", lambda message: complaints.append(message.text) if _is_complaint(message) else None)
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on("request", lambda asked: elsewhere.append(asked.url) if not _is_ours(asked.url, address) else None)
    visit(opened, address)
    yield opened
    width = opened.evaluate("() => document.documentElement.scrollWidth")
    context.close()
    assert complaints == []
    assert elsewhere == []
    assert width <= VIEWPORTS[request.param]["width"]


def _is_complaint(message: ConsoleMessage) -> bool:
    """The page shows a refusal as a sentence; the browser logs it too, which is no error of the page."""
    is_refusal = "Failed to load resource" in message.text and "/api/" in message.location["url"]
    return message.type == "error" and not is_refusal


def _is_ours(url: str, address: str) -> bool:
    return url.startswith((f"{address}/", f"blob:{address}/"))


def visit(page: Page, address: str) -> None:
    page.goto(address)
    page.wait_for_selector("body[data-ready]")


@contextmanager
def opened(browser: Browser, jobs: RunJob) -> Iterator[Page]:
    """The page of a server with one worker and other jobs, for what the usual jobs do too fast to be seen."""
    with running(Settings(n_workers=1, time_limit=600.0, run_job=jobs)) as address:
        context = browser.new_context()
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        visit(page, address)
        yield page
        context.close()


def open_tab(page: Page, name: str) -> None:
    page.get_by_role("tab", name=name, exact=True).click()


def cell(page: Page, number: int) -> Locator:
    return page.locator(f"#grid-{number}")


def press_and_drag(page: Page, *cells: int) -> None:
    """Down in the first cell, over the others, and up."""
    page.locator("#grid").scroll_into_view_if_needed()
    for k, number in enumerate(cells):
        box = cell(page, number).bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        if k == 0:
            page.mouse.down()
    page.mouse.up()


def downloaded(page: Page, button: str) -> bytes:
    with page.expect_download() as waiting:
        page.get_by_role("button", name=button, exact=True).click()
    return Path(waiting.value.path()).read_bytes()


def world_of(page: Page) -> tl.ObjectWorld:
    """The world on the page, read from its link."""
    hash_ = page.get_by_label("Link").input_value().partition("#world=")[2]
    text = page.evaluate("async (hash) => (await import('/world.js')).fromLink('#world=' + hash)", hash_)
    return tl.ObjectWorld.from_json(text)


def choose_hard(page: Page, allowance: str) -> None:
    open_tab(page, "Learner")
    page.get_by_role("radio", name="Hard").check()
    page.get_by_label("Every allowance").fill(allowance)
    page.get_by_role("button", name="Set", exact=True).click()


def test_a_world_is_painted_taken_back_loaded_and_shared(page: Page, address: str, browser: Browser):
    """The first flow: the link holds the painted world, and a loaded world is not overwritten by mistake."""
    assert world_of(page) == tl.object_world(10, 0)
    page.get_by_role("radio", name="dot").check()
    # A fast stroke: the pointer is not seen in the cell between.
    press_and_drag(page, 90, 92)
    expect(cell(page, 91)).to_have_attribute("aria-label", "row 10, column 2: dot")
    page.get_by_role("radio", name="green").check()
    press_and_drag(page, 91)
    page.get_by_role("radio", name="start").check()
    press_and_drag(page, 99)
    world = world_of(page)
    assert set(world.objects["dot"]) == {57, 61, 90, 91, 92}
    assert 91 in world.distractors["green"] and world.start == 99 and world.generator == "hand"
    for _ in range(3):
        page.get_by_role("button", name="Undo").click()
    assert world_of(page) == tl.object_world(10, 0)
    for _ in range(3):
        page.get_by_role("button", name="Redo").click()
    assert world_of(page) == world
    link = page.get_by_label("Link").input_value()
    page.get_by_label("Seed").fill("3")
    page.get_by_role("button", name="Load this world").click()
    expect(page.locator("#world-name")).to_have_text("World published:3:10")
    assert world_of(page) == tl.object_world(10, 3)
    page.get_by_label("From a JSON file").set_input_files(
        {"name": "bad.json", "mimeType": "application/json", "buffer": b'{"size": 10, "start": "here"}'}
    )
    expect(page.locator("#status")).to_contain_text("start: input should be a valid integer")
    assert world_of(page) == tl.object_world(10, 3)
    page.get_by_label("From a JSON file").set_input_files(
        {"name": "mine.json", "mimeType": "application/json", "buffer": world.to_json().encode()}
    )
    expect(page.locator("#world-name")).to_contain_text("Your own world")
    assert world_of(page) == world
    guest = browser.new_context().new_page()
    visit(guest, link)
    assert world_of(guest) == world
    # What the guest paints is the guest's, and stays.
    press_and_drag(guest, 0)
    guest.reload()
    guest.wait_for_selector("body[data-ready]")
    guest.locator(".skip").press("Enter")
    assert 0 in world_of(guest).objects["star"]
    guest.context.close()


def test_numbers_are_stepped_within_reason_and_refused_beyond_their_bounds(page: Page):
    """An arrow key changes the discount by a hundredth; a number out of bounds is refused, and the world stays."""
    page.get_by_label("Discount").press("ArrowDown")
    assert world_of(page).discount == 0.98
    page.get_by_label("Discount").fill("1.5")
    page.get_by_label("Discount").press("Enter")
    expect(page.locator("#status")).to_contain_text("Discount: enter a number from 0.01 to 0.999.")
    assert world_of(page).discount == 0.98


@pytest.mark.parametrize("size", [2, 30])
def test_the_smallest_and_the_largest_world_can_be_painted_and_taught(page: Page, size: int):
    """From 2x2 to 30x30: every cell can be painted and a lesson is planned; the page remembers the world."""
    page.get_by_label("Cells along a side").fill(str(size))
    page.get_by_role("button", name="Resize").click()
    page.get_by_role("button", name="Empty the world").click()
    expect(page.get_by_role("gridcell")).to_have_count(size * size)
    press_and_drag(page, size - 1)
    choose_hard(page, "1")
    page.reload()
    expect(cell(page, size - 1)).to_have_attribute("aria-label", f"row 1, column {size}: star")
    open_tab(page, "Teach")
    page.get_by_role("button", name="Teach", exact=True).click()
    expect(page.locator("[data-teacher=aware_cmdp] .percent")).to_contain_text("%")


def test_any_learner_can_be_chosen(page: Page):
    """The second flow: the request has the learner that was chosen: names, allowances, penalties, soft or hard."""
    open_tab(page, "Learner")
    page.get_by_role("radio", name="L5").check()
    expect(page.get_by_role("checkbox", name="yellow within 2 cells")).to_be_checked()
    page.get_by_role("radio", name="L2").check()
    page.get_by_role("checkbox", name="green within 0 cells").uncheck()
    page.get_by_role("checkbox", name="yellow within 2 cells").check()
    page.get_by_label("Allowance for yellow within 2 cells").fill("1.5")
    page.get_by_label("Allowance for yellow within 2 cells").press("Enter")
    expect(page.get_by_role("radio", name="L2")).not_to_be_checked()
    page.get_by_role("slider", name="C r").press("ArrowRight")
    page.get_by_role("slider", name="C c").press("Home")
    asked = request_of_teaching(page)
    assert asked["learner"] == {
        "model": "soft",
        "preferences": [
            {"colour": "green", "distance": 1, "allowance": 0},
            {"colour": "yellow", "distance": 2, "allowance": 1.5},
        ],
        "mismatch_penalty": 5.5,
        "violation_penalty": 0.5,
    }
    choose_hard(page, "2")
    expect(page.get_by_role("slider", name="C r")).to_be_hidden()
    asked = request_of_teaching(page)
    assert asked["learner"]["model"] == "hard"
    assert [preference["allowance"] for preference in asked["learner"]["preferences"]] == [2, 2]
    # The bi-level teacher must know what a mismatch costs, which this learner does not say.
    assert asked["teacher"] == "aware_cmdp"


def request_of_teaching(page: Page) -> dict:
    """The request of the page after a click on Teach."""
    open_tab(page, "Teach")
    with page.expect_request("**/api/teach") as waiting:
        page.get_by_role("button", name="Teach", exact=True).click()
    expect(page.get_by_role("button", name="Cancel")).to_be_hidden()
    return waiting.value.post_data_json


def test_two_teachers_are_seen_side_by_side(page: Page):
    """The third flow: the numbers on the cards are the library's; each layer shows what it says it shows."""
    open_tab(page, "Teach")
    page.get_by_role("button", name="Teach", exact=True).click()
    expect(page.get_by_role("button", name="Cancel")).to_be_hidden()
    world = tl.object_world(10, 0)
    domain = world.domain("L3")
    learner = tl.SoftLearner(domain, mismatch_penalty=5, violation_penalty=10)
    plan = tl.BilevelTeacher(domain, world.true_weights, learner).plan()
    poor = tl.teach(tl.AgnosticTeacher(domain, world.true_weights), learner).final.response_reward
    aware, agnostic = page.locator("[data-teacher=bilevel]"), page.locator("[data-teacher=agnostic]")
    expect(aware.locator(".reward")).to_have_text(f"{plan.achieved:.3f}")
    expect(aware.locator(".percent")).to_have_text("100%")
    expect(aware.locator(".bound")).to_have_text(f"No lesson earns more than {plan.bound:.3f}.")
    expect(agnostic.locator(".reward")).to_have_text(f"{poor:.3f}")
    expect(agnostic.get_by_role("meter")).to_have_attribute("aria-valuenow", "0")
    expect(aware.get_by_role("row", name="green within 2 cells")).to_contain_text("exceeded, price 10.00")
    heat = aware.get_by_role("img", name="inferred reward")
    assert len(set(fills(heat))) > 3
    page.get_by_role("radio", name="policy").check()
    expect(aware.get_by_role("img", name="policy").locator("polygon[fill='#7b2a8b']")).not_to_have_count(0)
    page.get_by_role("radio", name="expected visits").check()
    assert len(set(fills(aware.get_by_role("img", name="expected visits")))) > 10
    open_tab(page, "Learner")
    page.get_by_role("radio", name="L1").check()
    open_tab(page, "Teach")
    expect(aware).to_contain_text("has changed since")


def fills(picture: Locator) -> list[str]:
    """The colour of each cell."""
    return picture.locator("rect[width='1']").evaluate_all("(cells) => cells.map((one) => one.getAttribute('fill'))")


def test_a_bilevel_lesson_is_shown_before_its_bound_is_known(browser: Browser):
    """The search for the bound never ends here: the card shows the lesson, and Cancel stops the search."""
    with opened(browser, playground_support.without_bounds) as page:
        open_tab(page, "Teach")
        page.get_by_role("combobox", name="beside").select_option("")
        page.get_by_role("button", name="Teach", exact=True).click()
        expect(page.locator("[data-teacher=bilevel] .reward")).to_have_text(re.compile(r"\d"))
        page.get_by_role("button", name="Cancel").click()
        expect(page.locator("[data-teacher=bilevel]")).to_contain_text("Cancelled.")


def test_what_cannot_be_taught_is_told_in_a_sentence(page: Page):
    """A learner whose preferences no policy keeps is refused on the card, and the page goes on."""
    page.get_by_role("radio", name="green").check()
    press_and_drag(page, 54)
    choose_hard(page, "0")
    open_tab(page, "Teach")
    page.get_by_role("button", name="Teach", exact=True).click()
    expect(page.locator("[data-teacher=aware_cmdp]")).to_contain_text("no policy satisfies")
    expect(page.get_by_role("button", name="Teach", exact=True)).to_be_enabled()


@pytest.mark.parametrize("teacher", ["volume_search", "line_search"])
def test_rounds_come_one_by_one_and_can_be_stepped_through(page: Page, teacher: str):
    """The fourth flow: the table has the library's rounds; stepping back redraws the sets and says why."""
    choose_hard(page, "2.5")
    open_tab(page, "Rounds")
    page.get_by_role("combobox", name="Teacher", exact=True).select_option(teacher)
    page.get_by_role("button", name="Start").click()
    expect(page.locator("#round-reason")).to_contain_text("Ended after")
    world = tl.object_world(10, 0)
    domain = world.domain("L3")
    make = {"volume_search": tl.VolumeSearchTeacher, "line_search": tl.LineSearchTeacher}[teacher]
    played = tl.teach(make(domain, world.true_weights), tl.HardLearner(domain, 2.5), max_rounds=20)
    page.locator("#rounds summary").click()
    rows = page.locator("#rounds-table tbody tr")
    expect(rows).to_have_count(len(played.rounds))
    for number in (1, len(played.rounds)):
        expect(rows.nth(number - 1)).to_contain_text(f"{played.rounds[number - 1].response_reward:.3f}")
    planes = page.locator("#planes svg")
    expect(planes).to_have_count(3)
    left = planes.first.locator("polygon[fill-opacity]")
    last = left.get_attribute("points")
    page.get_by_role("slider", name="Round").press("Home")
    expect(page.locator("#round-reason")).to_contain_text(f"Round 1: {played.rounds[0].reason}")
    page.get_by_role("button", name="Next").click()
    expect(page.locator("#round-reason")).to_contain_text("Round 2:")
    page.get_by_role("button", name="Previous").click()
    assert left.get_attribute("points") != last
    expect(planes.first.locator("rect")).to_have_count(1)


def test_rounds_are_shown_as_they_come_and_can_be_cancelled(browser: Browser):
    """The third round never comes here: two are shown and kept, and after Cancel the next request finds a worker."""
    with opened(browser, playground_support.two_rounds) as page:
        choose_hard(page, "2.5")
        open_tab(page, "Rounds")
        page.get_by_role("combobox", name="Teacher", exact=True).select_option("line_search")
        page.get_by_role("button", name="Start").click()
        expect(page.locator("#rounds-table tbody tr")).to_have_count(2)
        page.get_by_role("button", name="Cancel").click()
        expect(page.get_by_role("button", name="Cancel")).to_be_hidden()
        expect(page.locator("#rounds-table tbody tr")).to_have_count(2)
        open_tab(page, "Export")
        expect(page.get_by_label("Python snippet")).to_contain_text("ended early: cancelled")
        open_tab(page, "Rounds")
        page.get_by_label("Maximum number of rounds").fill("1")
        page.get_by_role("button", name="Start").click()
        expect(page.locator("#round-reason")).to_contain_text("Ended after 1 round")


def test_a_person_is_the_teacher(page: Page):
    """The fifth flow: the score is the learner's reward over the best, for the mean of the paths that were drawn."""
    choose_hard(page, "2.5")
    open_tab(page, "Be the teacher")
    expect(page.get_by_role("button", name="Show to the learner")).to_be_disabled()
    press_and_drag(page, 54, 44, 43, 42, 41, 40, 30)
    press_and_drag(page, 54)
    press_and_drag(page, 57)
    expect(page.get_by_role("list", name="Your paths").get_by_role("listitem")).to_have_count(2)
    page.get_by_role("button", name="Show to the learner").click()
    world = tl.object_world(10, 0)
    domain = world.domain("L3")
    learner = tl.HardLearner(domain, 2.5)
    drawn = [[54, 44, 43, 42, 41, 40, 30], [54, 55, 56, 57]]
    shown = np.mean([world.path_visits(path) for path in drawn], axis=0) @ domain.reward_features
    reward = world.true_weights @ learner.respond(tl.Lesson.from_expectation(shown)).expectation.reward
    best = tl.teach(tl.AwareCmdpTeacher(domain, world.true_weights, learner), learner).final.response_reward
    expect(page.locator("#score .percent")).to_have_text(f"Score: {100 * reward / best:.1f}%")
    cards = page.locator("#answers .card")
    expect(cards).to_have_count(2)
    expect(cards.nth(0).locator(".reward")).to_have_text(f"{reward:.3f}")
    expect(cards.nth(1).locator(".reward")).to_have_text(f"{best:.3f}")
    page.get_by_role("button", name="Remove path 2").click()
    expect(page.get_by_role("list", name="Your paths").get_by_role("listitem")).to_have_count(1)


def test_a_person_is_the_learner(page: Page):
    """The sixth flow: after a walk by mouse or by keys, the next lesson is the library's."""
    open_tab(page, "Be the learner")
    page.get_by_role("checkbox", name="green within 1 cell").check()
    page.get_by_role("button", name="Show me the first lesson").click()
    expect(page.locator("#walk-lesson")).to_contain_text("Lesson 1: an optimal policy")
    press_and_drag(page, 54, 53, 43, 33, 30)
    page.get_by_role("button", name="This is my walk").click()
    expect(page.locator("#walk-lesson")).to_contain_text("Lesson 2:")
    page.locator("#grid").focus()
    for key in ["ArrowLeft"] * 4 + ["ArrowUp"] * 3 + ["Backspace"] + ["ArrowUp"]:
        page.keyboard.press(key)
    walks = [[54, 53, 43, 33, 32, 31, 30], [54, 53, 52, 51, 50, 40, 30, 20]]
    with page.expect_request("**/api/adapt") as waiting:
        page.get_by_role("button", name="This is my walk").click()
    assert waiting.value.post_data_json["walks"] == walks
    assert "preferences" not in waiting.value.post_data
    world = tl.object_world(10, 0)
    domain = world.domain("L1")
    answers = (world.path_visits(walk) @ domain.reward_features for walk in walks)
    person = tl.CallbackLearner(domain, lambda lesson: next(answers))
    played = tl.teach(tl.VolumeSearchTeacher(domain, world.true_weights), person, max_rounds=2)
    expect(page.locator("#walk-table tbody tr")).to_have_count(2)
    expect(page.locator("#walk-lesson")).to_contain_text(f"earns the teacher {played.final.response_reward:.3f}")
    expect(page.locator("#walk-planes svg")).to_have_count(3)


def test_everything_can_be_taken_away(page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The last flow: files that the library reads, complete pictures, and Python that repeats the result."""
    choose_hard(page, "2.5")
    open_tab(page, "Teach")
    page.get_by_role("button", name="Teach", exact=True).click()
    expect(page.get_by_role("button", name="Cancel")).to_be_hidden()
    shown = float(page.locator("[data-teacher=aware_cmdp] .reward").inner_text())
    open_tab(page, "Export")
    assert tl.ObjectWorld.from_json(downloaded(page, "World as JSON").decode()) == tl.object_world(10, 0)
    page.get_by_label("Which").select_option("Teach: Aware-CMDP")
    rounds = json.loads(downloaded(page, "Transcript as JSON"))["rounds"]
    assert round(rounds[-1]["reward"], 3) == shown
    path = tmp_path / "transcript.npz"
    path.write_bytes(downloaded(page, "Transcript for load_transcript (.npz)"))
    loaded = tl.load_transcript(path, tl.object_world(10, 0).domain("L3"))
    assert loaded.final.response_reward == rounds[-1]["reward"]
    picture = ElementTree.fromstring(downloaded(page, "Aware-CMDP, inferred reward as SVG"))
    assert picture.tag.endswith("svg") and len(list(picture.iter())) > 100
    image = Image.open(io.BytesIO(downloaded(page, "world as PNG")))
    assert image.format == "PNG" and image.size == (900, 900)
    assert len(image.convert("RGB").getcolors(1 << 20)) > 5
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(downloaded(page, "Save as lesson.py").decode(), names)
    assert names["transcript"].final.response_reward == rounds[-1]["reward"]


def test_a_world_is_painted_without_a_mouse(page: Page):
    """Tab to the grid, arrows and the space bar; letters choose the brush; undo by its keys; tabs by theirs."""
    page.get_by_role("button", name="Empty the world").focus()
    page.keyboard.press("Enter")
    # Tabs do not come here more than once for all the cells.
    for _ in range(100):
        if page.evaluate("() => document.activeElement.id") == "grid":
            break
        page.keyboard.press("Shift+Tab")
    for key in ["ArrowRight", "ArrowDown", "p", " ", "ArrowDown", "g", "Enter", "ArrowRight", "t", " "]:
        page.keyboard.press(key)
    expect(page.locator("#status")).to_contain_text("row 3, column 3: start")
    assert page.locator("#grid").get_attribute("aria-activedescendant") == "grid-22"
    world = world_of(page)
    assert (world.objects["plus"], world.distractors["green"], world.start) == ((11,), (21,), 22)
    page.keyboard.press("Control+z")
    page.keyboard.press("Control+z")
    assert len(world_of(page).distractors["green"]) == 0
    page.keyboard.press("Control+y")
    assert list(world_of(page).distractors["green"]) == [21]
    page.get_by_role("tab", name="World").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tabpanel", name="Learner")).to_be_visible()


def test_every_control_has_a_name_and_every_picture_a_text(page: Page):
    """For screen readers: every button, field and picture on every tab has a name."""
    choose_hard(page, "2.5")
    open_tab(page, "Teach")
    page.get_by_role("button", name="Teach", exact=True).click()
    expect(page.get_by_role("button", name="Cancel")).to_be_hidden()
    for tab in page.get_by_role("tab").all():
        tab.click()
        for role in (
            "button",
            "textbox",
            "spinbutton",
            "combobox",
            "checkbox",
            "radio",
            "slider",
            "img",
            "grid",
            "meter",
        ):
            everyone = page.get_by_role(role).count()
            assert page.get_by_role(role, name="", exact=True).count() == 0
            assert page.get_by_role(role).filter(visible=True).count() == everyone
        assert page.get_by_role("tabpanel").count() == 1
    assert page.get_by_role("grid", name="World of 10 by 10 cells").count() == 1
    assert page.get_by_role("gridcell", name="row 1, column 3: star").count() == 1


def test_marks_can_be_told_apart_in_grey(page: Page):
    """Objects, distractors, the start, avoided and empty cells: every two differ without their colours."""
    page.get_by_role("button", name="Empty the world").click()
    kinds = ["star", "plus", "dot", "green", "yellow", "start"]
    for number, kind in enumerate(kinds):
        page.get_by_role("radio", name=kind, exact=True).check()
        press_and_drag(page, 15 * number)
    # Away from the grid, so that no cursor is drawn; L2 avoids cells within one cell of green.
    open_tab(page, "Learner")
    page.get_by_role("radio", name="L2").check()
    page.locator("#grid").scroll_into_view_if_needed()
    grey = {kind: in_grey(page, 15 * number) for number, kind in enumerate(kinds)}
    grey |= {"empty": in_grey(page, 9), "avoided": in_grey(page, 46)}
    for one, other in combinations(grey, 2):
        assert np.abs(grey[one] - grey[other]).mean() > TOLD_APART, (one, other)


def in_grey(page: Page, number: int) -> np.ndarray:
    """(24, 24), a cell in grey."""
    picture = Image.open(io.BytesIO(page.screenshot(clip=cell(page, number).bounding_box())))
    return np.asarray(picture.convert("L").resize((24, 24)), dtype=float)
