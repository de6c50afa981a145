// The controls under the world: the learner in plain words, and what is worth how much. Every change is shown at once.

import { ask } from "./api.js";
import { byId, complain, h, numberOf, refill, shown, tell } from "./dom.js";
import { icon } from "./grid.js";
import { onLook } from "./look.js";
import { choices, hasRules, modelName, players } from "./players.js";
import {
  PREFERENCES,
  endStroke,
  getScene,
  getWorld,
  onChange,
  preferences,
  presetFlags,
  presetName,
  setBrought,
  setLearner,
  setPreferences,
  setWorld,
} from "./scene.js";
import { redraw } from "./stage.js";
import { COLOURS, GARDEN, OBJECTS, changed, emptyWorld, resized } from "./world.js";

const replaced = (list, k, value) => list.map((old, j) => (j === k ? value : old));
const DISTANCES = ["on it", "1 cell away", "2 cells away"];

// A slider with its value; it keeps its place in the page while it is moved, and one movement is one step of undo.
// ends: words for its two ends.
function slider({ id, label, low, high, step, value, onInput, ends = null }) {
  const text = (x) => shown(x, 1);
  const output = h("output", { for: id }, text(value));
  const input = h("input", { type: "range", id, min: low, max: high, step, value, "aria-label": label });
  input.addEventListener("input", () => {
    output.textContent = text(input.valueAsNumber);
    onInput(input.valueAsNumber, id);
  });
  input.addEventListener("change", endStroke);
  const row = h("label", { class: "slider" }, h("span", {}, label), input, output);
  return ends ? h("div", {}, row, h("p", { class: "ends hint" }, ends.map((end) => h("span", {}, end)))) : row;
}

function avoidance() {
  const { brought, learner } = getScene();
  if (!hasRules(learner.model)) return [h("p", { class: "hint" }, "Nothing: this learner has no rules.")];
  const all = preferences();
  const box = (k, text, name) =>
    h(
      "label",
      { class: "chip" },
      h("input", {
        type: "checkbox",
        id: `avoids-${k}`,
        checked: all[k].isAvoided,
        "aria-label": name,
        onchange: (event) =>
          setPreferences({
            isAvoided: replaced(
              all.map((one) => one.isAvoided),
              k,
              event.target.checked,
            ),
          }),
      }),
      h("span", {}, text),
    );
  if (brought) {
    if (!all.length)
      return [h("p", { class: "hint" }, "This domain has no preference features: its learner avoids nothing.")];
    return [
      h(
        "div",
        { class: "chips" },
        all.map((one, k) => box(k, one.name, one.name)),
      ),
    ];
  }
  return [
    ...COLOURS.map((colour) =>
      h(
        "div",
        { class: "avoided-row" },
        icon(colour),
        h("span", { class: "sr" }, colour),
        PREFERENCES.map((one, k) => (one.colour === colour ? box(k, DISTANCES[one.distance], one.name) : null)),
      ),
    ),
  ];
}

// The learners of the paper, by their names there.
const presets = () =>
  h(
    "div",
    { class: "chips small", role: "group", "aria-label": "A learner of the paper" },
    Object.keys(players.presets).map((name) =>
      h(
        "button",
        {
          type: "button",
          class: "chip-button",
          title: players.presets[name].about,
          "aria-pressed": String(presetName() === name),
          onclick: () => setLearner({ isAvoided: presetFlags(name) }),
        },
        name,
      ),
    ),
  );

// The one slider of the first layer: how much the learner minds what it avoids.
function minding() {
  const { learner } = getScene();
  const { options } = players.learner_models[learner.model];
  const all = preferences();
  if ("violation_penalty" in options)
    return slider({
      id: "violation",
      label: "How much does it mind?",
      low: 0.5,
      high: 30,
      step: 0.5,
      value: learner.violation_penalty,
      ends: ["a little", "more than anything"],
      onInput: (value, name) => setLearner({ violation_penalty: value }, name),
    });
  if ("violation_allowance" in options && all.some((one) => one.isAvoided)) return allowance(all);
  return h("p", { class: "hint" }, "It minds nothing.");
}

const allowance = (all) =>
  slider({
    id: "allowance",
    label: "Visits it puts up with",
    low: 0,
    high: 10,
    step: 0.5,
    value: Math.min(10, Math.max(...all.map((one) => one.allowance))),
    ends: ["none at all", "ten steps, on average"],
    onInput: (value, name) => setPreferences({ allowances: all.map(() => value) }, name),
  });

function temperament() {
  const { learner } = getScene();
  const { options } = players.learner_models[learner.model];
  const all = preferences();
  const attributes = { id: "model", "aria-label": "How strict it is", onchange: (event) => setLearner({ model: event.target.value }) };
  const has = (option) => option in options;
  return [
    h("select", attributes, choices(Object.keys(players.learner_models), modelName, learner.model)),
    has("violation_allowance") && has("violation_penalty") && all.some((one) => one.isAvoided) ? allowance(all) : null,
    has("mismatch_penalty")
      ? slider({
          id: "mismatch",
          label: "Wants to do as shown",
          low: 0.5,
          high: 30,
          step: 0.5,
          value: learner.mismatch_penalty,
          ends: ["hardly", "very much"],
          onInput: (value, name) => setLearner({ mismatch_penalty: value }, name),
        })
      : null,
  ];
}

// What each object, or each reward feature, is worth to the teacher.
function worth() {
  const { brought, world } = getScene();
  const names = brought ? brought.about.reward_names : OBJECTS;
  const weights = brought ? brought.weights : world.weights;
  return names.map((name, k) =>
    slider({
      id: `weight-${k}`,
      label: name,
      low: -1,
      high: 1,
      step: 0.1,
      value: Math.max(-1, Math.min(1, weights[k])),
      onInput: (value, stroke) => {
        const next = replaced((getScene().brought ?? getWorld()).weights, k, value);
        if (getScene().brought) setBrought({ ...getScene().brought, weights: next }, stroke);
        else setWorld(changed(getWorld(), { weights: next }), stroke);
      },
    }),
  );
}

function field(label, attributes, onNumber) {
  const input = h("input", { type: "number", ...attributes });
  input.addEventListener("change", () => {
    const number = numberOf(input, attributes.value);
    if (number !== null) onNumber(number);
  });
  return h("label", { class: "field" }, label, input);
}

async function attempt(action) {
  try {
    await action();
  } catch (error) {
    complain(error.message);
  }
}

function paper() {
  const world = getWorld();
  const generator = h(
    "select",
    { "aria-label": "Generator", id: "generator" },
    h("option", { value: "published" }, "published code"),
    h("option", { value: "text" }, "paper's text"),
  );
  if (world.generator) generator.value = world.generator;
  const seed = h("input", { type: "number", min: 0, max: 4294967295, value: world.seed ?? 0 });
  const size = h("input", { type: "number", min: 4, max: 30, value: Math.max(4, world.size) });
  const load = () =>
    attempt(async () => {
      const numbers = [numberOf(seed, world.seed ?? 0), numberOf(size, 10)];
      if (numbers.includes(null)) return;
      setWorld(await ask(`/api/world/${generator.value}/${numbers[0]}/${numbers[1]}`));
      tell("Loaded.");
    });
  return [
    h("p", { class: "hint" }, "Its learners:"),
    presets(),
    h("p", { class: "hint" }, "One of its random worlds:"),
    h(
      "div",
      { class: "fields" },
      h("label", { class: "field" }, "By", generator),
      h("label", { class: "field" }, "Seed", seed),
      h("label", { class: "field" }, "Size", size),
    ),
    h("button", { type: "button", onclick: load }, "Load this world"),
    h("p", { class: "hint" }, "Allowance of each preference, in visits:"),
    h(
      "div",
      { class: "fields" },
      preferences().map(({ name, isAvoided, allowance: value }, k) => {
        if (!isAvoided) return null;
        const set = (n) => setPreferences({ allowances: replaced(preferences().map((one) => one.allowance), k, n) });
        return field(name, { min: 0, max: 10000, step: 0.5, value, "aria-label": `Allowance for ${name}` }, set);
      }),
    ),
  ];
}

function size() {
  const world = getWorld();
  const set = (changes) => setWorld(changed(getWorld(), changes));
  return [
    h(
      "div",
      { class: "fields" },
      field("Cells along a side", { min: 2, max: 30, value: world.size }, (n) => setWorld(resized(getWorld(), n))),
      field("Discount: a point one step later is worth", { min: 0.01, max: 0.999, step: 0.01, value: world.discount, "aria-label": "Discount" }, (discount) => set({ discount })),
      field("An object ends the walk, probability", { min: 0, max: 1, step: 0.05, value: world.end_probability }, (p) => set({ end_probability: p })),
    ),
    h(
      "div",
      { class: "row" },
      h("button", { type: "button", onclick: () => setWorld(emptyWorld(getWorld().size)) }, "Empty the world"),
      h("button", { type: "button", onclick: () => setWorld(GARDEN) }, "The story's garden"),
    ),
  ];
}

const layer = (id, text) => h("details", { id }, h("summary", {}, text), h("div", { class: "inside" }));
const moreBox = layer("more", "More");
const paperBox = layer("paper", "From the paper");
const inside = (box, ...content) => refill(box.querySelector(".inside"), ...content);

function draw() {
  const { brought } = getScene();
  const moved = byId("controls").contains(document.activeElement) ? document.activeElement : null;
  inside(
    moreBox,
    h("h2", {}, "What it avoids"),
    avoidance(),
    h("h2", {}, "How strict it is"),
    temperament(),
    h("h2", {}, "Points for each thing, at every step on it"),
    worth(),
    brought ? null : [h("h2", {}, "The world"), size()],
  );
  inside(paperBox, brought ? null : paper());
  refill(byId("controls"), minding(), moreBox, brought ? null : paperBox);
  // A new control takes the focus of the old one.
  if (moved?.id) byId(moved.id)?.focus({ preventScroll: true });
}

export function startControls() {
  // While a slider is moved, only its own text changes.
  let isSliding = false;
  byId("controls").addEventListener(
    "input",
    (event) => {
      isSliding = event.target.type === "range";
    },
    true,
  );
  byId("controls").addEventListener("change", () => {
    isSliding = false;
  });
  onChange((what) => {
    if (what !== "world" && what !== "learner") return;
    byId("painting").hidden = Boolean(getScene().brought);
    redraw();
    if (!isSliding) draw();
  });
  onLook(draw);
  draw();
}
