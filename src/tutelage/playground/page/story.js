// The story that one touches: one garden, one picture from the first step to the last. Every answer in it was computed by
// the package beforehand, so that it follows the finger without a server.

import { Board } from "./board.js";
import { byId, h, refill, s, shown } from "./dom.js";
import { avoidedIn, beliefsOf, endOf, labelsOf, lessonOf, points, pointsOf, shareOf, signed, sumOf, visitsOf } from "./garden.js";
import { GARDENS } from "./gardens.js";
import { isStill, look, onLook } from "./look.js";
import { drawMeter } from "./panels.js";
import { Paths } from "./paths.js";
import { Replay } from "./replay.js";
import { MOVES, OBJECTS, holder, neighbour } from "./world.js";

const garden = GARDENS.story;
const TO_STAR = [32, 26, 20, 14, 15];
const [GREEN] = garden.world.distractors.green;
// What the reader did: drawn, the first paths; second, those of the other lesson; green, where the square is.
const told = { drawn: [], second: [], green: GREEN, cell: garden.world.objects.star[0], isTaught: true, isDisliked: true };
const parts = {};
let number = 0,
  go = null,
  board = null,
  pip = null,
  isOpen = false;

const here = () => ({ ...garden.world, distractors: { green: [told.green], yellow: [] } });
const isStar = (path) => endOf(garden.world, path) === "star";
const starPath = () => (isStar(told.drawn[0]) ? told.drawn[0] : TO_STAR);
const answerTo = (paths) => garden.answers[lessonOf(garden.world, paths)];

function pathsOf(key) {
  return new Paths({
    get: () => told[key],
    set: (next) => {
      told[key] = next;
      pip = null;
      draw();
      if (key === "second" && endOf(garden.world, next[0])) walkOf(answerTo(next).walk);
    },
    world: () => garden.world,
    most: 1,
    longest: 12,
    endsAt: (cell) => holder(garden.world.objects, cell) !== null,
  });
}

const guide = (path) => ({ kind: "guide", at: path?.at(-1) ?? garden.world.start });
const replay = new Replay((at, share) => {
  pip = { ...pip, at, share };
  board.redraw();
});

// Pip walks; its mood before and after.
function walkOf(walk, { mood = "glad", after = mood, onEnd } = {}) {
  pip = { kind: "pip", at: walk[0], mood };
  replay.start(walk, garden.world.size, {
    onEnd: () => {
      pip = { ...pip, mood: after, share: 1 };
      draw();
      onEnd?.();
    },
  });
}

// Pip follows the path to the edge of what it minds, shakes its head, and wanders.
function refuse() {
  const path = starPath(),
    avoided = avoidedIn(garden);
  const edge = path.slice(0, Math.max(1, path.findIndex((cell) => avoided[cell])));
  const { walk } = answerTo([path]);
  told.isRefused = false;
  const wander = () => {
    told.isRefused = true;
    walkOf(walk, { mood: "no", after: "no" });
    draw();
  };
  walkOf(edge, { after: "no", onEnd: () => setTimeout(() => isOpen && number === 1 && wander(), isStill() ? 0 : 900) });
}

// The green square is where the finger is; everything else was computed for this cell.
function moveGreen(cell) {
  told.green = cell;
  replay.stop();
  const { walk } = garden.moved[cell];
  pip = { kind: "pip", at: walk.at(-1), mood: "glad" };
  draw();
}

const dragGreen = {
  isWalking: true,
  isGrip: (cell) => cell === told.green,
  press: (cell) => cell !== garden.world.start && moveGreen(cell),
  drag: (cell) => cell !== garden.world.start && moveGreen(cell),
  release: () => walkOf(garden.moved[told.green].walk),
  key: (event) => {
    if (!(event.key in MOVES)) return false;
    const next = neighbour(garden.world, told.green, MOVES[event.key]);
    if (next !== null && next !== garden.world.start) moveGreen(next);
    return true;
  },
};

const lookInto = {
  press: (cell) => {
    told.cell = cell;
    draw();
  },
  act: (cell) => lookInto.press(cell),
};

// What the cell is to Pip, as a sentence.
function cellSentence(beliefs) {
  const { kind, taught, dislike } = beliefs[told.cell];
  const name = kind ? `The ${kind}'s cell` : "This cell";
  const texts = [];
  if (taught) texts.push(`${signed(taught)} because of what Pip ${taught > 0 ? "saw" : "never saw"}`);
  if (dislike) texts.push(`${signed(dislike)} because it is near green`);
  if (!texts.length) return `${name}: 0. Nothing speaks for it or against it.`;
  const total = texts.length > 1 ? `: ${sumOf(beliefs[told.cell])}` : "";
  return `${name} is ${texts.join(", and ")}${total}. ${taught + dislike < 0 ? "Pip stays away." : "Pip wants to go there."}`;
}

function tally() {
  const path = starPath(),
    { weights } = answerTo([path]);
  const row = (name, seen, weight, why) =>
    h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, seen), h("td", {}, `${signed(weight)} ${why}`));
  const count = (kind) => (kind === "star" ? `often (${shown(visitsOf(garden.world, path), 1)})` : "never");
  return h(
    "table",
    { class: "tally" },
    h("thead", {}, h("tr", {}, ["Thing", "Pip saw it", "so Pip thinks"].map((text) => h("th", { scope: "col" }, text)))),
    h(
      "tbody",
      {},
      OBJECTS.map((kind, k) => row(kind, count(kind), weights[k], weights[k] > 0 ? "good" : "bad")),
      row("near green", "–", weights[3], "its own dislike"),
    ),
  );
}

const layerChip = (key, text) =>
  h(
    "label",
    { class: "chip" },
    h("input", {
      type: "checkbox",
      id: `layer-${key}`,
      checked: told[key],
      onchange: (event) => {
        told[key] = event.target.checked;
        draw();
      },
    }),
    h("span", {}, text),
  );

const drawing = (key) => ({ ...pathsOf(key).mode });
const avoidedNow = () => avoidedIn(garden, here());

// Each step: sentence(), a note below it, the mode of the picture, its layers, a number {value, text} and a bar.
const STEPS = [
  {
    sentence: () => "You are the guide. Draw a path from the ring to the star.",
    note: () => "Who stands on a thing collects its points at every step. Later points count less, so be quick.",
    mode: drawing("drawn"),
    layers: () => ({ paths: told.drawn, figures: [guide(told.drawn[0])] }),
    value: () => {
      const [path] = told.drawn,
        kind = endOf(garden.world, path);
      if (!kind) return { value: points(0), text: path?.length > 12 ? "Too long: begin again at the ring." : "so far" };
      return { value: points(pointsOf(garden.world, path)), text: kind === "star" ? "This is a good path." : `This is the ${kind}. The star is worth more.` };
    },
  },
  {
    sentence: () => "This is Pip. Pip does as it is shown, but it will not go near green. You show Pip the path to the star.",
    note: () =>
      told.isRefused
        ? "Pip came along to the edge, shook its head, and now wanders about. It does not even take the plus."
        : "Pip watches, and follows.",
    enter: refuse,
    layers: () => ({ avoided: avoidedIn(garden), paths: [starPath()], figures: [guide(starPath()), ...(pip ? [pip] : [])] }),
    value: () => ({ value: points(answerTo([starPath()]).reward), text: "is what Pip earns" }),
    button: () => ["Show it again", refuse],
  },
  {
    sentence: () => "Why? Pip counted what it saw. What it never saw, it takes for bad. Its own dislike of green lies on top.",
    extra: () => [tally(), h("div", { class: "chips" }, layerChip("isTaught", "What it was taught"), layerChip("isDisliked", "What it dislikes"))],
    note: () => cellSentence(beliefsOf(garden, answerTo([starPath()]).weights)),
    mode: lookInto,
    layers: () => {
      const beliefs = beliefsOf(garden, answerTo([starPath()]).weights);
      const values = beliefs.map(({ taught, dislike }) => (told.isTaught ? taught : 0) + (told.isDisliked ? dislike : 0));
      const chips = beliefs.map(({ taught, dislike }) => [told.isTaught ? taught : 0, told.isDisliked ? dislike : 0].filter(Boolean));
      const sums = Object.fromEntries(Object.entries(chips).filter(([, numbers]) => numbers.length));
      return { avoided: avoidedIn(garden), belief: { values, most: 10 }, sums, labels: {}, cursor: told.cell };
    },
  },
  {
    sentence: () => "So the star is red to Pip, and all else is bad. Show it something else: draw a path that Pip accepts.",
    note: () => {
      const kind = endOf(garden.world, told.second[0]);
      if (!kind) return "The bar shows what Pip would earn if your path ended here.";
      const { reward } = answerTo(told.second);
      if (kind === "star") return "Pip does not go there. Try another thing.";
      return reward / garden.bound > 0.9
        ? "Pip follows all the way. It never gets the star, and still this is nearly the best that any guide can do."
        : "Pip follows. But is there something better that it accepts?";
    },
    mode: drawing("second"),
    layers: () => ({ avoided: avoidedIn(garden), paths: told.second, figures: [guide(told.second[0]), ...(pip ? [pip] : [])] }),
    bar: () => ({ reward: answerTo(told.second).reward, bound: garden.bound }),
  },
  {
    sentence: () => "Now drag the green square. A guide who knows Pip shows another path, and Pip follows.",
    note: () => "Orange is what is shown, blue is Pip. Where green is far from the star, Pip gets the star.",
    enter: () => moveGreen(told.green),
    mode: dragGreen,
    layers: () => {
      const { route } = garden.moved[told.green];
      return { avoided: avoidedNow(), routes: { paths: [route, route, route], colour: look().shown }, figures: pip ? [pip] : [] };
    },
    bar: () => garden.moved[told.green],
  },
  {
    sentence: () => "So the best lesson depends on who is learning. Now you.",
    enter: () => moveGreen(told.green),
    mode: dragGreen,
    layers: () => STEPS[4].layers(),
    bar: () => garden.moved[told.green],
    choices: [
      { place: "play", text: "Five gardens: teach Pip yourself" },
      { place: "rounds", text: "Watch a guide find out what Pip minds" },
      { place: "compare", text: "Change everything, compare teachers" },
      { place: "learn", text: "Be the learner: keep a secret" },
    ],
  },
];
export const lastStep = STEPS.length - 1;

function drawResult(step) {
  const bar = step.bar?.();
  parts.meter.hidden = !bar;
  if (bar) {
    drawMeter(parts.meter, { reward: bar.reward, most: bar.bound, label: "What Pip earns" });
    refill(parts.number, h("span", {}, `No lesson at all gets more than ${shown(bar.bound)} points out of Pip; that is proven. So this lesson gets ${shareOf(bar.reward, bar.bound)} of all that is possible.`));
    return;
  }
  const found = step.value?.();
  refill(parts.number, found ? [h("strong", {}, found.value), h("span", {}, found.text)] : null);
}

function draw() {
  const step = STEPS[number];
  const set = (element, text) => element.textContent !== text && (element.textContent = text);
  set(parts.sentence, step.sentence());
  set(parts.note, step.note?.() ?? "");
  drawResult(step);
  if (parts.step !== number) drawStep(step);
  board.redraw();
}

// What changes only from step to step.
function drawStep(step) {
  parts.step = number;
  const [text, action] = step.button?.() ?? [];
  refill(parts.extra, step.extra?.(), text ? h("button", { type: "button", onclick: action }, text) : null);
  const there = (step.choices ?? []).filter(({ place }) => byId(`tab-${place}`));
  refill(parts.choices, there.map(({ place, text: label }, k) =>
    h("button", { type: "button", class: k ? "" : "main", onclick: () => go(place) }, label)));
  [...parts.dots.children].forEach((dot, k) => {
    if (k === number) dot.setAttribute("aria-current", "step");
    else dot.removeAttribute("aria-current");
  });
  parts.back.disabled = number === 0;
  parts.next.disabled = number === lastStep;
}

export function openStory(step) {
  replay.stop();
  [number, isOpen, pip] = [Math.max(0, Math.min(lastStep, step)), true, null];
  const { mode = {}, layers, enter } = STEPS[number];
  if (number < 4) told.green = GREEN;
  board.setMode({ ...mode, layers: () => ({ labels: labelsOf(garden.world), pathColour: look().shown, ...layers() }) });
  if (enter) enter();
  draw();
}

export function closeStory() {
  isOpen = false;
  replay.stop();
}

// onGo(place): opens another place of the page.
export function startStory(onGo) {
  go = onGo;
  const button = (text, attributes) => h("button", { type: "button", ...attributes }, text);
  parts.sentence = h("p", { class: "sentence", id: "sentence", role: "status" });
  parts.note = h("p", { class: "story-note", id: "story-note", role: "status" });
  parts.extra = h("div", { class: "story-extra" });
  parts.number = h("p", { class: "big-number", id: "story-number" });
  parts.meter = h("div", { class: "meter", id: "story-meter" });
  parts.choices = h("div", { class: "choices" });
  parts.back = button("Back", { id: "story-back", onclick: () => go(`story-${number - 1}`) });
  parts.next = button("Next", { id: "story-next", class: "main", onclick: () => go(`story-${number + 1}`) });
  parts.dots = h("div", { class: "dots" }, STEPS.map((_, k) =>
    button("", { class: "dot", "aria-label": `Step ${k + 1}`, onclick: () => go(`story-${k}`) })));
  const picture = s("svg", { id: "garden", class: "board", tabindex: 0 });
  refill(
    byId("own-story"),
    h(
      "div",
      { class: "story" },
      h(
        "div",
        { class: "story-text" },
        h("h2", {}, "Teaching someone with a mind of their own"),
        parts.sentence,
        parts.note,
        parts.extra,
        parts.choices,
      ),
      h("div", { class: "story-picture" }, picture, parts.meter, parts.number),
      h("div", { class: "story-steps" }, parts.back, parts.dots, parts.next),
    ),
  );
  board = new Board(picture, () => here());
  document.addEventListener("keydown", (event) => {
    const isElsewhere = event.target.closest("[role=tab], dialog, input, select, svg");
    if (!isOpen || isElsewhere || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "ArrowRight" && number < lastStep) go(`story-${number + 1}`);
    else if (event.key === "ArrowLeft" && number > 0) go(`story-${number - 1}`);
    else return;
    event.preventDefault();
  });
  onLook(() => isOpen && draw());
}
