"""The story that you can touch: by drawing, by dragging, by touch and by keys, with the package's numbers."""

from itertools import pairwise

import numpy as np
import pytest
from page_support import COVERED, EVERY_LOOK, FAULTS, GARDEN, NEAR_GREEN, check_with_axe, finger, visit, watched
from playground_support import MAY_SKIP_PAGE, NO_BROWSER
from playwright.sync_api import Browser, Page, expect
from strategies import some_of

import tutelage as tl

pytestmark = [pytest.mark.skipif(MAY_SKIP_PAGE, reason=NO_BROWSER), pytest.mark.timeout(600)]
TO_THE_STAR, TO_THE_PLUS = (32, 26, 20, 14, 15), (32, 31, 30, 24, 18, 12)


def place(page: Page, number: int) -> tuple[float, float]:
    box = page.locator(f"#garden-{number}").bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def draw(page: Page, cells: tuple[int, ...], by: str) -> None:
    """A path, or the way of the green square."""
    if by == "finger":
        finger(page, *[place(page, number) for number in cells])
    elif by == "mouse":
        for k, number in enumerate(cells):
            page.mouse.move(*place(page, number))
            if k == 0:
                page.mouse.down()
        page.mouse.up()
    else:
        page.locator("#garden").focus()
        keys = {1: "ArrowRight", -1: "ArrowLeft", 6: "ArrowDown", -6: "ArrowUp"}
        for one, other in pairwise(cells):
            page.keyboard.press(keys[other - one])


def next_step(page: Page, by: str) -> None:
    """To the next step, after a look at this one: nothing is cut, covered or outside of the screen."""
    page.evaluate("() => scrollTo(0, 0)")
    assert page.evaluate(FAULTS) == []
    assert page.evaluate(COVERED) == []
    if by == "keys":
        page.locator("#story-next").press("Enter")
    else:
        page.locator("#story-next").click()


@pytest.mark.parametrize(("size", "scheme"), some_of(EVERY_LOOK, [("narrow", "dark"), ("wide", "light")]))
def test_every_step_is_touched_and_says_the_package_s_numbers(browser: Browser, address: str, size: str, scheme: str):
    """Drawn and dragged with a finger on the phone, with the mouse and with keys elsewhere; axe finds no fault."""
    by = {"narrow": "finger", "wide": "mouse", "large": "keys"}[size]
    domain = GARDEN.domain(NEAR_GREEN)
    learner = tl.SoftLearner(domain, mismatch_penalty=5, violation_penalty=10)
    lesson = {path: GARDEN.path_visits(path) @ domain.reward_features for path in (TO_THE_STAR, TO_THE_PLUS)}
    answer = {path: learner.respond(tl.Lesson.from_expectation(shown)) for path, shown in lesson.items()}
    with watched(browser, address, size, scheme, bypass_csp=True, has_touch=size == "narrow") as page:
        visit(page, address)
        at = page.locator("#story-next").bounding_box()
        picture = page.locator("#garden").element_handle()
        draw(page, TO_THE_STAR, by)
        worth = GARDEN.true_weights @ lesson[TO_THE_STAR]
        expect(page.locator("#story-number strong")).to_have_text(f"{worth:.1f} points")
        assert page.evaluate("() => scrollY") == 0
        next_step(page, by)
        expect(page.locator("#story-note")).to_contain_text("wanders about")
        expect(page.locator("#story-number strong")).to_have_text("0 points")
        assert GARDEN.true_weights @ answer[TO_THE_STAR].expectation.reward < 0.05
        next_step(page, by)
        taught, *_, dislike = answer[TO_THE_STAR].learned_weights
        total = f"+{taught:.0f} − {-dislike:.0f} = −{-(taught + dislike):.0f}"  # noqa: RUF001
        expect(page.locator("#story-note")).to_contain_text(total)
        expect(page.locator(".tally").get_by_role("row", name="plus")).to_contain_text("never")
        check_with_axe(page)
        page.get_by_role("checkbox", name="What it dislikes").uncheck()
        expect(page.locator("#garden .figures")).to_have_count(1)
        expect(page.locator("#garden-9")).to_have_attribute("aria-label", "row 2, column 4: avoided")
        draw(page, (9,), "mouse")
        expect(page.locator("#story-note")).to_contain_text("because it is near green")
        next_step(page, by)
        draw(page, TO_THE_PLUS, by)
        best = tl.BilevelTeacher(domain, GARDEN.true_weights, learner).plan()
        reward = GARDEN.true_weights @ answer[TO_THE_PLUS].expectation.reward
        expect(page.locator("#story-meter .numbers")).to_have_text(f"{reward:.2f} of at most {best.bound:.2f}")
        share = np.floor(1000 * reward / best.bound) / 10  # never rounded up
        expect(page.locator("#story-meter .percent")).to_have_text(f"at least {share:.1f} %")
        next_step(page, by)
        draw(page, (16, 22, 23), by)
        world = tl.ObjectWorld(6, 32, GARDEN.objects, {"green": [23]}, discount=0.95, weights=GARDEN.weights)
        domain = world.domain(NEAR_GREEN)
        other = tl.SoftLearner(domain, mismatch_penalty=5, violation_penalty=10)
        best = tl.BilevelTeacher(domain, world.true_weights, other).plan()
        expect(page.locator("#story-meter .numbers")).to_have_text(f"{best.achieved:.2f} of at most {best.bound:.2f}")
        next_step(page, by)
        assert page.evaluate(COVERED) == []
        check_with_axe(page)
        assert page.locator("#story-next").bounding_box() == at
        assert page.evaluate("(picture) => picture === document.getElementById('garden')", picture)
        page.get_by_role("button", name="Five gardens").click()
        expect(page.get_by_role("tab", name="Five gardens")).to_have_attribute("aria-selected", "true")


def test_pip_walks_shakes_its_head_and_is_announced(browser: Browser, address: str):
    """With motion: it follows to the edge, is unhappy there, and wanders; each sentence is in a live region."""
    with watched(browser, address, reduced_motion="no-preference") as page:
        visit(page, f"{address}/#story-1")
        expect(page.locator("#sentence")).to_have_attribute("role", "status")
        expect(page.locator(".figure.pip.glad")).to_have_count(1)
        expect(page.locator(".figure.pip.no")).to_have_count(1)
        expect(page.locator("#story-note")).to_contain_text("wanders about")
        page.get_by_role("button", name="Show it again").click()
        expect(page.locator(".figure.pip.glad")).to_have_count(1)


def test_nothing_is_asked_from_the_server(browser: Browser, address: str):
    """The story's answers are on the page: no step of it makes a request."""
    with watched(browser, address) as page:
        visit(page, address)
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url) if "/api/" in request.url else None)
        for _ in range(5):
            next_step(page, "mouse")
        draw(page, (16, 10, 4), "mouse")
        assert asked == []
