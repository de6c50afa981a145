// The scene: where the learner is taught (a world, or a domain from a file), the learner, the teachers, and what a person
// drew. It is kept for this browser tab only, so that two tabs do not overwrite each other, and fits into a link.

import { keptScene } from "./api.js";
import { fromBase64, toBase64 } from "./dom.js";
import { awareTeacher, canTeach, hasRules, players } from "./players.js";
import { GARDEN, avoidedCells } from "./world.js";

const KEPT = "tutelage-scene";
const LONGEST_HISTORY = 200;
export const PREFERENCES = players.preferences;
const DEFAULTS = players.learner_models.soft.options;

const listeners = new Set();
const past = [],
  future = [];

const flags = (names) => PREFERENCES.map((preference) => names.includes(preference.name));
export const presetFlags = (name) => flags(players.presets[name].preferences);

// brought: {name, file, about, weights, isAvoided, allowances} of a domain from a file, or null.
const defaultScene = () => ({
  world: GARDEN,
  brought: null,
  learner: {
    model: "soft",
    isAvoided: flags(["green within 1 cell"]),
    allowances: PREFERENCES.map(() => 0),
    mismatch_penalty: DEFAULTS.mismatch_penalty.default,
    violation_penalty: DEFAULTS.violation_penalty.default,
  },
  teachers: ["agnostic", "bilevel"],
  adaptive: "volume_search",
  max_rounds: 20,
  paths: [],
  won: [],
  secrets: PREFERENCES.map(() => false),
  walker: "volume_search",
  walks: [],
  place: "compare",
});

let scene = defaultScene();

export const getScene = () => scene;
export const getWorld = () => scene.world;
export const canUndo = () => past.length > 0;
export const canRedo = () => future.length > 0;

// listener(what): what is "world", "learner", "teachers" or another name of a part of the scene.
export function onChange(listener) {
  listeners.add(listener);
}

function announce(what) {
  for (const listener of listeners) listener(what);
  try {
    sessionStorage.setItem(KEPT, JSON.stringify(scene));
  } catch {
    // The page also works in a browser that stores nothing.
  }
}

// Every change of what is taught is one step of undo: paint, chips, sliders, teachers and paths. A stroke of the brush or
// of a slider changes the scene many times but is one step; it ends with endStroke.
let stroke = null;
export const endStroke = () => {
  stroke = null;
};

function change(next, what, name = null) {
  if (name === null || name !== stroke) {
    past.push(scene);
    if (past.length > LONGEST_HISTORY) past.shift();
    future.length = 0;
  }
  [stroke, scene] = [name, next];
  announce(what);
}

function restore(from, to) {
  if (!from.length) return;
  endStroke();
  to.push(scene);
  const { place, won, secrets } = scene;
  scene = { ...from.pop(), place, won, secrets };
  for (const what of ["world", "learner", "teachers", "paths"]) announce(what);
}

export const undo = () => restore(past, future);
export const redo = () => restore(future, past);

// Change parts of the scene that are neither the world nor the learner.
export function setPart(changes, name = null) {
  const [what] = Object.keys(changes);
  if (what === "paths" || what === "teachers") change({ ...scene, ...changes }, what, name);
  else {
    scene = { ...scene, ...changes };
    announce(what);
  }
}

// Paths that were drawn belong to one grid and one start.
export function setWorld(world, name = null) {
  if (!scene.brought && JSON.stringify(world) === JSON.stringify(scene.world)) return;
  const isSame = world.size === scene.world.size && world.start === scene.world.start;
  change({ ...scene, world, brought: null, paths: isSame ? scene.paths : [], walks: [] }, "world", name);
}

// A teacher that cannot teach the new model is replaced by the one that knows most about it.
export function setLearner(changes, name = null) {
  const learner = { ...scene.learner, ...changes };
  const teachers = scene.teachers.map((one) => (canTeach(one, learner.model) ? one : awareTeacher(learner.model)));
  change({ ...scene, learner, teachers: [...new Set(teachers)] }, "learner", name);
}

export function setBrought(brought, name = null) {
  change({ ...scene, brought, paths: [], walks: [] }, "world", name);
}

// The preferences of the learner: of the world or of the domain, each with a name, a flag and an allowance.
export function preferences() {
  const { brought, learner } = scene;
  const names = brought ? brought.about.preference_names : PREFERENCES.map(({ name }) => name);
  const { isAvoided, allowances } = brought ?? learner;
  return names.map((name, k) => ({ name, isAvoided: isAvoided[k], allowance: allowances[k] }));
}

// Change the preferences: changes has isAvoided or allowances, lists with one entry per preference.
export function setPreferences(changes, name = null) {
  if (!scene.brought) setLearner(changes, name);
  else change({ ...scene, brought: { ...scene.brought, ...changes } }, "learner", name);
}

// The scene in the form of a request; the path of a request depends on where the learner is taught.
export function asked() {
  const { brought, world, learner } = scene;
  const { model, mismatch_penalty, violation_penalty } = learner;
  const chosen = preferences()
    .map(({ name, isAvoided, allowance }, k) => {
      if (!isAvoided) return null;
      if (brought) return { name, allowance };
      const { colour, distance } = PREFERENCES[k];
      return { colour, distance, allowance };
    })
    .filter(Boolean);
  const who = { model, preferences: chosen, mismatch_penalty, violation_penalty };
  return brought ? { domain: { file: brought.file, weights: brought.weights }, learner: who } : { world, learner: who };
}

// Nothing is taught in a domain before it is said what is good there.
export const isUnweighed = () => scene.brought?.isWeighed === false;
export const WEIGH_FIRST = "Say first, beside the map, what is good and what is bad here.";

export const pathTo = (name, request) => (request.domain ? `/api/domain/${name}` : `/api/${name}`);

// What a picture needs beside the rounds: the world with the avoided cells, or the domain with its names.
export function viewOf(request, brought = scene.brought) {
  const rules = hasRules(request.learner.model) ? request.learner.preferences : [];
  if (request.domain) {
    const { about, name } = brought;
    const chosen = rules.map((preference) => about.preference_names.indexOf(preference.name));
    const avoided = new Array(about.n_states).fill(false);
    for (const k of chosen) for (const state of about.avoidable[k]) avoided[state] = true;
    const avoidedRoads = chosen.flatMap((k) => about.avoidable_roads[k]);
    return { about, name, avoided, avoidedRoads, preference_names: chosen.map((k) => about.preference_names[k]) };
  }
  return { world: request.world, avoided: avoidedCells(request.world, rules) };
}

// The name of the learner in the paper, or null.
export function presetName() {
  const isChosen = (name) => presetFlags(name).every((flag, k) => flag === scene.learner.isAvoided[k]);
  return Object.keys(players.presets).find(isChosen) ?? null;
}

// A stored or shared scene, taken over as far as it has the form of one; the server checks its world.
export function adoptScene(other) {
  const base = defaultScene();
  const isList = (list, like) => Array.isArray(list) && list.length === like.length;
  const { learner = {} } = other;
  const isLearner =
    learner.model in players.learner_models &&
    isList(learner.isAvoided, PREFERENCES) &&
    isList(learner.allowances, PREFERENCES) &&
    Number.isFinite(learner.mismatch_penalty) &&
    Number.isFinite(learner.violation_penalty);
  const teachers = (Array.isArray(other.teachers) ? other.teachers : []).filter((name) => name in players.teachers);
  for (const key of ["paths", "walks", "won"]) if (Array.isArray(other[key])) base[key] = other[key];
  scene = {
    ...base,
    world: other.world ?? base.world,
    brought: other.brought ?? null,
    learner: isLearner ? learner : base.learner,
    teachers: teachers.length ? teachers : base.teachers,
    adaptive: other.adaptive in players.teachers ? other.adaptive : base.adaptive,
    walker: other.walker in players.teachers ? other.walker : base.walker,
    place: typeof other.place === "string" ? other.place : base.place,
    secrets: isList(other.secrets, PREFERENCES) ? other.secrets : base.secrets,
  };
  announce("world");
  announce("learner");
}

// The scene of an exported page, or of this tab before it was reloaded; null if there is none.
export function keptBefore() {
  try {
    return keptScene() ?? JSON.parse(sessionStorage.getItem(KEPT));
  } catch {
    return null;
  }
}

async function through(bytes, transform) {
  return new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(transform)).arrayBuffer());
}

// A link that contains the whole scene and the place on the page. It shows no secret of a person who plays the learner.
export async function toLink() {
  const { secrets, ...rest } = scene;
  const text = JSON.stringify(rest);
  const bytes = await through(new TextEncoder().encode(text), new CompressionStream("deflate-raw"));
  const packed = toBase64(bytes).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
  return `${location.origin}${location.pathname}#scene=${packed}`;
}

export async function fromLink(hash) {
  const text = hash.slice("#scene=".length).replaceAll("-", "+").replaceAll("_", "/");
  try {
    const bytes = await through(fromBase64(text), new DecompressionStream("deflate-raw"));
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    throw new Error("The link is incomplete. Copy the whole link, and open it again.");
  }
}
