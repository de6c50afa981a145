"""The times of docs/playground.md: `PYTHONPATH=tests:. python benchmarks/playground_speed.py` on an idle machine.

The first times are those of a person, in Chromium: of a dragged square in the static page, which has no server and no
network (these alone: `playground_speed.py frames`), and from a moved slider to the new picture. The others are those of
the server's answers.
"""

import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter
from typing import Any

import httpx
from playground_support import CHROMIUM, learner_fields, running, teaching  # type: ignore[import-not-found]

import tutelage as tl
from tools.site.story import site_page

N_TRIES, N_CLIENTS, N_SLIDES = 3, 20, 8
# Milliseconds of one picture on a usual screen.
FRAME = 16
PUBLISHED = tl.object_world(10, 0)
LESSON = teaching("bilevel", learner_fields("soft", "L3"), PUBLISHED)
ROUNDS = teaching("line_search", learner_fields("hard", "L3", 2.5), PUBLISHED, max_rounds=20)

# Move a slider, and wait until the card of the aware teacher has a new picture: milliseconds.
SLIDE = """async ({ id, value, teacher }) => {
  const card = document.querySelector(`[data-teacher=${teacher}]`);
  const slider = document.getElementById(id);
  const began = performance.now();
  slider.value = value;
  slider.dispatchEvent(new Event("input", { bubbles: true }));
  slider.dispatchEvent(new Event("change", { bubbles: true }));
  while (card.classList.contains("waiting")) await new Promise(requestAnimationFrame);
  await new Promise(requestAnimationFrame);
  return performance.now() - began;
}"""

# Drag the green square over the rows of the garden and back: of each cell, the milliseconds from the pointer's event,
# which comes at the start of a frame, to the end of script, style and layout, and to the end of the frame's painting.
DRAG = """async () => {
  const garden = document.getElementById("garden");
  const send = (type, cell) => {
    const box = document.getElementById(`garden-${cell}`).getBoundingClientRect();
    const at = { clientX: box.x + box.width / 2, clientY: box.y + box.height / 2 };
    const mouse = { button: 0, pointerId: 1, pointerType: "mouse", bubbles: true };
    garden.dispatchEvent(new PointerEvent(type, { ...at, ...mouse }));
  };
  garden.setPointerCapture = () => {};
  const way = [16, 17, 11, 5, 4, 3, 2, 1, 0, 6, 7, 8, 9, 10, 16, 22, 21, 20, 19, 18, 24, 25, 26, 27, 28, 29];
  const found = [];
  send("pointerdown", way[0]);
  for (const cell of [...way, ...way.toReversed()].slice(1)) {
    await new Promise(requestAnimationFrame);
    const began = performance.now();
    send("pointermove", cell);
    garden.getBoundingClientRect();
    const work = performance.now() - began;
    await new Promise((done) => {
      const channel = new MessageChannel();
      channel.port1.onmessage = done;
      channel.port2.postMessage(null);
    });
    found.push([work, performance.now() - began, document.getElementById("story-meter").textContent]);
  }
  send("pointerup", 16);
  return found;
}"""


def frames() -> None:
    """Print the times of a dragged green square in the static page, opened from a file without a network."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder) / "story.html"
        file.write_text(site_page(), encoding="utf-8")
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for name, width, height in (("1280x800", 1280, 800), ("390x844", 390, 844)):
            page = browser.new_context(viewport={"width": width, "height": height}, offline=True).new_page()
            page.goto(f"{file.as_uri()}#story-4")
            page.wait_for_selector("body[data-ready]")
            found = page.evaluate(DRAG)
            assert len({text for _, _, text in found}) > 5, "the picture did not follow"
            for what, column in (("script, style and layout", 0), ("until it is painted", 1)):
                taken = sorted(one[column] for one in found)
                late = sum(time > FRAME for time in taken)
                text = f"median {taken[len(taken) // 2]:.1f} ms, most {taken[-1]:.1f} ms, above {FRAME} ms: {late}"
                sys.stdout.write(f"green square by one cell, {name}, {what}: {text} of {len(taken)}\n")
        browser.close()


def times(address: str, request: dict[str, Any]) -> list[float]:
    """Seconds until each event."""
    began = perf_counter()
    with httpx.stream("POST", f"{address}/api/teach", json=request, timeout=600) as answer:
        return [perf_counter() - began for line in answer.iter_lines() if line.startswith("event: ")]


def slides(address: str) -> None:
    """Print the times from a slider to the picture, for the hard and the soft learner L3 on 10x10."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(f"{address}/#compare")
        page.wait_for_selector("body[data-ready]")
        for layer in ("More", "From the paper"):
            page.get_by_text(layer, exact=True).click()
        page.get_by_label("Size").fill("10")
        page.get_by_label("Size").press("Enter")
        page.get_by_role("button", name="Load this world").click()
        page.get_by_role("button", name="L3").click()
        for model, teacher, slider in (("soft", "bilevel", "violation"), ("hard", "aware_cmdp", "allowance")):
            page.get_by_label("How strict it is").select_option(model)
            page.wait_for_selector(f"[data-teacher={teacher}]:not(.waiting) .reward", timeout=60_000)
            page.wait_for_timeout(4000)
            values = [0.5 + 0.5 * k for k in range(N_SLIDES)]
            taken = [page.evaluate(SLIDE, {"id": slider, "value": str(v), "teacher": teacher}) for v in values]
            low, middle, high = (sorted(taken)[place] for place in (0, len(taken) // 2, -1))
            sys.stdout.write(f"slider to picture, {model}: {low:.0f} to {high:.0f} ms, median {middle:.0f} ms\n")
        browser.close()


def main() -> None:
    """Print the times of a drag, of a slider and of each request."""
    if CHROMIUM:
        frames()
    if sys.argv[1:] == ["frames"]:
        return
    with running() as address:
        if CHROMIUM:
            slides(address)
        for name, request in (("bi-level", LESSON), ("line search", ROUNDS)):
            tries = [times(address, request) for _ in range(N_TRIES)]
            firsts, lasts = ([one[place] for one in tries] for place in (0, -1))
            for what, seconds in (("first round", firsts), ("end", lasts)):
                sys.stdout.write(f"{name}, {what}: {min(seconds):.2f} to {max(seconds):.2f} s\n")
        with ThreadPoolExecutor(N_CLIENTS) as clients:
            all_times = list(clients.map(lambda _: times(address, LESSON), range(N_CLIENTS)))
        lesson, end = (max(one[place] for one in all_times) for place in (0, -1))
        sys.stdout.write(f"{N_CLIENTS} clients: all lessons after {lesson:.1f} s, all bounds after {end:.1f} s\n")


if __name__ == "__main__":
    main()
