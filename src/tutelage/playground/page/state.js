// What the page knows: the world with its history, the learner, and what was taught so far.

import { COLOURS, DISTANCES, PRESETS } from "./world.js";

const KEPT = "tutelage-playground";
const LONGEST_HISTORY = 200;

const ALL = COLOURS.flatMap((colour) => DISTANCES.map((distance) => ({ colour, distance })));

const listeners = new Set();
const past = [],
  future = [];
let world = null;
let learner = {
  model: "soft",
  minded: presetFlags("L3"),
  allowances: ALL.map(() => 0),
  mismatch_penalty: 5,
  violation_penalty: 10,
};

// Name -> {kind, request, rounds, snippet}: what can be exported, the last one last.
export const results = new Map();

export function presetFlags(name) {
  return ALL.map((_, k) => k < PRESETS[name]);
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
    // A browser that keeps nothing can still be used.
  }
}

// What was here when the page was last open; null where nothing was, or nothing that can be read.
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

// A new world; the one before can be had back.
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

// A stroke of the brush changes the world many times and is undone at once: `before` is what undo comes back to.
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

// A learner from elsewhere, of which only what is understood is taken.
export function adoptLearner(other) {
  const isList = (list, type) =>
    Array.isArray(list) && list.length === ALL.length && list.every((x) => typeof x === type);
  const { model, minded, allowances, mismatch_penalty, violation_penalty } = other ?? {};
  const areNumbers = [mismatch_penalty, violation_penalty].every((x) => typeof x === "number");
  if (!["soft", "hard"].includes(model) || !isList(minded, "boolean") || !isList(allowances, "number") || !areNumbers)
    return;
  setLearner({ model, minded, allowances, mismatch_penalty, violation_penalty });
}

export function setLearner(changes) {
  learner = { ...learner, ...changes };
  announce("learner");
}

export const mindedPreferences = () => ALL.filter((_, k) => learner.minded[k]);

// The learner as the server wants it.
export function learnerAsked() {
  const preferences = ALL.map((preference, k) => ({ ...preference, allowance: learner.allowances[k] })).filter(
    (_, k) => learner.minded[k],
  );
  const { model, mismatch_penalty, violation_penalty } = learner;
  return { model, preferences, mismatch_penalty, violation_penalty };
}

// Whether a request speaks of another world or learner than those on the page.
export function isStale(request) {
  return JSON.stringify([request.world, request.learner]) !== JSON.stringify([world, learnerAsked()]);
}

// The name of the learner of the paper that it is, if it is one.
export function presetName() {
  return Object.keys(PRESETS).find((name) => presetFlags(name).every((flag, k) => flag === learner.minded[k])) ?? null;
}

export function keepResult(name, result) {
  results.delete(name);
  results.set(name, result);
  announce("results");
}
