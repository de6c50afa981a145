// A story from a file: one sentence, one picture and one number at a time, with Next and Back, by keys too.
//
// A step has: sentence; pictures, of "world", "shown", "believed" and "done"; teacher, whose lesson they show;
// showsAvoided, whether the avoided cells are marked; number: {of, text}, where `of` is "lesson" (what the lesson itself
// would earn), "reward" (what the learner earns), "share" (of the most possible) or "avoided" (how many cells). A step
// with `choices` ends the story: [{place, text}] are its buttons.

import { byId, complain, h, percent, refill, s, shown } from "./dom.js";
import { awareRequest, lessonOf, possible, shareOf, taught } from "./lessons.js";
import { onLook } from "./look.js";
import { TITLES, drawPanel, scalesOf } from "./panels.js";
import { viewOf } from "./scene.js";
import { drawGrid } from "./grid.js";

let story = null,
  number = 0,
  go = null,
  isOpen = false;

export const isTelling = () => story !== null;
const lastStep = () => story.steps.length - 1;

// A story from a file; refused unless it has the form of one.
export function setStory(other) {
  const isStep = (step) => typeof step.sentence === "string" && Array.isArray(step.pictures ?? []);
  if (
    !Array.isArray(other.steps) ||
    !other.steps.length ||
    !other.steps.every(isStep) ||
    !other.world ||
    !other.learner
  ) {
    throw new Error("A story needs a world, a learner and steps, each with a sentence and pictures.");
  }
  story = other;
}

// The lesson of the step, and the most that is possible; each is passed on as soon as it is there.
async function follow(step, onFound) {
  const asked = { world: story.world, learner: story.learner };
  const found = { view: viewOf(asked), round: null, aware: null };
  const into = (key) => (rounds) => {
    found[key] = rounds.at(-1);
    onFound(found);
  };
  if (!step.teacher) onFound(found);
  await Promise.all([
    step.teacher ? taught(lessonOf(asked, step.teacher), into("round")) : null,
    step.number?.of === "share" ? taught(awareRequest(asked), into("aware")) : null,
  ]);
}

function figureOf(step, { view, round, aware }) {
  const { of, text } = step.number ?? {};
  if (!of) return null;
  const value = {
    lesson: () => shown(round.lesson_reward, 1),
    reward: () => shown(round.reward, 1),
    share: () => (possible(aware) !== null ? percent(shareOf(round.reward, possible(aware))) : "…"),
    avoided: () => String(view.avoided.filter(Boolean).length),
  }[of]();
  return h("p", { class: "big-number" }, h("strong", {}, value), h("span", {}, text));
}

function picturesOf(step, found) {
  const view = step.showsAvoided ? found.view : { ...found.view, avoided: null };
  const scales = found.round ? scalesOf([found.round]) : null;
  return (step.pictures ?? []).map((kind) => {
    const svg = s("svg", { class: "picture" });
    const title = step.captions?.[kind] ?? TITLES[kind] ?? "The world";
    if (kind === "world") {
      drawGrid(svg, { world: view.world, avoided: view.avoided });
      svg.setAttribute("role", "img");
      svg.setAttribute("aria-label", title);
    } else drawPanel(svg, kind, { view, round: found.round, scales });
    return h("figure", { class: `panel ${kind}` }, h("figcaption", {}, title), svg);
  });
}

async function draw() {
  const mine = number,
    step = story.steps[number];
  const panel = byId("tale");
  const text = h("p", { class: step.choices ? "sentence last" : "sentence", id: "tale-sentence" }, step.sentence);
  const figure = h("div", { class: "story-number", "aria-live": "polite" });
  const pictures = panel.querySelector(".story-pictures") ?? h("div", { class: "story-pictures" });
  pictures.classList.add("waiting");
  const back = h("button", { type: "button", id: "tale-back", onclick: () => go(`story-${mine - 1}`) }, "Back");
  const next = h(
    "button",
    { type: "button", id: "tale-next", class: "main", onclick: () => go(`story-${mine + 1}`) },
    "Next",
  );
  back.disabled = mine === 0;
  const choices = (step.choices ?? []).map(({ place, text: label }, k) =>
    h("button", { type: "button", class: k ? "" : "main", onclick: () => go(place) }, label),
  );
  const dots = story.steps.map((_, k) =>
    h("button", {
      type: "button",
      class: "dot",
      "aria-label": `Step ${k + 1}`,
      "aria-current": k === mine ? "step" : null,
      onclick: () => go(`story-${k}`),
    }),
  );
  const focused = document.activeElement?.id;
  refill(
    panel,
    h(
      "div",
      { class: "tale" },
      h(
        "div",
        { class: "story-text" },
        h("h2", {}, story.title),
        text,
        figure,
        choices.length ? h("div", { class: "choices" }, choices) : null,
        h("div", { class: "story-steps" }, back, h("div", { class: "dots" }, dots), choices.length ? null : next),
        choices.length
          ? null
          : h("button", { type: "button", class: "quiet leave", onclick: () => go("compare") }, "Skip the story"),
      ),
      pictures,
    ),
  );
  if (focused?.startsWith("tale-"))
    (byId(focused)?.disabled ? next : (byId(focused) ?? choices[0]))?.focus();
  try {
    let drawn = null;
    await follow(step, (found) => {
      if (mine !== number || (step.teacher && !found.round)) return;
      refill(figure, figureOf(step, found));
      const isNew = drawn !== (found.round?.number ?? 0);
      drawn = found.round?.number ?? 0;
      if (isNew) refill(pictures, picturesOf(step, found));
      pictures.classList.remove("waiting");
      pictures.dataset.count = step.pictures?.length ?? 0;
    });
  } catch (error) {
    if (mine === number) complain(error.message);
  }
}

export function openTelling(step) {
  [number, isOpen] = [Math.max(0, Math.min(lastStep(), step)), true];
  draw();
}

export function closeTelling() {
  isOpen = false;
}

// onGo(place): opens another place of the page.
export function startTelling(onGo) {
  go = onGo;
  document.addEventListener("keydown", (event) => {
    if (
      !isOpen ||
      event.target.closest("[role=tab], dialog, input, select") ||
      event.ctrlKey ||
      event.metaKey ||
      event.altKey
    )
      return;
    if (event.key === "ArrowRight" && number < lastStep()) go(`story-${number + 1}`);
    else if (event.key === "ArrowLeft" && number > 0) go(`story-${number - 1}`);
    else return;
    event.preventDefault();
  });
  onLook(() => isOpen && draw());
}
