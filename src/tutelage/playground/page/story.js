// A story: one sentence, one picture and one number at a time, with Next and Back, by keys too. It is the page's own, or
// one from a file.
//
// A step has: sentence(); note(), below it; extra(), elements below that; the mode of the board and its layers(), or
// pictures(), which draws others; value(), {value, text}, or bar(), {reward, most}; button(), [text, action]; choices,
// [{place, text}], which end a story; enter(), when the step opens.

import { Board } from "./board.js";
import { byId, h, isAt, partsOf, percentOf, refill, shown } from "./dom.js";
import { labelsOf } from "./garden.js";
import { look, onLook } from "./look.js";
import { drawMeter } from "./panels.js";
import { ownStory } from "./tale.js";

let story = null,
  number = 0,
  drawn = null,
  go = null,
  board = null,
  parts = null;

const lastStep = () => story.steps.length - 1;
// What a step needs of the page: whether it is still open, a board that redraws, and a story that redraws.
const stage = { isAt: (step) => isAt("story") && story.steps[number] === step, draw, redraw: () => board.redraw() };

// tell(stage): a story {title, world(), steps, stop()}.
export function setStory(tell) {
  story?.stop();
  story = tell(stage);
  refill(
    parts.dots,
    story.steps.map((_, k) => h("button.dot", { "aria-label": `Step ${k + 1}`, onclick: () => go(`story-${k}`) })),
  );
  parts.title.textContent = story.title;
}

function drawResult(step) {
  const bar = step.bar?.();
  parts.meter.hidden = !bar;
  if (bar) {
    drawMeter(parts.meter, { reward: bar.reward, most: bar.most, label: "What Pip earns" });
    const all = `No lesson at all gets more than ${shown(bar.most.bound)} points out of Pip; that is proven.`;
    const share = percentOf(Math.max(0, bar.reward) / bar.most.bound, bar.most);
    const sentence = `${all} So this lesson gets ${share} of all that is possible.`;
    refill(parts.number, step.choices ? null : h("span", sentence));
    return;
  }
  const found = step.value?.();
  refill(parts.number, found ? [h("strong", found.value), h("span", found.text)] : null);
}

export function draw() {
  const step = story.steps[number];
  const set = (element, text) => element.textContent !== text && (element.textContent = text);
  set(parts.sentence, step.sentence());
  set(parts.note, step.note?.() ?? "");
  drawResult(step);
  if (drawn !== step) drawStep(step);
  if (step.pictures) step.pictures(parts.pictures);
  else board.redraw();
}

// What changes only from step to step.
function drawStep(step) {
  drawn = step;
  const [text, onclick] = step.button?.() ?? [];
  refill(parts.extra, step.extra?.(), text ? h("button", { onclick }, text) : null);
  const there = (step.choices ?? []).filter(({ place }) => byId(`tab-${place}`));
  const choice = ({ place, text: label }, k) =>
    h("button", { class: k ? "" : "main", onclick: () => go(place) }, label);
  refill(parts.choices, there.map(choice));
  [...parts.dots.children].forEach((dot, k) => {
    if (k === number) dot.setAttribute("aria-current", "step");
    else dot.removeAttribute("aria-current");
  });
  parts.picture.toggleAttribute("hidden", Boolean(step.pictures));
  parts.pictures.hidden = !step.pictures;
  parts.back.disabled = number === 0;
  parts.next.disabled = number === lastStep();
}

export function openStory(step) {
  story.stop();
  [number, drawn] = [Math.max(0, Math.min(lastStep(), step)), null];
  const { mode = {}, layers, enter } = story.steps[number];
  const usual = () => ({ labels: labelsOf(story.world()), pathColour: look().shown, ...layers() });
  board.setMode(layers ? { ...mode, layers: usual } : {});
  enter?.(number);
  draw();
}

export function closeStory() {
  story.stop();
}

// onGo(place): opens another place of the page.
export function startStory(onGo) {
  go = onGo;
  const turn = (by) => () => go(`story-${number + by}`);
  parts = partsOf("panel-story", { back: turn(-1), next: turn(1) });
  board = new Board(parts.picture, () => story.world());
  setStory(ownStory);
  document.addEventListener("keydown", (event) => {
    const isElsewhere = event.target.closest("[role=tab], dialog, input, select, svg");
    if (!isAt("story") || isElsewhere || event.ctrlKey || event.metaKey || event.altKey) return;
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by || !story.steps[number + by]) return;
    event.preventDefault();
    turn(by)();
  });
  onLook(() => isAt("story") && draw());
}
