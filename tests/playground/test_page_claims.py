"""The page claims nothing that it does not know: without a server, without a bound, without rules, with half a link."""

from pathlib import Path

import numpy as np
import playground_support
import pytest
from page_support import GARDEN, NEAR_GREEN, bring, card, open_tab, opened, press_and_drag, settled, visit, watched
from playground_support import MAY_SKIP_PAGE, NO_BROWSER
from playwright.sync_api import Browser, Page, Route, expect

import tutelage as tl

pytestmark = [pytest.mark.skipif(MAY_SKIP_PAGE, reason=NO_BROWSER), pytest.mark.timeout(600)]
MINUS = "\N{MINUS SIGN}"
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
    """At least 99.1 % is not "as good as can be"; a second path without a step is no second path."""
    open_tab(page, "Be the teacher")
    press_and_drag(page, *TO_THE_PLUS)
    expect(page.locator("#score .percent")).to_have_text("at least 99.1 %")
    expect(page.locator("#score")).not_to_contain_text("As good as can be")
    page.get_by_role("button", name="Another path").click()
    expect(page.locator("#score .percent")).to_have_text("at least 99.1 %")


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


def test_an_error_leaves_when_the_person_has_read_it_and_goes_on(browser: Browser, address: str):
    """It stays as long as nothing is done, and during the first seconds; the next click after these removes it."""
    with watched(browser, address) as page:
        page.clock.install()
        page.goto(f"{address}/#scene=broken")
        expect(page.locator("#status")).to_contain_text("The link is incomplete")
        page.locator("#story-note").click()
        page.clock.fast_forward(600_000)
        expect(page.locator("#status")).to_contain_text("The link is incomplete")
        page.locator("#story-note").click()
        expect(page.locator("#status")).to_have_text("")


def town_with_tolls() -> tl.Domain:
    """Nine places, with kilometres, hills and tolls on the roads; the last place is the end."""
    graph, rng = pytest.importorskip("networkx").DiGraph(), np.random.default_rng(4)
    places = [(i, j) for i in range(3) for j in range(3)]
    for i, j in places:
        graph.add_node(f"place {i}{j}", x=j, y=i)
    for i, j in places[:-1]:
        for a, b in ((i, j + 1), (i + 1, j), (i, j - 1), (i - 1, j)):
            if (a, b) in places:
                km, hills = rng.integers(1, 9), rng.integers(1, 9)
                numbers = {"km": float(km), "hills": float(hills), "toll": float(rng.random() < 0.4)}
                graph.add_edge(f"place {i}{j}", f"place {a}{b}", **numbers)
    features = {"reward_attributes": ["km", "hills"], "preference_attributes": ["toll"]}
    return tl.from_graph(graph, start="place 00", discount=0.95, **features)


def test_costs_are_compared_by_bars_that_grow_with_the_cost(page: Page, tmp_path: Path):
    """Where all rewards are negative: the reward, the bound that it stays below, and bars on one scale from zero.

    A share of a negative bound would say nothing, so there is none. Round by round speaks of a reward, not of points.
    """
    domain, weights = town_with_tolls(), np.array([-1.0, -0.5])
    learner = tl.SoftLearner(domain, mismatch_penalty=5, violation_penalty=10)
    plan = tl.BilevelTeacher(domain, weights, learner).plan()
    worst = tl.teach(tl.AgnosticTeacher(domain, weights), learner).final.response_reward
    assert worst < plan.achieved - 0.05 < plan.bound - 0.05 < 0
    tl.save(domain, tmp_path / "town.npz", true_weights=weights)
    bring(page, "town.npz", (tmp_path / "town.npz").read_bytes())
    for teacher, reward in (("agnostic", worst), ("bilevel", plan.achieved)):
        text = f"{reward:.2f}; no lesson gets more than {plan.bound:.2f}".replace("-", MINUS)
        expect(card(page, teacher).locator(".numbers")).to_have_text(text)
        expect(card(page, teacher).locator(".percent")).to_be_empty()
        track = card(page, teacher).get_by_role("meter").bounding_box()
        filling, mark = (card(page, teacher).locator(f".track .{part}").bounding_box() for part in ("filling", "most"))
        assert filling["width"] / track["width"] == pytest.approx(reward / worst, abs=0.02)
        # From zero, at the right end.
        assert filling["x"] + filling["width"] == pytest.approx(track["x"] + track["width"], abs=1)
        at = (mark["x"] + mark["width"] / 2 - track["x"]) / track["width"]
        assert at == pytest.approx(1 - plan.bound / worst, abs=0.02)
    expect(page.locator("#verdict")).to_contain_text(f"no lesson gets more than {plan.bound:.2f}".replace("-", MINUS))
    # The name of a feature does not touch its bar.
    believed = card(page, "bilevel").locator(".believed svg")
    name, bar = (believed.locator(part).first.bounding_box() for part in ("text", "rect"))
    assert name["y"] + name["height"] <= bar["y"]
    open_tab(page, "Round by round")
    played = tl.teach(tl.VolumeSearchTeacher(domain, weights), learner, max_rounds=20)
    expect(page.locator("#film output")).to_have_text(f"1 of {len(played.rounds)}")
    page.get_by_role("slider", name="Round").fill(str(len(played.rounds)))
    expect(page.locator("#round-ending")).to_contain_text("No teacher can make it earn more than")
    expect(page.locator("#panel-rounds")).not_to_contain_text("points")


def test_the_rounds_of_a_brought_domain_are_seen_without_being_an_expert(page: Page, tmp_path: Path):
    """A sentence about the answer, the pictures and the reason are there at once; Pip is of the painted worlds only."""
    tl.save(town_with_tolls(), tmp_path / "town.npz", true_weights=[-1.0, -0.5])
    bring(page, "town.npz", (tmp_path / "town.npz").read_bytes())
    expect(page.locator("#world-name")).to_have_text("town.npz")
    open_tab(page, "Round by round")
    expect(page.locator("#round-told")).to_contain_text("The learner")
    expect(page.locator("#film .panel").filter(has_text="What it does")).to_be_visible()
    expect(page.locator("#round-reason")).to_contain_text("Why this lesson")
    expect(page.locator("#panel-rounds")).not_to_contain_text("Pip", use_inner_text=True)
    page.get_by_role("button", name="Return to the painted world").click()
    expect(page.locator("#round-told")).to_contain_text("Where will Pip go?")
    expect(page.locator("#film .panel").filter(has_text="What it does")).to_be_hidden()
