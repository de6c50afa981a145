"""The page in Debian's Chromium, with a real server: the live comparison, the games, and what can be kept."""

import io
import json
import re
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import playground_support
import pytest
from page_support import (
    EVERY_LOOK,
    GARDEN,
    NEAR_GREEN,
    bring,
    card,
    cell,
    check_with_axe,
    choose_hard,
    downloaded,
    open_tab,
    opened,
    press_and_drag,
    reload,
    reward_in_garden,
    scene_of,
    settled,
    story_of_the_docs,
    tap,
    visit,
    watched,
    world_of,
)
from PIL import Image
from playground_support import MAY_SKIP_PAGE, NO_BROWSER
from playwright.sync_api import Browser, Page, expect
from scipy import sparse
from strategies import some_of

import tutelage as tl

pytestmark = [pytest.mark.skipif(MAY_SKIP_PAGE, reason=NO_BROWSER), pytest.mark.timeout(600)]
# How different two marks must be in grey, as the mean difference of pixels between 0 and 255.
TOLD_APART = 8.0


@pytest.mark.parametrize(("size", "scheme"), some_of(EVERY_LOOK, [("narrow", "dark")]))
def test_a_world_is_painted_and_taught_by_keys_alone(browser: Browser, address: str, size: str, scheme: str):
    """From the story to a painted world with its lesson, without a mouse; axe finds no fault."""
    with watched(browser, address, size, scheme, bypass_csp=True) as page:
        visit(page, f"{address}/#story-5")
        page.get_by_role("button", name="Change everything").press("Enter")
        page.locator("#grid").focus()
        for key in ["e", *["ArrowDown"] * 2, " ", "p", *["ArrowRight"] * 3, *["ArrowDown"] * 3, "Enter"]:
            page.keyboard.press(key)
        expect(page.locator("#status")).to_contain_text("row 6, column 4: plus")
        assert (world_of(page).objects["plus"], page.locator("#grid").get_attribute("aria-activedescendant")) == (
            (33,),
            "grid-33",
        )
        settled(page)
        expect(card(page, "bilevel").locator(".percent")).to_contain_text("%")
        check_with_axe(page)
        page.get_by_role("tab", name="Compare teachers").focus()
        for key, name in (("End", "Share and keep"), ("Home", "The story"), ("ArrowLeft", "Share and keep")):
            page.keyboard.press(key)
            expect(page.get_by_role("tab", name=name)).to_be_focused()
        check_with_axe(page)


def test_teachers_are_compared_live_with_the_numbers_of_the_library(page: Page):
    """Every card has the library's numbers; a slider, a brush and a teacher more are answered without a button."""
    settled(page)
    domain = GARDEN.domain(NEAR_GREEN)
    plan = tl.BilevelTeacher(
        domain, GARDEN.true_weights, tl.SoftLearner(domain, mismatch_penalty=5, violation_penalty=10)
    ).plan()
    aware, agnostic = card(page, "bilevel"), card(page, "agnostic")
    expect(aware.locator(".numbers")).to_have_text(f"{plan.achieved:.2f} of at most {plan.bound:.2f}")
    expect(agnostic.locator(".reward")).to_have_text("0")
    expect(agnostic.get_by_role("meter")).to_have_attribute("aria-valuenow", "0")
    expect(page.locator("#verdict")).to_contain_text("“Knows the learner” teaches best")
    aware.locator("summary").click()
    expect(aware.get_by_role("row", name="green within 1 cell")).to_contain_text("it matters, price 10.00")
    # A preference that is hardly broken is not broken by 0 visits.
    learner = tl.SoftLearner(domain, mismatch_penalty=5, violation_penalty=10)
    visits = tl.teach(tl.AgnosticTeacher(domain, GARDEN.true_weights), learner).final.response.expectation.preference
    assert 1e-6 < visits[0] < 0.005
    agnostic.locator("summary").click()
    expect(agnostic.get_by_role("row", name="green within 1 cell")).to_contain_text(f"{visits[0]:.6f}✗ broken")
    # One scale for all: the same legends on both cards.
    assert aware.locator(".legend").all_inner_texts() == agnostic.locator(".legend").all_inner_texts()
    choose_hard(page)
    expect(card(page, "aware_cmdp").locator(".reward")).to_have_text(f"{reward_in_garden('aware_cmdp', hard=True):.2f}")
    expect(agnostic.locator(".reward")).to_have_text("0")
    page.get_by_role("slider", name="Visits it puts up with").fill("2")
    learner = tl.HardLearner(domain, 2.0)
    taught = tl.teach(tl.AwareCmdpTeacher(domain, GARDEN.true_weights, learner), learner).final.response_reward
    expect(card(page, "aware_cmdp").locator(".reward")).to_have_text(f"{taught:.2f}")
    page.get_by_label("Add a teacher").select_option("conservative")
    settled(page)
    expect(page.locator(".card:visible .percent")).to_have_count(3)
    page.get_by_role("button", name="Remove Shows the best way").click()
    expect(page.locator(".card:visible")).to_have_count(2)
    page.get_by_role("radio", name="arrows").check()
    expect(card(page, "aware_cmdp").locator(".done polygon[fill-opacity]")).not_to_have_count(0)


def test_the_last_answer_wins_and_the_request_has_the_learner_that_was_chosen(page: Page):
    """Of many quick changes the last is shown; no older answer replaces it."""
    page.get_by_role("checkbox", name="green within 2 cells").check()
    page.get_by_role("checkbox", name="green within 1 cell").uncheck()
    page.get_by_role("slider", name="How much does it mind?").fill("0.5")
    with page.expect_request(
        lambda asked: asked.url.endswith("/teach") and "3.5" in (asked.post_data or "")
    ) as waiting:
        for penalty in ("9", "7.5", "3.5"):
            page.get_by_role("slider", name="Wants to do as shown").fill(penalty)
    assert waiting.value.post_data_json["learner"] == {
        "model": "soft",
        "preferences": [{"colour": "green", "distance": 2, "allowance": 0}],
        "mismatch_penalty": 3.5,
        "violation_penalty": 0.5,
    }
    settled(page)
    domain = GARDEN.domain(["green within 2 cells"])
    learner = tl.SoftLearner(domain, mismatch_penalty=3.5, violation_penalty=0.5)
    reward = tl.teach(tl.AgnosticTeacher(domain, GARDEN.true_weights), learner).final.response_reward
    expect(card(page, "agnostic").locator(".reward")).to_have_text(f"{reward:.2f}")
    page.get_by_role("button", name="L5").click()
    expect(page.get_by_role("checkbox", name="yellow within 2 cells")).to_be_checked()


def test_a_world_is_painted_taken_back_loaded_and_refused(page: Page):
    """A fast stroke, undo and redo, a generated world, files; what is refused leaves the world and the field alone."""
    choose_hard(page)
    page.get_by_role("radio", name="dot").check()
    # The pointer is not seen in the cell between.
    press_and_drag(page, 18, 20)
    expect(cell(page, 19)).to_have_attribute("aria-label", "row 4, column 2: dot")
    page.get_by_role("radio", name="yellow").check()
    press_and_drag(page, 19)
    world = world_of(page)
    assert set(world.objects["dot"]) == {18, 19, 20, 35} and world.distractors["yellow"] == (19,)
    for _ in range(2):
        page.get_by_role("button", name="Undo", exact=True).click()
    assert world_of(page) == GARDEN
    page.keyboard.press("Control+y")
    page.get_by_role("button", name="Redo").click()
    assert world_of(page) == world
    page.get_by_label("Discount").fill("1.5")
    page.get_by_label("Discount").press("Enter")
    expect(page.locator("#status")).to_have_text("Discount: enter a number from 0.01 to 0.999.")
    expect(page.get_by_label("Discount")).to_have_value("0.95")
    page.get_by_label("Seed").fill("3")
    page.get_by_role("button", name="Load this world").click()
    expect(page.locator("#world-name")).to_have_text("World published:3:6")
    bring(page, "bad.json", b'{"size": 10, "start": "here"}')
    expect(page.locator("#status")).to_contain_text("bad.json cannot be used: start: input should be a valid integer")
    assert world_of(page) == tl.object_world(6, 3)
    bring(page, "mine.json", world.to_json().encode())
    expect(page.locator("#status")).to_have_text("Opened mine.json.")
    assert world_of(page) == world
    bring(page, "story.json", story_of_the_docs())
    expect(page.locator("#sentence")).to_have_text("The star is worth most.")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#story-number strong")).to_have_text("100 %")


def test_a_mark_is_dragged_and_everything_is_taken_back_by_one_undo(page: Page):
    """Dragging moves a mark, a click paints; then chips, sliders, teachers and paths are taken back in their order."""
    start = scene_of(page)
    taught = ("world", "learner", "teachers", "paths")

    def now() -> dict:
        scene = scene_of(page)
        return {key: scene[key] for key in taught}

    states = [{key: start[key] for key in taught}]
    # The brush is a star, and the star itself is dragged: it moves. So does the green square, and the start.
    for way in ((15, 14, 8), (16, 22), (32, 33)):
        press_and_drag(page, *way)
        states.append(now())
    assert (states[-1]["world"]["objects"]["star"], states[-1]["world"]["start"]) == ([8], 33)
    assert states[-1]["world"]["distractors"]["green"] == [22]
    press_and_drag(page, 0)
    states.append(now())
    page.get_by_role("checkbox", name="yellow within 0 cells").check()
    states.append(now())
    box = page.get_by_role("slider", name="How much does it mind?").bounding_box()
    page.mouse.move(box["x"] + 30, box["y"] + box["height"] / 2)
    page.mouse.down()
    for x in (40, 60, 90):
        page.mouse.move(box["x"] + x, box["y"] + box["height"] / 2)
    page.mouse.up()
    states.append(now())
    page.get_by_label("Add a teacher").select_option("conservative")
    states.append(now())
    open_tab(page, "Be the teacher")
    press_and_drag(page, 33, 27, 26)
    assert now()["paths"] == [[33, 27, 26]]
    for state in reversed(states):
        page.keyboard.press("Control+z")
        assert now() == state
    expect(page.get_by_role("button", name="Undo", exact=True)).to_be_disabled()
    page.get_by_role("button", name="Redo", exact=True).click()
    assert now() == states[1]


@pytest.mark.parametrize("size", [2, *some_of([30], [16])])
def test_the_smallest_and_the_largest_world_are_taught(page: Page, size: int):
    """From 2x2 to 30x30 (the sample: 16x16): an empty world has nothing to earn, and says so; then a star is found."""
    choose_hard(page)
    page.get_by_label("Cells along a side").fill(str(size))
    page.get_by_label("Cells along a side").press("Enter")
    page.get_by_role("button", name="Empty the world").click()
    expect(page.get_by_role("gridcell")).to_have_count(size * size)
    settled(page)
    expect(card(page, "aware_cmdp").locator(".numbers")).to_have_text("0: no lesson earns anything here")
    press_and_drag(page, size - 1)
    settled(page)
    expect(card(page, "aware_cmdp").locator(".percent")).to_have_text("100 %")
    page.get_by_role("radio", name="arrows").check()
    triangles = card(page, "aware_cmdp").locator(".done polygon")
    expect(triangles).not_to_have_count(0)
    if size > 2:
        # One arrow of a readable size in each cell on the way.
        assert triangles.last.bounding_box()["width"] > 4


def test_what_cannot_be_taught_is_told_in_a_sentence_and_nothing_else_is_claimed(page: Page):
    """A learner whose preferences no policy keeps: every card says so, none has a number, and the page goes on."""
    choose_hard(page)
    settled(page)
    page.get_by_role("radio", name="green").check()
    press_and_drag(page, 32)
    expect(card(page, "aware_cmdp").get_by_role("alert")).to_contain_text("no policy satisfies")
    settled(page)
    expect(page.locator(".card .reward")).to_have_count(0)
    expect(page.locator("#verdict")).to_have_text("Nobody can teach this learner here.")
    expect(page.locator("#status")).to_have_text("")
    page.get_by_role("button", name="Undo", exact=True).click()
    expect(card(page, "aware_cmdp").locator(".percent")).to_have_text("100 %")


def test_a_lesson_without_a_tight_bound_is_still_a_lesson(browser: Browser):
    """Only the search for the bound fails here: the card has its reward and says that the bound is missing."""
    with opened(browser, playground_support.failing_bounds) as page:
        expect(card(page, "bilevel").locator(".note")).to_contain_text("No tight bound")
        expect(card(page, "bilevel").locator(".numbers")).to_contain_text("so far")
        expect(card(page, "bilevel").get_by_role("alert")).to_have_count(0)


@pytest.mark.parametrize("teacher", ["volume_search", *some_of(["line_search"], [])])
def test_rounds_are_a_detective_s_map(page: Page, teacher: str):
    """A guess, a bet, the answer and what follows; the last sentence is a share of the bound; experts find the rest."""
    choose_hard(page)
    open_tab(page, "Round by round")
    told = page.locator("#round-told")
    expect(told).to_contain_text("Where will Pip go?")
    expect(page.locator("#clues text").filter(has_text="?")).to_have_count(36)
    page.get_by_text("For experts").first.click()
    page.get_by_role("combobox", name="Teacher", exact=True).select_option(teacher)
    domain = GARDEN.domain(NEAR_GREEN)
    make = {"volume_search": tl.VolumeSearchTeacher, "line_search": tl.LineSearchTeacher}[teacher]
    played = tl.teach(make(domain, GARDEN.true_weights), tl.HardLearner(domain), max_rounds=20)
    expect(page.locator("#film output")).to_have_text(f"1 of {len(played.rounds)}")
    page.get_by_role("button", name="to the star").click()
    expect(told).to_contain_text("I showed the star. It stayed away. So it minds something near the star")
    expect(page.locator("#bets")).to_contain_text("It went nowhere in particular. 0 of 1 bets right.")
    expect(page.locator("#clues text").filter(has_text="✗")).not_to_have_count(0)
    page.get_by_role("slider", name="Round").fill(str(len(played.rounds)))
    best = reward_in_garden("aware_cmdp", hard=True)
    expect(page.locator("#round-ending")).to_contain_text(f"more than {best:.2f} points")
    share = played.final.response_reward / best
    assert 0.99 < share < 0.9995
    expect(page.locator("#round-ending")).to_contain_text(f"this is {np.floor(1000 * share) / 10:.1f} %")
    expect(page.locator("#round-reason")).to_contain_text("Ended after")
    page.get_by_text("All rounds as a table").first.click()
    rows = page.locator("#rounds-table tbody tr")
    expect(rows).to_have_count(len(played.rounds))
    expect(rows.last).to_contain_text(f"{played.final.response_reward:.3f}")
    planes = page.locator("#planes svg")
    expect(planes).to_have_count(3)
    expect(planes.first.locator("rect")).to_have_count(len(played.rounds))
    page.get_by_role("slider", name="Round").fill("1")
    expect(page.locator("#round-reason")).to_contain_text(f"Why this lesson: {played.rounds[0].reason}")
    expect(planes.first.locator("rect")).to_have_count(1)
    page.get_by_role("button", name="Play").click()
    expect(told).to_contain_text("Lesson 2")
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Play")).to_be_visible()


def test_rounds_are_shown_as_they_come(browser: Browser):
    """The third round never comes here: two are shown; another choice stops the job, and is answered."""
    with opened(browser, playground_support.two_rounds) as page:
        choose_hard(page)
        open_tab(page, "Round by round")
        page.get_by_text("For experts").first.click()
        page.get_by_role("combobox", name="Teacher", exact=True).select_option("line_search")
        expect(page.locator("#film output")).to_have_text("1 of 2")
        page.get_by_role("checkbox", name="green within 1 cell").uncheck()
        page.get_by_role("button", name="to the star").click()
        expect(page.locator("#round-reason")).to_contain_text("Ended after 1 round")


def test_a_person_is_the_teacher(phone: Page):
    """On a phone, by taps: the score is the learner's reward over the best, for what is drawn now and nothing else."""
    page = phone
    choose_hard(page)
    open_tab(page, "Be the teacher")
    expect(page.get_by_role("button", name="Clear")).to_be_disabled()
    tap(page, 30)
    tap(page, 12)
    domain = GARDEN.domain(NEAR_GREEN)
    learner = tl.HardLearner(domain)
    drawn = [32, 31, 30, 24, 18, 12]
    shown = GARDEN.path_visits(drawn) @ domain.reward_features
    reward = GARDEN.true_weights @ learner.respond(tl.Lesson.from_expectation(shown)).expectation.reward
    share = reward / reward_in_garden("aware_cmdp", hard=True)
    expect(page.locator("#score .percent")).to_have_text(f"{100 * share:.0f} %")
    assert scene_of(page)["paths"] == [drawn]
    expect(page.locator("#strip")).to_contain_text(f"{100 * share:.0f} %")
    page.get_by_role("button", name="Clear").click()
    expect(page.locator("#score")).to_contain_text("Draw a path")
    expect(page.locator("#score .percent")).to_have_count(0)
    expect(card(page, "you")).to_be_hidden()
    # A path that is no good has its own score.
    tap(page, 15)
    expect(page.locator("#score .percent")).to_have_text("0 %")
    page.get_by_role("button", name="Show me the best lesson").click()
    expect(card(page, "best").locator(".percent")).to_have_text("100 %")
    # A finger that moves over the grid scrolls the page: the grid does not take its gesture.
    assert page.locator("#grid").evaluate("(grid) => getComputedStyle(grid).touchAction") == "manipulation"


def test_a_person_is_the_learner_and_the_teacher_says_what_it_concludes(page: Page):
    """After a walk the next lesson is the library's; the secret stays on the page until the reveal compares it."""
    open_tab(page, "Be the learner")
    page.get_by_role("checkbox", name="green within 1 cell").check()
    page.get_by_role("button", name="Show me the first lesson").click()
    expect(page.locator("#walk-lesson")).to_contain_text("Lesson 1: an optimal policy")
    page.locator("#grid").focus()
    for key in ["ArrowLeft"] * 2 + ["ArrowUp"] * 3 + ["Backspace"] + ["ArrowUp"]:
        page.keyboard.press(key)
    walk = [32, 31, 30, 24, 18, 12]
    with page.expect_request("**/api/adapt") as waiting:
        page.get_by_role("button", name="This is my walk").click()
    assert waiting.value.post_data_json["walks"] == [walk]
    assert "secret" not in waiting.value.post_data and "preferences" not in waiting.value.post_data
    domain = GARDEN.domain("L1")
    person = tl.CallbackLearner(domain, lambda lesson: GARDEN.path_visits(walk) @ domain.reward_features)
    played = tl.teach(tl.VolumeSearchTeacher(domain, GARDEN.true_weights), person, max_rounds=1)
    expect(page.locator("#walk-lesson")).to_contain_text(f"Your walk earned {played.final.response_reward:.2f}")
    rows = page.locator("#conclusions").get_by_role("row")
    expect(rows.filter(has_text="green within 1 cell").get_by_role("cell").nth(2)).to_have_text("you avoid it")
    # Nobody was shown the green square itself, so what is said of it has its reason beside it.
    expect(rows.filter(has_text="green within 0 cells")).to_contain_text("you avoid it: follows from “within 1 cell”")
    expect(page.locator("#walk-planes svg")).to_have_count(3)
    expect(page.locator("#walk-clues text").filter(has_text="✗")).not_to_have_count(0)
    # The next lesson stays visible while one walks, and one's own walk has another colour.
    page.locator("#grid").focus()
    page.keyboard.press("ArrowLeft")
    colours = page.locator("#grid .routes, #grid .path polyline").evaluate_all(
        "(all) => all.map((e) => e.getAttribute('stroke'))"
    )
    assert len(set(colours)) == 3
    page.get_by_role("button", name="Reveal my secret").click()
    expect(page.locator("#self-score")).to_contain_text("I was right about 2 of the 3")
    expect(page.locator("#conclusions").get_by_role("row", name="green within 0")).to_contain_text("you do avoid it ✓")
    expect(page.locator("#estimate")).to_contain_text("95 % confidence")


def test_everything_can_be_kept(page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Files that the library reads, pictures with title and legend, Python that repeats the result; and why not."""
    choose_hard(page)
    expect(card(page, "aware_cmdp").locator(".percent")).to_have_text("100 %")
    page.get_by_role("button", name="Enlarge: What it does, Knows the rules").click()
    picture = ElementTree.fromstring(downloaded(page, "Save as SVG"))
    words = " ".join(picture.itertext())
    assert "What it does: Knows the rules" in words and "visits" in words
    image = Image.open(io.BytesIO(downloaded(page, "Save as PNG")))
    assert image.format == "PNG" and image.width == 900 and len(image.convert("RGB").getcolors(1 << 20)) > 5
    page.get_by_role("button", name="Close").click()
    open_tab(page, "Share and keep")
    assert tl.ObjectWorld.from_json(downloaded(page, "World as JSON").decode()) == GARDEN
    page.get_by_label("Which result").select_option("Compare: Knows the rules")
    kept = json.loads(downloaded(page, "Rounds as JSON"))
    (tmp_path / "transcript.npz").write_bytes(downloaded(page, "Rounds for Python (.npz)"))
    loaded = tl.load_transcript(tmp_path / "transcript.npz", GARDEN.domain(NEAR_GREEN))
    assert loaded.final.response_reward == kept["rounds"][-1]["reward"]
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(downloaded(page, "Save as lesson.py").decode(), names)
    assert names["transcript"].final.response_reward == kept["rounds"][-1]["reward"]
    open_tab(page, "Be the teacher")
    press_and_drag(page, 32, 30)
    expect(page.locator("#score .percent")).to_contain_text("%")
    open_tab(page, "Share and keep")
    page.get_by_label("Which result").select_option("Your paths")
    expect(page.get_by_role("button", name="Rounds for Python (.npz)")).to_be_disabled()
    expect(page.locator("#npz-why")).to_contain_text("no rounds of a teacher")
    # The rounds that were saved are shown again, with the file of either kind.
    bring_from = page.locator("#file")
    open_tab(page, "Compare teachers")
    bring_from.set_input_files({"name": "kept.json", "mimeType": "", "buffer": json.dumps(kept).encode()})
    expect(page.locator("#film output")).to_have_text("1 of 1")


def test_a_link_a_reload_the_back_button_and_a_second_tab(browser: Browser, page: Page, address: str):
    """A link holds the whole scene, a reload keeps it, the back button goes back, and tabs do not share a scene."""
    choose_hard(page)
    page.get_by_role("radio", name="dot").check()
    press_and_drag(page, 0)
    page.get_by_label("Add a teacher").select_option("conservative")
    open_tab(page, "Be the teacher")
    press_and_drag(page, 32, 30)
    open_tab(page, "Share and keep")
    page.wait_for_function("() => document.getElementById('link').value.includes('#scene=')")
    link = page.get_by_label("Link").input_value()
    scene = scene_of(page)
    reload(page)
    assert scene_of(page) == scene
    expect(page.get_by_role("tab", name="Share and keep")).to_have_attribute("aria-selected", "true")
    page.go_back()
    expect(page.get_by_role("tab", name="Be the teacher")).to_have_attribute("aria-selected", "true")
    second = page.context.new_page()
    visit(second, address)
    assert scene_of(second)["world"]["objects"]["dot"] == [35] and scene_of(page)["world"]["objects"]["dot"] == [0, 35]
    with watched(browser, address) as guest:
        visit(guest, link)
        expect(guest.locator("#status")).to_have_text("This is the scene of the link.")
        expect(guest.get_by_role("tab", name="Be the teacher")).to_have_attribute("aria-selected", "true")
        found = scene_of(guest)
        assert {key: found[key] for key in ("world", "learner", "teachers", "paths")} == {
            key: scene[key] for key in ("world", "learner", "teachers", "paths")
        }
        guest.goto(f"{address}/#scene=broken")
        expect(guest.locator("#status")).to_contain_text("The link is incomplete")


def roads(n: int) -> tl.Domain:
    """n junctions at random places; each leads to its neighbours. A bank in a toll zone, and a shop outside."""
    rng = np.random.default_rng(0)
    places = rng.uniform(0, 10, (n, 2))
    near = np.argsort(((places[:, None] - places[None]) ** 2).sum(axis=2), axis=1)[:, :5]
    rows = sparse.csr_array((np.ones(5 * n), near.ravel(), np.arange(5 * n + 1)), shape=(5 * n, n))
    mdp = tl.MDP.from_choices(rows, np.arange(0, 5 * n + 1, 5), np.eye(1, n)[0], 0.95)
    rewards = np.zeros((n, 2))
    rewards[near[0, 1], 0] = rewards[near[0, 3], 1] = 1.0
    toll = np.zeros((n, 1))
    toll[near[0, 1]] = 1.0
    names = [f"junction {k}" for k in range(n)]
    return tl.Domain(mdp, rewards, toll, ("bank", "shop"), ("toll",), positions=places, state_names=names)


@pytest.mark.parametrize("n", some_of([2000], [500]))
def test_a_large_domain_is_brought_and_taught(page: Page, tmp_path: Path, n: int):
    """By file: its names, its map, the library's reward; a wrong and a huge file are told in a sentence."""
    domain = roads(n)
    tl.save(domain, tmp_path / "roads.npz")
    content = (tmp_path / "roads.npz").read_bytes()
    bring(page, "roads.npz", content)
    # No verdict before the page knows what is good: the person says so, or the file.
    expect(page.locator("#verdict")).to_contain_text("what is good and what is bad")
    open_tab(page, "Round by round")
    expect(page.locator("#panel-rounds")).to_contain_text("Say first")
    page.get_by_role("button", name="Teach with this").click()
    expect(page.locator("#worth").get_by_role("alert")).to_contain_text("at least one of them good or bad")
    open_tab(page, "Compare teachers")
    for name in domain.reward_names:
        page.get_by_role("radio", name=f"{name}: + good").check()
    page.get_by_role("button", name="Teach with this").click()
    learner = tl.HardLearner(domain)
    best = tl.teach(tl.AwareCmdpTeacher(domain, np.ones(2), learner), learner).final.response_reward
    expect(card(page, "aware_cmdp").locator(".reward")).to_have_text(f"{best:.2f}")
    expect(page.locator("#ground")).to_contain_text(f"{n} states, {5 * n} choices, from junction 0")
    card(page, "aware_cmdp").locator("summary").click()
    expect(card(page, "aware_cmdp").get_by_role("row", name="shop")).to_be_visible()
    expect(card(page, "aware_cmdp")).to_contain_text("Most visits: junction")
    tl.save(domain, tmp_path / "weighed.npz", true_weights=[0.5, 0.25])
    bring(page, "weighed.npz", (tmp_path / "weighed.npz").read_bytes())
    best = tl.teach(tl.AwareCmdpTeacher(domain, np.array([0.5, 0.25]), learner), learner).final.response_reward
    expect(card(page, "aware_cmdp").locator(".reward")).to_have_text(f"{best:.2f}")
    bring(page, "half.npz", content[: len(content) // 2])
    expect(page.locator("#status")).to_contain_text("half.npz cannot be used: the file cannot be read")
    bring(page, "huge.npz", b"PK" + bytes(3 << 20))
    expect(page.locator("#status")).to_contain_text("huge.npz cannot be used: it has 3145730 bytes")
    page.get_by_role("button", name="Return to the painted world").click()
    expect(page.get_by_role("gridcell")).to_have_count(36)


def test_a_gymnasium_grid_is_a_grid_and_the_file_says_what_is_good(page: Page, tmp_path: Path):
    """FrozenLake: 16 squares instead of dots, each with its name under a pointer; no question before the verdict."""
    gymnasium = pytest.importorskip("gymnasium")
    lake = gymnasium.make("FrozenLake-v1", is_slippery=False)
    domain = tl.from_gymnasium(lake, discount=0.9, preference_features=lambda state: {"ice": float(state in (1, 2))})
    tl.save(domain, tmp_path / "lake.npz", true_weights=[1.0])
    bring(page, "lake.npz", (tmp_path / "lake.npz").read_bytes())
    expect(page.locator("#worth")).to_have_count(0)
    settled(page)
    picture = page.locator("#ground svg.picture")
    assert picture.evaluate("(svg) => svg.querySelector('path').getAttribute('d').split('z').length - 1") == 16
    expect(picture.locator("path.roads")).to_have_attribute("d", re.compile(r"^M0.5 0.5L1.5 0.5"))
    box = picture.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 5 / 8, box["y"] + box["height"] * 3 / 8)
    expect(page.locator("#hover")).to_have_text("row 1, column 2")
    learner = tl.SoftLearner(domain, mismatch_penalty=5, violation_penalty=10)
    reward = tl.teach(tl.AgnosticTeacher(domain, np.ones(1)), learner).final.response_reward
    expect(card(page, "agnostic").locator(".reward")).to_have_text(f"{reward:.2f}")


def test_streets_have_their_names_under_a_pointer_and_avoided_ones_a_colour(page: Page, tmp_path: Path):
    """A triangle of streets, one of them unpaved: its line is marked, and the pointer finds the names of all."""
    graph = pytest.importorskip("networkx").Graph()
    places = {"home": (0, 0), "bridge": (4, 0), "school": (0, 4)}
    for node, (x, y) in places.items():
        graph.add_node(node, x=x, y=y)
    for ends, name in (
        (("home", "bridge"), "Main Street"),
        (("bridge", "school"), "Mud Lane"),
        (("home", "school"), "Long Road"),
    ):
        graph.add_edge(*ends, name=name, views=float(name != "Long Road"), unpaved=float(name == "Mud Lane"))
    features = {"reward_attributes": ["views"], "preference_attributes": ["unpaved"]}
    domain = tl.from_graph(graph, start="home", discount=0.9, choice_names="name", **features)
    tl.save(domain, tmp_path / "streets.npz", true_weights=[1.0])
    bring(page, "streets.npz", (tmp_path / "streets.npz").read_bytes())
    picture = page.locator("#ground svg.picture")
    expect(picture.locator("path.roads")).to_have_attribute("d", re.compile(r"^M[\d. ]+L[\d. ]+$"))
    box = picture.bounding_box()
    side = min(box["width"], box["height"]) / 12
    left, top = box["x"] + (box["width"] - 12 * side) / 2, box["y"] + (box["height"] - 12 * side) / 2
    for (x, y), name in (
        ((6, 6), "Mud Lane"),
        ((6, 11.5), "Main Street"),
        ((0.5, 6), "Long Road"),
        ((0.5, 0.5), "school"),
    ):
        page.mouse.move(left + x * side, top + y * side)
        expect(page.locator("#hover")).to_have_text(name)
    settled(page)


def test_marks_can_be_told_apart_in_grey(page: Page):
    """Objects, distractors, the start, avoided and empty cells: every two differ without their colours."""
    page.get_by_role("button", name="Empty the world").click()
    kinds = ["star", "plus", "dot", "green", "yellow", "start"]
    for number, kind in enumerate(kinds):
        page.get_by_role("radio", name=kind, exact=True).check()
        press_and_drag(page, 7 * number)
    # Away from the grid, so that no cursor is drawn.
    page.get_by_role("tab", name="Compare teachers").focus()
    page.locator("#grid").scroll_into_view_if_needed()
    grey = {kind: in_grey(page, 7 * number) for number, kind in enumerate(kinds)}
    grey |= {"empty": in_grey(page, 5), "avoided": in_grey(page, 20)}
    for one, other in combinations(grey, 2):
        assert np.abs(grey[one] - grey[other]).mean() > TOLD_APART, (one, other)


def in_grey(page: Page, number: int) -> np.ndarray:
    """(24, 24), a cell in grey."""
    picture = Image.open(io.BytesIO(page.screenshot(clip=cell(page, number).bounding_box())))
    return np.asarray(picture.convert("L").resize((24, 24)), dtype=float)
