// The state of the page: the world with its undo history, the learner, and the results so far.

import { players } from "./players.js";

const KEPT = "tutelage-playground";
const LONGEST_HISTORY = 200;

const ALL = players.preferences;
const DEFAULTS = players.learner_models.soft.options;

const listeners = new Set();
const past = [],
  future = [];
let world = null;
let learner = {
  model: "soft",
  isAvoided: presetFlags("L3"),
  allowances: ALL.map(() => 0),
  mismatch_penalty: DEFAULTS.mismatch_penalty.default,
  violation_penalty: DEFAULTS.violation_penalty.default,
};

// Name -> {kind, request, rounds, snippet}: the results that can be exported, the newest last.
export const results = new Map();

export function presetFlags(name) {
  return ALL.map((preference) => players.presets[name].preferences.includes(preference.name));
}

export function onChange(listener) {
  listeners.add(listener);
}

function announce(what) {
  for (const listener of listeners) listener(what);
  if (!world) return;
  try {
    localStorage.setItem(KEPT, JSON.stringify({ world, learner }));
  } catch {
    // The page also works in a browser that stores nothing.
  }
}

// The world and the learner of the last visit; null if there are none.
export function kept() {
  try {
    return JSON.parse(localStorage.getItem(KEPT));
  } catch {
    return null;
  }
}

export const allPreferences = () => ALL;
export const getWorld = () => world;
export const getLearner = () => learner;
export const canUndo = () => past.length > 0;
export const canRedo = () => future.length > 0;

// Replace the world; undo restores the old one.
export function setWorld(next) {
  if (world && JSON.stringify(next) === JSON.stringify(world)) return;
  if (world) remember(world);
  world = next;
  announce("world");
}

function remember(before) {
  past.push(before);
  if (past.length > LONGEST_HISTORY) past.shift();
  future.length = 0;
}

// A stroke of the brush changes the world many times but is one step of undo, which restores `before`.
export function paintWorld(next, before) {
  if (JSON.stringify(next) === JSON.stringify(world)) return;
  if (past.at(-1) !== before) remember(before);
  world = next;
  announce("world");
}

export function undo() {
  if (!past.length) return;
  future.push(world);
  world = past.pop();
  announce("world");
}

export function redo() {
  if (!future.length) return;
  past.push(world);
  world = future.pop();
  announce("world");
}

// Take over a stored learner, if it is valid.
export function adoptLearner(other) {
  const isList = (list, type) =>
    Array.isArray(list) && list.length === ALL.length && list.every((x) => typeof x === type);
  const { model, isAvoided, allowances, mismatch_penalty, violation_penalty } = other ?? {};
  const areNumbers = [mismatch_penalty, violation_penalty].every((x) => typeof x === "number");
  const areLists = isList(isAvoided, "boolean") && isList(allowances, "number");
  if (!(model in players.learner_models) || !areLists || !areNumbers) return;
  setLearner({ model, isAvoided, allowances, mismatch_penalty, violation_penalty });
}

export function setLearner(changes) {
  learner = { ...learner, ...changes };
  announce("learner");
}

export const avoidedPreferences = () => ALL.filter((_, k) => learner.isAvoided[k]);

// The learner in the form of a request.
export function learnerAsked() {
  const preferences = ALL.map(({ colour, distance }, k) => ({
    colour,
    distance,
    allowance: learner.allowances[k],
  })).filter((_, k) => learner.isAvoided[k]);
  const { model, mismatch_penalty, violation_penalty } = learner;
  return { model, preferences, mismatch_penalty, violation_penalty };
}

// Whether the world or the learner has changed since the request.
export function isStale(request) {
  return JSON.stringify([request.world, request.learner]) !== JSON.stringify([world, learnerAsked()]);
}

// The name of the learner in the paper, or null.
export function presetName() {
  const isChosen = (name) => presetFlags(name).every((flag, k) => flag === learner.isAvoided[k]);
  return Object.keys(players.presets).find(isChosen) ?? null;
}

export function keepResult(name, result) {
  results.delete(name);
  results.set(name, result);
  announce("results");
}
