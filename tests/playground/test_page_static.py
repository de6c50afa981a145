"""Pages without a server: the site's page and exported files open from disk, offline, with the package's numbers."""

import json
import re
from pathlib import Path

import pytest
from page_support import (
    GARDEN,
    NEAR_GREEN,
    check_with_axe,
    downloaded,
    finger,
    open_tab,
    press_and_drag,
    reload,
    settled,
    visit,
    watched,
)
from playground_support import MAY_SKIP_PAGE, NO_BROWSER
from playwright.sync_api import Browser, Page, expect
from strategies import some_of

import tutelage as tl
from tools.site.story import CHALLENGES, best, site_page

pytestmark = [pytest.mark.skipif(MAY_SKIP_PAGE, reason=NO_BROWSER), pytest.mark.timeout(600)]
# A good lesson for each garden, as paths.
SOLUTIONS = [
    [(32, 33, 34, 35)],
    [(32, 31, 30, 24)],
    [(32, 26, 20, 14, 15), (32, 31, 30, 24, 18, 12)],
    [(32, 26, 20, 14), (32, 33, 34, 35)],
    [(32, 26, 27)],
]


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of the site's page, a file."""
    path = tmp_path_factory.mktemp("site") / "story.html"
    path.write_text(site_page(), encoding="utf-8")
    return path.as_uri()


def plot(page: Page, cells: tuple[int, ...], by: str = "mouse") -> None:
    boxes = [page.locator(f"#plot-{number}").bounding_box() for number in cells]
    places = [(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2) for box in boxes]
    if by == "finger":
        finger(page, *places)
        return
    page.mouse.move(*places[0])
    page.mouse.down()
    for place in places[1:]:
        page.mouse.move(*place)
    page.mouse.up()


@pytest.mark.parametrize("size", some_of(["large", "wide", "narrow"], ["narrow", "wide"]))
def test_the_site_s_page_is_played_from_a_file_without_a_network(browser: Browser, disk: str, size: str):
    """All five gardens are solved, with the share of the bound that the package proves; no other place is there.

    Only of a hard learner the bound is the optimum, so that the page may call it possible.
    """
    with watched(browser, disk, size, offline=True, has_touch=size == "narrow", bypass_csp=True) as page:
        visit(page, disk)
        expect(page.get_by_role("tab")).to_have_text(["The story", "Five gardens", "Round by round"])
        open_tab(page, "Five gardens")
        expect(page.locator("#panel-play .percent")).to_have_text("0 %")
        for garden, paths in zip(CHALLENGES, SOLUTIONS, strict=True):
            page.get_by_role("button", name=garden.name).click()
            for number, path in enumerate(paths):
                if number:
                    page.get_by_role("button", name="Draw a second path").click()
                plot(page, path, "finger" if size == "narrow" else "mouse")
            domain = garden.world.domain(garden.preferences)
            shown = sum(garden.world.path_visits(path) for path in paths) / len(paths) @ domain.reward_features
            answer = garden.learner(domain).respond(tl.Lesson.from_expectation(shown))
            reward, bound = garden.world.true_weights @ answer.expectation.reward, best(garden, garden.world).bound
            expect(page.locator("#panel-play .numbers")).to_have_text(
                f"{reward:.2f} of {bound:.2f} possible"
                if garden.model == "hard"
                else f"{reward:.2f} of at most {bound:.2f}"
            )
            expect(page.locator("#challenge-note")).to_contain_text("Solved")
        check_with_axe(page)
        page.get_by_role("button", name="Two beat one").click()
        plot(page, SOLUTIONS[2][0])
        one = page.locator("#panel-play .numbers").inner_text()
        page.get_by_role("button", name="Draw a second path").click()
        # A second path without a step changes nothing.
        expect(page.locator("#panel-play .numbers")).to_have_text(one)
        reload(page)
        expect(page.get_by_role("tab", name="Five gardens")).to_have_attribute("aria-selected", "true")


def test_the_rounds_on_the_site_are_the_package_s(browser: Browser, disk: str):
    """Every number of the recorded rounds, to the shown digits."""
    domain = GARDEN.domain(NEAR_GREEN)
    learner = tl.SoftLearner(domain, mismatch_penalty=5, violation_penalty=10)
    played = tl.teach(tl.VolumeSearchTeacher(domain, GARDEN.true_weights), learner, max_rounds=20)
    with watched(browser, disk, offline=True) as page:
        visit(page, f"{disk}#rounds")
        expect(page.locator("#film")).to_be_visible()
        for details in page.locator("#film details").all():
            details.locator("summary").first.click()
        rows = page.locator("#rounds-table tbody tr")
        expect(rows).to_have_count(len(played.rounds))
        for row, taught in zip(rows.all(), played.rounds, strict=True):
            expect(row).to_contain_text(f"{taught.response_reward:.3f}".rstrip())


@pytest.mark.parametrize("number", some_of(range(10), [0, 3, 7]))
def test_an_export_opens_in_the_state_that_it_promises(browser: Browser, address: str, tmp_path: Path, number: int):
    """Ten sequences of changes and reloads, then the export, opened offline: the same numbers, story and gardens."""
    changes = [
        lambda page: press_and_drag(page, number),
        # How much it minds, or how many visits it puts up with.
        lambda page: page.locator("#controls input[type=range]").first.fill(str(min(10, 2 + number))),
        lambda page: reload(page),
        lambda page: page.get_by_label("How strict it is").select_option("hard"),
        lambda page: page.get_by_role("slider", name="plus", exact=True).fill("0.5"),
        lambda page: reload(page),
    ]
    with watched(browser, address) as page:
        visit(page, f"{address}/#compare")
        for step in range(number % 5 + 1):
            changes[(number + step) % len(changes)](page)
        settled(page)
        expect(page.locator("#panel-compare .percent").last).to_contain_text("%")
        texts = page.locator("#panel-compare .numbers").all_inner_texts()
        open_tab(page, "Share and keep")
        expect(page.locator("#loopback")).to_contain_text("works only on this computer")
        if number % 2:
            reload(page)
        (tmp_path / "scene.html").write_bytes(downloaded(page, "Export as one HTML file"))
    disk = (tmp_path / "scene.html").as_uri()
    with watched(browser, disk, offline=True) as page:
        visit(page, disk)
        expect(page.get_by_role("tab", name="Compare teachers")).to_have_attribute("aria-selected", "true")
        settled(page)
        expect(page.locator("#panel-compare .numbers")).to_have_text(texts)
        reload(page)
        expect(page.locator("#panel-compare .numbers")).to_have_text(texts)
        open_tab(page, "Five gardens")
        plot(page, SOLUTIONS[0][0])
        expect(page.locator("#challenge-note")).to_contain_text("Solved")


def test_the_picture_follows_the_green_square_before_the_event_ends(browser: Browser, disk: str):
    """No server, no network and no later task: square, route, bar and hatching change within the key's own event.

    How long that takes is printed by `benchmarks/playground_speed.py frames`.
    """
    world = tl.ObjectWorld(6, 32, GARDEN.objects, {"green": [10]}, discount=0.95, weights=GARDEN.weights)
    domain = world.domain(NEAR_GREEN)
    learner = tl.SoftLearner(domain, mismatch_penalty=5, violation_penalty=10)
    plan = tl.BilevelTeacher(domain, world.true_weights, learner).plan()
    with watched(browser, disk, offline=True) as page:
        visit(page, f"{disk}#story-4")
        cell, meter = page.evaluate("""() => {
          const garden = document.getElementById("garden");
          garden.focus();
          garden.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowUp", bubbles: true }));
          const text = (id) => document.getElementById(id);
          return [text("garden-10").getAttribute("aria-label"), text("story-meter").textContent];
        }""")
    assert cell == "row 2, column 5: green, avoided"
    assert meter.endswith(f"{plan.achieved:.2f} of at most {plan.bound:.2f}")


def test_no_text_of_a_recording_ends_its_script(tmp_path: Path):
    """A recording may have any text; the page's script contains it as data."""
    from tutelage.playground.server import bundled

    text = bundled({"scene": {}, "answers": {"/api/players ": {"label": "</script><b>"}}})
    kept = re.search(r"tutelageRecording = (.*?);</script>", text)
    assert kept and json.loads(kept[1])["answers"]["/api/players "]["label"] == "</script><b>"
    assert "<script>globalThis.tutelageRecording = null;</script>" in bundled()
