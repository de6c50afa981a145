// The controls under the world: the learner in plain words, and what is worth how much. Every change is shown at once.

import { ask } from "./api.js";
import { byId, chip, complain, h, numberOf, refill, shown, tell } from "./dom.js";
import { icon } from "./marks.js";
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
// range: from, to and step; ends: words for its two ends.
function slider(id, label, [min, max, step], value, onInput, ends = null) {
  const output = h("output", { for: id }, shown(value, 1));
  const oninput = ({ target }) => {
    output.textContent = shown(target.valueAsNumber, 1);
    onInput(target.valueAsNumber, id);
  };
  const given = { type: "range", id, min, max, step, value, "aria-label": label, oninput, onchange: endStroke };
  const row = h("label.slider", h("span", label), h("input", given), output);
  return ends
    ? h(
        "div",
        row,
        h(
          "p.ends.hint",
          ends.map((end) => h("span", end)),
        ),
      )
    : row;
}

function avoidance() {
  const { brought, learner } = getScene();
  if (!hasRules(learner.model)) return h("p.hint", "Nothing: this learner has no rules.");
  const all = preferences();
  const flags = all.map((one) => one.isAvoided);
  const box = (k, text) =>
    chip(`avoids-${k}`, text, flags[k], (isOn) => setPreferences({ isAvoided: replaced(flags, k, isOn) }), all[k].name);
  if (brought && !all.length) return h("p.hint", "This domain has no preference features: its learner avoids nothing.");
  if (brought)
    return h(
      "div.chips",
      all.map((one, k) => box(k, one.name)),
    );
  const near = (colour) =>
    PREFERENCES.map((one, k) => (one.colour === colour ? box(k, DISTANCES[one.distance]) : null));
  return COLOURS.map((colour) => h("div.avoided-row", icon(colour), h("span.sr", colour), near(colour)));
}

// The learners of the paper, by their names there.
function presets() {
  const preset = (name) => {
    const attributes = { title: players.presets[name].about, "aria-pressed": String(presetName() === name) };
    return h(
      "button.chip-button",
      { ...attributes, onclick: () => setLearner({ isAvoided: presetFlags(name) }) },
      name,
    );
  };
  const all = Object.keys(players.presets).map(preset);
  return h("div.chips.small", { role: "group", "aria-label": "A learner of the paper" }, all);
}

const penalty = (id, key, label, ends) =>
  slider(id, label, [0.5, 30, 0.5], getScene().learner[key], (value, name) => setLearner({ [key]: value }, name), ends);

function allowance() {
  const all = preferences();
  const value = Math.min(10, Math.max(...all.map((one) => one.allowance)));
  const set = (visits, name) => setPreferences({ allowances: all.map(() => visits) }, name);
  return slider("allowance", "Visits it puts up with", [0, 10, 0.5], value, set, [
    "none at all",
    "ten steps, on average",
  ]);
}

const has = (option) => option in players.learner_models[getScene().learner.model].options;
const isAllowing = () => has("violation_allowance") && preferences().some((one) => one.isAvoided);

// The one slider of the first layer: how much the learner minds what it avoids.
function minding() {
  if (has("violation_penalty"))
    return penalty("violation", "violation_penalty", "How much does it mind?", ["a little", "more than anything"]);
  return isAllowing() ? allowance() : h("p.hint", "It minds nothing.");
}

function temperament() {
  const onchange = (event) => setLearner({ model: event.target.value });
  const models = choices(Object.keys(players.learner_models), modelName, getScene().learner.model);
  return [
    h("select#model", { "aria-label": "How strict it is", onchange }, models),
    isAllowing() && has("violation_penalty") ? allowance() : null,
    has("mismatch_penalty")
      ? penalty("mismatch", "mismatch_penalty", "Wants to do as shown", ["hardly", "very much"])
      : null,
  ];
}

// What each object, or each reward feature, is worth to the teacher.
function worth() {
  const { brought, world } = getScene();
  const names = brought ? brought.about.reward_names : OBJECTS;
  const { weights } = brought ?? world;
  const set = (k) => (value, stroke) => {
    const next = replaced((getScene().brought ?? getWorld()).weights, k, value);
    if (getScene().brought) setBrought({ ...getScene().brought, weights: next }, stroke);
    else setWorld(changed(getWorld(), { weights: next }), stroke);
  };
  return names.map((name, k) =>
    slider(`weight-${k}`, name, [-1, 1, 0.1], Math.max(-1, Math.min(1, weights[k])), set(k)),
  );
}

// A number from min to max.
function field(label, [min, max, step], value, onNumber, name = null) {
  const onchange = ({ target }) => {
    const number = numberOf(target, value);
    if (number !== null) onNumber(number);
  };
  return h("label.field", label, h("input", { type: "number", min, max, step, value, "aria-label": name, onchange }));
}

function paper() {
  const world = getWorld();
  const wanted = { generator: world.generator ?? "published", seed: world.seed ?? 0, size: Math.max(4, world.size) };
  const load = async () => {
    try {
      setWorld(await ask(`/api/world/${wanted.generator}/${wanted.seed}/${wanted.size}`));
      tell("Loaded.");
    } catch (error) {
      complain(error.message);
    }
  };
  const into = (key) => (value) => (wanted[key] = value);
  const option = (value, text) => h("option", { value, selected: value === wanted.generator }, text);
  const generators = [option("published", "published code"), option("text", "paper's text")];
  const attributes = { "aria-label": "Generator", onchange: ({ target }) => (wanted.generator = target.value) };
  const granted = preferences().map((one) => one.allowance);
  const allowed = ({ name, isAvoided, allowance: value }, k) => {
    const set = (n) => setPreferences({ allowances: replaced(granted, k, n) });
    return isAvoided ? field(name, [0, 10000, 0.5], value, set, `Allowance for ${name}`) : null;
  };
  return [
    h("p.hint", "Its learners:"),
    presets(),
    h("p.hint", "One of its random worlds:"),
    h(
      "div.fields",
      h("label.field", "By", h("select#generator", attributes, generators)),
      field("Seed", [0, 4294967295, 1], wanted.seed, into("seed")),
      field("Size", [4, 30, 1], wanted.size, into("size")),
    ),
    h("button", { onclick: load }, "Load this world"),
    h("p.hint", "Allowance of each preference, in visits:"),
    h("div.fields", preferences().map(allowed)),
  ];
}

function size() {
  const world = getWorld();
  const set = (key) => (value) => setWorld(changed(getWorld(), { [key]: value }));
  const later = "Discount: a point one step later is worth";
  return [
    h(
      "div.fields",
      field("Cells along a side", [2, 30, 1], world.size, (n) => setWorld(resized(getWorld(), n))),
      field(later, [0.01, 0.999, 0.01], world.discount, set("discount"), "Discount"),
      field("An object ends the walk, probability", [0, 1, 0.05], world.end_probability, set("end_probability")),
    ),
    h(
      "div.row",
      h("button", { onclick: () => setWorld(emptyWorld(getWorld().size)) }, "Empty the world"),
      h("button", { onclick: () => setWorld(GARDEN) }, "The story's garden"),
    ),
  ];
}

const layer = (id, text) => h(`details#${id}`, h("summary", text), h("div.inside"));
const moreBox = layer("more", "More");
const paperBox = layer("paper", "From the paper");

function draw() {
  const { brought } = getScene();
  const moved = byId("controls").contains(document.activeElement) ? document.activeElement : null;
  refill(
    moreBox.lastChild,
    h("h2", "What it avoids"),
    avoidance(),
    h("h2", "How strict it is"),
    temperament(),
    h("h2", brought ? "Reward for each unit" : "Points for each thing, at every step on it"),
    worth(),
    brought ? null : [h("h2", "The world"), size()],
  );
  refill(paperBox.lastChild, brought ? null : paper());
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
