"""The page claims nothing that it does not know: without a server, without a bound, without rules, with half a link."""

import playground_support
import pytest
from page_support import GARDEN, NEAR_GREEN, card, open_tab, opened, press_and_drag, settled, visit, watched
from playground_support import MAY_SKIP_PAGE, NO_BROWSER
from playwright.sync_api import Browser, Page, Route, expect

import tutelage as tl

pytestmark = [pytest.mark.skipif(MAY_SKIP_PAGE, reason=NO_BROWSER), pytest.mark.timeout(600)]
TO_THE_PLUS = (32, 31, 30, 24, 18, 12)


def cut(route: Route) -> None:
    """The connection breaks."""
    route.abort("connectionrefused")


def ignored(route: Route) -> None:
    """No answer, ever."""


@pytest.mark.parametrize("broken", [cut, ignored])
def test_a_server_that_is_gone_is_not_a_learner_that_cannot_be_taught(page: Page, broken):
    """Neither "nobody can teach" nor endless waiting: a sentence about the server, and a button to try again."""
    settled(page)
    page.route("**/api/**", broken)
    page.get_by_role("slider", name="How much does it mind?").fill("3")
    expect(page.locator("#verdict")).to_contain_text("The server does not answer")
    settled(page)
    expect(page.locator("body")).not_to_contain_text("Nobody can teach")
    page.unroute("**/api/**")
    page.get_by_role("button", name="Try again").click()
    expect(card(page, "bilevel").locator(".percent")).to_contain_text("%")
    open_tab(page, "Be the teacher")
    page.route("**/api/**", broken)
    press_and_drag(page, *TO_THE_PLUS)
    expect(page.locator("#score")).to_contain_text("No score: the server does not answer")
    page.locator("#theme").click()
    expect(page.locator("#score")).not_to_contain_text("thinking")


def test_without_a_bound_there_is_no_share_no_star_and_no_praise(browser: Browser):
    """The search for the bound never ends here: "4.45 so far", on the card and in the game.

    It keeps one worker for ever; another one answers the path, however late that is drawn.
    """
    domain = GARDEN.domain(NEAR_GREEN)
    learner = tl.SoftLearner(domain, mismatch_penalty=5, violation_penalty=10)
    reward = tl.BilevelTeacher(domain, GARDEN.true_weights, learner).plan().achieved
    with opened(browser, playground_support.without_bounds, n_workers=2) as page:
        expect(card(page, "bilevel").locator(".numbers")).to_have_text(f"{reward:.2f} so far")
        expect(page.locator(".card .percent:not(:empty)")).to_have_count(0)
        open_tab(page, "Be the teacher")
        press_and_drag(page, *TO_THE_PLUS)
        expect(page.locator("#score")).to_contain_text(f"{reward:.2f} so far")
        expect(page.locator("#score")).not_to_contain_text("%")


def test_praise_has_its_measure_and_an_empty_path_wins_nothing(page: Page):
    """99.1 % is not "as good as can be"; a second path without a step is no second path."""
    open_tab(page, "Be the teacher")
    press_and_drag(page, *TO_THE_PLUS)
    expect(page.locator("#score .percent")).to_have_text("99.1 %")
    expect(page.locator("#score")).not_to_contain_text("As good as can be")
    page.get_by_role("button", name="Another path").click()
    expect(page.locator("#score .percent")).to_have_text("99.1 %")


def test_a_learner_without_rules_avoids_nothing(page: Page):
    """No cell is hatched or outlined, in the world and on the cards."""
    page.get_by_label("How strict it is").select_option("standard")
    settled(page)
    expect(page.locator("#grid > path")).to_have_count(0)
    expect(page.get_by_role("checkbox", name="green within 1 cell")).to_have_count(0)


def test_half_a_link_is_called_half_a_link(browser: Browser, page: Page, address: str):
    open_tab(page, "Share and keep")
    page.wait_for_function("() => document.getElementById('link').value.includes('#scene=')")
    link = page.get_by_label("Link").input_value()
    with watched(browser, address) as guest:
        visit(guest, link[:-30])
        expect(guest.locator("#status")).to_have_text("The link is incomplete. Copy the whole link, and open it again.")
