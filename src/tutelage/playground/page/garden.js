// A garden whose answers were computed beforehand by the package: what a path is worth, and what the learner makes of it.

import { shown } from "./dom.js";
import { OBJECTS, avoidedCells, holder } from "./world.js";

const DISTANCES = { "within 0 cells": 0, "within 1 cell": 1, "within 2 cells": 2 };
// "green within 1 cell" -> {colour, distance}.
function ruleOf(name) {
  const [colour, ...rest] = name.split(" ");
  return { colour, distance: DISTANCES[rest.join(" ")] };
}

export const avoidedIn = (garden, world = garden.world) => avoidedCells(world, garden.preferences.map(ruleOf));

// The object that a path ends at; null if it ends at none.
export const endOf = (world, path) => (path?.length > 1 ? holder(world.objects, path.at(-1)) : null);

// The key of a lesson in the garden's answers.
export function lessonOf(world, paths) {
  const ends = paths.map((path) => [endOf(world, path), path.length - 1]).filter(([kind]) => kind);
  return ends.length
    ? ends
        .map(([kind, steps]) => `${kind}${steps}`)
        .sort()
        .join("+")
    : "none";
}

// The expected discounted visits to the object at the end of a path, whose every visit may end the walk.
export function visitsOf(world, path) {
  if (!endOf(world, path)) return 0;
  return world.discount ** (path.length - 1) / (1 - world.discount * (1 - world.end_probability));
}

const worthOf = (world, kind) => (kind ? world.weights[OBJECTS.indexOf(kind)] : 0);
export const pointsOf = (world, path) => visitsOf(world, path) * worthOf(world, endOf(world, path));
export const points = (value) => `${shown(value, 1)} points`;

// Marks with their worth.
export function labelsOf(world) {
  const labels = { [world.start]: "start" };
  for (const kind of OBJECTS)
    for (const cell of world.objects[kind]) labels[cell] = `${kind} ${worthOf(world, kind).toFixed(1)}`;
  return labels;
}

// What the learner makes of each cell: what it was taught, and what it dislikes itself.
export function beliefsOf(garden, weights, world = garden.world) {
  const avoided = avoidedIn(garden, world);
  const dislike = weights[OBJECTS.length] ?? 0;
  return avoided.map((flag, cell) => {
    const kind = holder(world.objects, cell);
    return { kind, taught: kind ? weights[OBJECTS.indexOf(kind)] : 0, dislike: flag ? dislike : 0 };
  });
}

export const signed = (value) => `${value < 0 ? "−" : "+"}${shown(Math.abs(value), 0)}`;

// "+5 − 10 = −5".
export const sumOf = ({ taught, dislike }) =>
  `${signed(taught)} ${dislike < 0 ? "−" : "+"} ${shown(Math.abs(dislike), 0)} = ${signed(taught + dislike)}`;

// The most that any lesson gets, as of `mostOf`: of a learner that never breaks its rules the bound is the optimum.
export const mostIn = ({ model, bound }) => ({ bound, isReached: model === "hard" });
