// Draws a world as an SVG, in units of cells. Object types differ in shape, distractors in stripes, and a negative
// reward has a minus sign, so that no mark depends on its colour alone. All styles are attributes: a saved picture
// needs no style sheet.

import { s } from "./dom.js";
import { columnOf, describe, holder, rowOf } from "./world.js";

const FILLS = { green: "#3f9b57", yellow: "#f4d64e" };
const FRAMES = { green: { stroke: "#1b7837" }, yellow: { stroke: "#b58900", "stroke-dasharray": "0.14 0.08" } };
const AVOIDED = "#c4c4c4";
const PURPLE = "#7b2a8b";
const PATHS = [
  { stroke: "#0072b2", "stroke-dasharray": "none" },
  { stroke: "#d55e00", "stroke-dasharray": "0.3 0.12" },
  { stroke: "#006b4e", "stroke-dasharray": "0.1 0.1" },
  { stroke: "#a23b72", "stroke-dasharray": "0.4 0.1 0.1 0.1" },
];
const STEPS = [
  [0, -1],
  [-1, 0],
  [0, 1],
  [1, 0],
  [0, 0],
];
const SMALLEST_PROBABILITY = 0.05;
const SMALLEST_VISITS = 1e-4;
// The offset of each path from the middle of its cells, so that paths do not cover each other.
const SHIFTS = [0, 0.14, -0.14, 0.07, -0.07, 0.2, -0.2];

const turn = (k) => [Math.sin((k * Math.PI) / 5), -Math.cos((k * Math.PI) / 5)];
const STAR = Array.from({ length: 10 }, (_, k) => turn(k).map((x) => 0.42 * (k % 2 ? 0.45 : 1) * x));
const PLUS = [
  [-0.12, -0.36],
  [0.12, -0.36],
  [0.12, -0.12],
  [0.36, -0.12],
  [0.36, 0.12],
  [0.12, 0.12],
  [0.12, 0.36],
  [-0.12, 0.36],
  [-0.12, 0.12],
  [-0.36, 0.12],
  [-0.36, -0.12],
  [-0.12, -0.12],
];
const ARROW = [
  [0, 0.12],
  [0.5, 0.12],
  [0.5, 0.36],
  [1, 0],
  [0.5, -0.36],
  [0.5, -0.12],
  [0, -0.12],
];
const STRIPES = {
  green: [
    [-0.8, 0, 0, -0.8],
    [-0.8, 0.8, 0.8, -0.8],
    [0, 0.8, 0.8, 0],
  ],
  yellow: [-0.55, 0, 0.55].map((y) => [-0.8, y, 0.8, y]),
};

const points = (corners) => corners.map(([x, y]) => `${round(x)},${round(y)}`).join(" ");
const round = (x) => Math.round(x * 1000) / 1000;
const mix = (from, to, share) => `rgb(${from.map((c, i) => Math.round(c + (to[i] - c) * share)).join(" ")})`;

export function heatColour(value, limit) {
  const share = Math.min(1, Math.abs(value) / limit);
  return value < 0 ? mix([247, 247, 247], [178, 24, 43], share) : mix([247, 247, 247], [33, 102, 172], share);
}

export const visitColour = (value, most) => mix([255, 255, 255], [63, 20, 110], Math.sqrt(most > 0 ? value / most : 0));

// The reward of the darkest colour: at most twice the largest, so that positive rewards are not pale.
export function heatLimit(maps) {
  const all = maps.flat();
  const largest = Math.max(...all),
    limit = Math.max(...all.map(Math.abs));
  return (largest > 0 ? Math.min(limit, 2 * largest) : limit) || 1;
}

// One mark in the unit square around (0, 0), for the grid, the legend and the brushes.
export function mark(kind, { scale = 1, fill = "#000" } = {}) {
  const edge = { stroke: fill === "#000" ? "#fff" : "#000", "stroke-width": 0.035 };
  if (kind === "star" || kind === "plus") {
    const shape = kind === "star" ? STAR : PLUS;
    return s("polygon", { points: points(shape.map(([x, y]) => [scale * x, scale * y])), fill, ...edge });
  }
  if (kind === "dot") return s("circle", { r: 0.2 * scale, fill, ...edge });
  if (kind === "start") {
    const ring = (stroke, width) => s("circle", { r: 0.43, fill: "none", stroke, "stroke-width": width });
    return s("g", {}, ring("#fff", 0.12), ring("#000", 0.065));
  }
  if (kind === "avoided") return s("rect", { x: -0.5, y: -0.5, width: 1, height: 1, fill: AVOIDED });
  if (kind === "erase") {
    return s("path", { d: "M-0.3 -0.3L0.3 0.3M-0.3 0.3L0.3 -0.3", stroke: "#000", "stroke-width": 0.1, fill: "none" });
  }
  const stripe = ([x1, y1, x2, y2]) =>
    s("line", {
      x1: 0.35 * x1,
      y1: 0.35 * y1,
      x2: 0.35 * x2,
      y2: 0.35 * y2,
      stroke: "#000",
      "stroke-width": 0.05,
    });
  const square = {
    x: -0.35,
    y: -0.35,
    width: 0.7,
    height: 0.7,
    fill: FILLS[kind],
    stroke: "#000",
    "stroke-width": 0.03,
  };
  return s("g", {}, s("rect", square), ...STRIPES[kind].map(stripe));
}

export const icon = (kind) => s("svg", { viewBox: "-0.5 -0.5 1 1", "aria-hidden": "true" }, mark(kind));

// Draw a world into an SVG. avoided: (n * n) flags; heat: {values, limit}; visits: (n * n); policy: (5 n * n),
// drawn where reached: (n * n) is not zero; paths: lists of cells; walker, cursor: a cell; isGrid: whether a screen reader
// finds its cells.
export function drawGrid(
  svg,
  { world, avoided, heat, visits, policy, reached, paths = [], walker, cursor, isGrid = false },
) {
  const { size } = world;
  const isMapped = Boolean(heat || visits);
  svg.setAttribute("viewBox", `-0.03 -0.03 ${size + 0.06} ${size + 0.06}`);
  const at = (cell, ...marks) =>
    s(
      "g",
      {
        transform: `translate(${columnOf(cell, size) + 0.5} ${rowOf(cell, size) + 0.5})`,
      },
      ...marks,
    );
  const all = [...Array(size * size).keys()];
  const most = visits ? Math.max(...visits) : 0;
  const fillOf = (cell) => {
    if (heat) return heatColour(heat.values[cell], heat.limit);
    if (visits) return visitColour(visits[cell], most);
    return avoided?.[cell] ? AVOIDED : "#fff";
  };
  const square = (cell) =>
    s("rect", {
      x: columnOf(cell, size),
      y: rowOf(cell, size),
      width: 1,
      height: 1,
      fill: fillOf(cell),
      stroke: "#bfbfbf",
      "stroke-width": 0.03,
      ...(isGrid
        ? {
            role: "gridcell",
            id: `${svg.id}-${cell}`,
            "aria-label": describe(world, cell),
            "aria-selected": String(cell === cursor),
          }
        : {}),
    });
  const rows = [...Array(size).keys()].map((row) =>
    s("g", isGrid ? { role: "row" } : {}, ...all.slice(row * size, (row + 1) * size).map(square)),
  );
  const layers = [s("g", {}, ...rows)];
  if (isMapped && avoided) layers.push(outline(avoided, size));
  if (heat) layers.push(s("g", {}, ...minuses(heat, world, Boolean(policy), at)));
  for (const colour of Object.keys(world.distractors)) {
    for (const cell of world.distractors[colour]) layers.push(at(cell, isMapped ? frame(colour) : mark(colour)));
  }
  const fill = policy ? "#a6a6a6" : "#000";
  for (const cell of all) {
    const kind = holder(world.objects, cell);
    if (kind) layers.push(at(cell, mark(kind, { scale: isMapped ? 0.75 : 1, fill })));
  }
  layers.push(at(world.start, mark("start")));
  if (policy) {
    const moved = all.filter((cell) => !reached || reached[cell] > SMALLEST_VISITS);
    layers.push(s("g", {}, ...moved.map((cell) => at(cell, ...arrows(policy.slice(5 * cell, 5 * cell + 5))))));
  }
  paths.forEach((path, number) => layers.push(pathMark(path, number, size)));
  if (walker !== undefined)
    layers.push(at(walker, s("circle", { r: 0.26, fill: "#e08a00", stroke: "#000", "stroke-width": 0.06 })));
  if (cursor !== undefined) layers.push(at(cursor, ...cursorMarks()));
  svg.replaceChildren(...layers);
  if (isGrid) {
    svg.setAttribute("role", "grid");
    svg.setAttribute("aria-label", `World of ${size} by ${size} cells`);
  }
}

function cursorMarks() {
  const box = (stroke, width) =>
    s("rect", { x: -0.46, y: -0.46, width: 0.92, height: 0.92, fill: "none", stroke, "stroke-width": width });
  return [box("#fff", 0.14), box("#e08a00", 0.08)];
}

function frame(colour) {
  const box = (style) => s("rect", { x: -0.45, y: -0.45, width: 0.9, height: 0.9, fill: "none", ...style });
  return s("g", {}, box({ stroke: "#fff", "stroke-width": 0.16 }), box({ "stroke-width": 0.09, ...FRAMES[colour] }));
}

// The borders between cells that are avoided and cells that are not.
function outline(avoided, size) {
  const flag = (row, column) => row >= 0 && column >= 0 && row < size && column < size && avoided[row * size + column];
  const parts = [];
  for (let row = 0; row <= size; row++) {
    for (let column = 0; column <= size; column++) {
      if (flag(row - 1, column) !== flag(row, column)) parts.push(`M${column} ${row}h1`);
      if (flag(row, column - 1) !== flag(row, column)) parts.push(`M${column} ${row}v1`);
    }
  }
  return s("path", { d: parts.join(""), stroke: "#444", "stroke-width": 0.06, fill: "none" });
}

// Minus signs for rewards below -limit / 20.
function minuses(heat, world, hasArrows, at) {
  const found = [];
  heat.values.forEach((value, cell) => {
    if (value >= -0.05 * heat.limit) return;
    const y = hasArrows || holder(world.objects, cell) ? 0.38 : 0;
    const stroke = value < -0.6 * heat.limit ? "#fff" : "#333";
    found.push(at(cell, s("line", { x1: -0.2, x2: 0.2, y1: y, y2: y, stroke, "stroke-width": 0.08 })));
  });
  return found;
}

// The length and opacity of an arrow grow with the probability of the move; a disc is staying.
function arrows(chosen) {
  const found = [];
  chosen.forEach((probability, action) => {
    if (probability < SMALLEST_PROBABILITY) return;
    const style = {
      fill: PURPLE,
      "fill-opacity": round(0.25 + 0.75 * probability),
      stroke: "#fff",
      "stroke-width": 0.02,
    };
    const [x, y] = STEPS[action];
    if (x === 0 && y === 0) {
      found.push(s("circle", { r: round(0.11 * Math.sqrt(probability)), ...style }));
      return;
    }
    const length = 0.38 * (0.35 + 0.65 * probability);
    const corner = ([along, across]) => [
      x * (0.11 + length * along) - y * length * across,
      y * (0.11 + length * along) + x * length * across,
    ];
    found.push(s("polygon", { points: points(ARROW.map(corner)), ...style }));
  });
  return found;
}

// A line through the cells, with a square where it ends.
function pathMark(path, number, size) {
  const style = PATHS[number % PATHS.length];
  const shift = SHIFTS[number % SHIFTS.length];
  const places = path.map((cell) => [columnOf(cell, size) + 0.5 + shift, rowOf(cell, size) + 0.5 + shift]);
  const [x, y] = places.at(-1);
  return s(
    "g",
    {},
    s("polyline", {
      points: points(places),
      fill: "none",
      stroke: "#fff",
      "stroke-width": 0.17,
      "stroke-linejoin": "round",
    }),
    s("polyline", { points: points(places), fill: "none", "stroke-width": 0.1, "stroke-linejoin": "round", ...style }),
    s("rect", {
      x: x - 0.13,
      y: y - 0.13,
      width: 0.26,
      height: 0.26,
      fill: style.stroke,
      stroke: "#fff",
      "stroke-width": 0.04,
    }),
  );
}

// The cell under a pointer; null outside the grid.
export function cellAt(svg, world, event) {
  const box = svg.getBoundingClientRect();
  const column = Math.floor(((event.clientX - box.left) / box.width) * world.size);
  const row = Math.floor(((event.clientY - box.top) / box.height) * world.size);
  const isInside = row >= 0 && column >= 0 && row < world.size && column < world.size;
  return isInside ? row * world.size + column : null;
}
