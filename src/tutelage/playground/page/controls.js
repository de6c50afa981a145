// The controls under the world: the learner in plain words, and what is worth how much. Every change is shown at once.

import { ask } from "./api.js";
import { byId, complain, h, numberOf, refill, shown, tell } from "./dom.js";
import { icon } from "./grid.js";
import { onLook } from "./look.js";
import { hasRules, modelName, players } from "./players.js";
import {
  PREFERENCES,
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

// A slider with its value in words; it keeps its place in the page while it is moved.
function slider({ id, label, low, high, step, value, text, onInput }) {
  const output = h("output", { for: id }, text(value));
  const input = h("input", { type: "range", id, min: low, max: high, step, value, "aria-label": label });
  input.addEventListener("input", () => {
    output.textContent = text(input.valueAsNumber);
    onInput(input.valueAsNumber);
  });
  return h("label", { class: "slider" }, h("span", {}, label), input, output);
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
    h(
      "div",
      { class: "chips small", role: "group", "aria-label": "A learner of the paper" },
      h("span", { class: "hint" }, "from the paper:"),
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
    ),
  ];
}

function temperament() {
  const { learner } = getScene();
  const { options } = players.learner_models[learner.model];
  const all = preferences();
  const most = 10;
  const select = h(
    "select",
    { id: "model", "aria-label": "How strict it is", onchange: (event) => setLearner({ model: event.target.value }) },
    Object.keys(players.learner_models).map((model) =>
      h("option", { value: model, selected: model === learner.model }, modelName(model)),
    ),
  );
  const sliders = [
    "violation_allowance" in options && all.some((one) => one.isAvoided)
      ? slider({
          id: "allowance",
          label: "Visits it puts up with",
          low: 0,
          high: most,
          step: 0.5,
          value: Math.min(most, Math.max(...all.map((one) => one.allowance))),
          text: (x) => shown(x, 1),
          onInput: (value) => setPreferences({ allowances: all.map(() => value) }),
        })
      : null,
    "violation_penalty" in options
      ? slider({
          id: "violation",
          label: "Minds breaking its rules",
          low: 0.5,
          high: 30,
          step: 0.5,
          value: learner.violation_penalty,
          text: (x) => shown(x, 1),
          onInput: (value) => setLearner({ violation_penalty: value }),
        })
      : null,
    "mismatch_penalty" in options
      ? slider({
          id: "mismatch",
          label: "Wants to do as shown",
          low: 0.5,
          high: 30,
          step: 0.5,
          value: learner.mismatch_penalty,
          text: (x) => shown(x, 1),
          onInput: (value) => setLearner({ mismatch_penalty: value }),
        })
      : null,
  ];
  return [select, ...sliders];
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
      text: (x) => shown(x, 1),
      onInput: (value) => {
        const next = replaced((getScene().brought ?? getWorld()).weights, k, value);
        if (getScene().brought) setBrought({ ...getScene().brought, weights: next });
        else setWorld(changed(getWorld(), { weights: next }));
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

function more() {
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
    h(
      "div",
      { class: "fields" },
      field("Cells along a side", { min: 2, max: 30, value: world.size }, (n) => setWorld(resized(getWorld(), n))),
      field("Discount", { min: 0.01, max: 0.999, step: 0.01, value: world.discount }, (discount) =>
        setWorld(changed(getWorld(), { discount })),
      ),
      field("An object ends the walk, probability", { min: 0, max: 1, step: 0.05, value: world.end_probability }, (p) =>
        setWorld(changed(getWorld(), { end_probability: p })),
      ),
    ),
    h(
      "div",
      { class: "row" },
      h("button", { type: "button", onclick: () => setWorld(emptyWorld(getWorld().size)) }, "Empty the world"),
      h("button", { type: "button", onclick: () => setWorld(GARDEN) }, "The story's garden"),
    ),
    h("p", { class: "hint" }, "A random world of the paper:"),
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
      preferences().map(({ name, isAvoided, allowance }, k) =>
        isAvoided
          ? field(
              name,
              { min: 0, max: 10000, step: 0.5, value: allowance, "aria-label": `Allowance for ${name}` },
              (n) =>
                setPreferences({
                  allowances: replaced(
                    preferences().map((one) => one.allowance),
                    k,
                    n,
                  ),
                }),
            )
          : null,
      ),
    ),
  ];
}

const moreBox = h("details", { id: "more" }, h("summary", {}, "More about the world"), h("div", { class: "inside" }));

function draw() {
  const { brought } = getScene();
  const moved = byId("controls").contains(document.activeElement) ? document.activeElement : null;
  refill(moreBox.querySelector(".inside"), more());
  refill(
    byId("controls"),
    h("h2", {}, "The learner avoids"),
    avoidance(),
    h("h2", {}, "How strict it is"),
    temperament(),
    h("h2", {}, "What is worth collecting"),
    worth(),
    brought ? null : moreBox,
  );
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
