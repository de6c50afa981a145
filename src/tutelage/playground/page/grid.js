// Draws a world as an SVG, in units of cells. Object types differ in shape, distractors in stripes, avoided cells are
// hatched and a negative reward has a minus sign, so that no mark depends on its colour alone. All styles are attributes:
// a saved picture needs no style sheet.

import { repaint, s } from "./dom.js";
import { beliefColour, look, mix, visitColour } from "./look.js";
import { columnOf, describe, holder, rowOf } from "./world.js";

const DASHES = ["none", "0.3 0.12", "0.1 0.1", "0.4 0.1 0.1 0.1"];
const STEPS = [
  [0, -1],
  [-1, 0],
  [0, 1],
  [1, 0],
  [0, 0],
];
const SMALLEST_PROBABILITY = 0.05;
const SMALLEST_VISITS = 1e-3;
// In larger worlds a cell has room for one arrow only.
const LARGEST_DETAILED = 14;
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

const round = (x) => Math.round(x * 1000) / 1000;
const points = (corners) => corners.map(([x, y]) => `${round(x)},${round(y)}`).join(" ");

// The middle of a cell.
export const middle = (cell, size) => [columnOf(cell, size) + 0.5, rowOf(cell, size) + 0.5];

// One mark in the unit square around (0, 0), for the grid, the legend and the brushes.
export function mark(kind, { scale = 1, fill = look().ink } = {}) {
  const { halo, ink, avoided, hatch } = look();
  const edge = { stroke: halo, "stroke-width": 0.05, "paint-order": "stroke" };
  if (kind === "star" || kind === "plus") {
    const shape = kind === "star" ? STAR : PLUS;
    return s("polygon", { points: points(shape.map(([x, y]) => [scale * x, scale * y])), fill, ...edge });
  }
  if (kind === "dot") return s("circle", { r: 0.2 * scale, fill, ...edge });
  if (kind === "start") {
    const ring = (stroke, width) => s("circle", { r: 0.4, fill: "none", stroke, "stroke-width": width });
    return s("g", {}, ring(halo, 0.13), ring(ink, 0.065));
  }
  if (kind === "avoided") {
    return s(
      "g",
      {},
      s("rect", { x: -0.5, y: -0.5, width: 1, height: 1, fill: avoided }),
      s("path", { d: hatching(-0.5, -0.5), stroke: hatch, "stroke-width": 0.06, fill: "none" }),
    );
  }
  if (kind === "erase") {
    return s("path", { d: "M-0.3 -0.3L0.3 0.3M-0.3 0.3L0.3 -0.3", stroke: ink, "stroke-width": 0.1, fill: "none" });
  }
  const stripe = ([x1, y1, x2, y2]) =>
    s("line", {
      x1: round(0.42 * x1),
      y1: round(0.42 * y1),
      x2: round(0.42 * x2),
      y2: round(0.42 * y2),
      stroke: "#12151a",
      "stroke-opacity": 0.55,
      "stroke-width": 0.05,
    });
  const square = { x: -0.42, y: -0.42, width: 0.84, height: 0.84, rx: 0.1, fill: look()[kind] };
  return s("g", {}, s("rect", square), ...STRIPES[kind].map(stripe));
}

// Two diagonals of a cell, which meet those of its neighbours.
const hatching = (x, y) => `M${x} ${y + 0.5}l0.5 -0.5M${x} ${y + 1}l1 -1M${x + 0.5} ${y + 1}l0.5 -0.5`;

export const icon = (kind) =>
  s("svg", { class: "icon", viewBox: "-0.5 -0.5 1 1", "aria-hidden": "true", focusable: "false" }, mark(kind));

// Draw a world into an SVG. avoided: (n * n) flags; belief, visits: {values, most}, (n * n) values; policy: (5 n * n),
// drawn where reached: (n * n) is not zero; routes: {paths, colour}, faint lines; paths: what a person drew; cursor: a
// cell; isGrid: whether a screen reader finds its cells; labels: cell -> text below its mark; sums: cell -> numbers;
// clues: {fill, text} of each cell;
// figures: {kind, at, mood}, who is there.
export function drawGrid(svg, options) {
  const { world, avoided, belief, visits, policy, reached, routes, paths = [], cursor, isGrid = false } = options;
  const { labels = {}, sums = {}, figures = [], clues, pathColour } = options;
  const { size } = world;
  const colours = look();
  const isMapped = Boolean(belief || visits);
  svg.setAttribute("viewBox", `-0.04 -0.04 ${size + 0.08} ${size + 0.08}`);
  const at = (cell, ...marks) => s("g", { transform: `translate(${middle(cell, size).join(" ")})` }, ...marks);
  // In a small picture of a large world, marks are larger than their cells.
  const zoom = !isGrid && size > LARGEST_DETAILED ? " scale(1.7)" : "";
  const marked = (cell, one) => s("g", { transform: `translate(${middle(cell, size).join(" ")})${zoom}` }, one);
  const all = [...Array(size * size).keys()];
  const fillOf = (cell) => {
    if (clues) return clues[cell].fill;
    if (belief) return beliefColour(belief.values[cell], belief.most);
    if (visits) return visitColour(visits.values[cell], visits.most);
    return avoided?.[cell] ? colours.avoided : colours.cell;
  };
  const place = (cell) => ({ x: columnOf(cell, size), y: rowOf(cell, size), width: 1, height: 1 });
  const square = (cell) =>
    s("rect", {
      ...place(cell),
      fill: fillOf(cell),
      stroke: colours.line,
      "stroke-width": 0.03,
      role: "gridcell",
      id: `${svg.id}-${cell}`,
      "aria-label": describe(world, cell, avoided) + (sums[cell] ? `, ${sums[cell].join(" and ")}` : ""),
      "aria-selected": String(cell === cursor),
    });
  const rows = [...Array(size).keys()];
  const layers = isGrid
    ? [
        s(
          "g",
          {},
          ...rows.map((row) => s("g", { role: "row" }, ...all.slice(row * size, (row + 1) * size).map(square))),
        ),
      ]
    : ground(size, all, fillOf, place);
  if (avoided && !isMapped) {
    const cells = all.filter((cell) => avoided[cell]);
    const d = cells.map((cell) => hatching(columnOf(cell, size), rowOf(cell, size))).join("");
    if (d) layers.push(s("path", { d, stroke: colours.hatch, "stroke-width": 0.045, fill: "none" }));
  }
  for (const colour of Object.keys(world.distractors)) {
    const style = isMapped ? { opacity: 0.3 } : {};
    for (const cell of world.distractors[colour]) layers.push(s("g", style, marked(cell, mark(colour))));
  }
  if (avoided?.some(Boolean)) layers.push(outline(avoided, size));
  if (clues) layers.push(s("g", {}, ...clues.map(({ text }, cell) => at(cell, words(text, -0.24, 0.24)))));
  if (belief && !options.sums) layers.push(s("g", {}, ...minuses(belief, world, at)));
  const faded = { fill: policy ? mix(colours.cell, colours.ink, 0.35) : colours.ink };
  for (const cell of all) {
    const kind = holder(world.objects, cell);
    if (kind) layers.push(marked(cell, mark(kind, { scale: options.sums ? 0.55 : isMapped ? 0.8 : 1, ...faded })));
  }
  layers.push(marked(world.start, mark("start")));
  if (routes) layers.push(routeLines(routes, size));
  if (policy) {
    const moved = all.filter((cell) => !reached || reached[cell] > SMALLEST_VISITS);
    const draw = size > LARGEST_DETAILED ? boldArrow : arrows;
    layers.push(s("g", {}, ...moved.map((cell) => at(cell, ...draw(policy.slice(5 * cell, 5 * cell + 5))))));
  }
  layers.push(s("g", {}, ...paths.map((path, number) => pathMark(path, number, size, pathColour))));
  for (const [cell, text] of Object.entries(labels)) layers.push(at(Number(cell), words(text, 0.44, 0.17)));
  if (cursor !== undefined) layers.push(at(cursor, ...cursorMarks()));
  for (const [cell, chips] of Object.entries(sums)) layers.push(at(Number(cell), ...chipMarks(chips)));
  layers.push(s("g", { class: "figures", "aria-hidden": "true" }, ...figures.map((one) => figure(one, size))));
  repaint(svg, layers);
  if (isGrid) {
    svg.setAttribute("role", "grid");
    svg.setAttribute("aria-label", `World of ${size} by ${size} cells`);
  }
}

// The cells of a picture that nobody draws on: only those with a colour of their own, and the lines between all.
function ground(size, all, fillOf, place) {
  const { cell: plain, line } = look();
  const steps = [...Array(size + 1).keys()];
  const d = steps.map((k) => `M0 ${k}h${size}M${k} 0v${size}`).join("");
  return [
    s("rect", { width: size, height: size, fill: plain }),
    ...all.filter((cell) => fillOf(cell) !== plain).map((cell) => s("rect", { ...place(cell), fill: fillOf(cell) })),
    s("path", { d, stroke: line, "stroke-width": 0.03, fill: "none" }),
  ];
}

function cursorMarks() {
  const box = (stroke, width) =>
    s("rect", { x: -0.46, y: -0.46, width: 0.92, height: 0.92, fill: "none", stroke, "stroke-width": width });
  return [box(look().halo, 0.14), box(look().shown, 0.08)];
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
  return s("path", { d: parts.join(""), stroke: look().hatch, "stroke-width": 0.06, fill: "none" });
}

// Minus signs where the learner expects to lose something.
function minuses(belief, world, at) {
  const found = [];
  belief.values.forEach((value, cell) => {
    if (value >= -0.01 * belief.most) return;
    const y = holder(world.objects, cell) ? 0.4 : 0;
    const stroke = Math.abs(value) > 0.4 * belief.most ? look().halo : look().ink;
    found.push(at(cell, s("line", { x1: -0.18, x2: 0.18, y1: y, y2: y, stroke, "stroke-width": 0.08 })));
  });
  return found;
}

// The length and opacity of an arrow grow with the probability of the move; a disc is staying.
function arrows(chosen) {
  const found = [];
  chosen.forEach((probability, action) => {
    if (probability < SMALLEST_PROBABILITY) return;
    const style = { fill: look().ink, "fill-opacity": round(0.3 + 0.7 * probability) };
    const [x, y] = STEPS[action];
    if (x === 0 && y === 0) {
      found.push(s("circle", { r: round(0.13 * Math.sqrt(probability)), ...style }));
      return;
    }
    const length = 0.4 * (0.35 + 0.65 * probability);
    const corner = ([along, across]) => [
      x * (0.09 + length * along) - y * length * across,
      y * (0.09 + length * along) + x * length * across,
    ];
    found.push(s("polygon", { points: points(ARROW.map(corner)), ...style }));
  });
  return found;
}

// The most probable move alone, as a triangle that fills the cell.
function boldArrow(chosen) {
  const action = chosen.indexOf(Math.max(...chosen));
  const [x, y] = STEPS[action];
  if (x === 0 && y === 0) return [s("circle", { r: 0.24, fill: look().ink })];
  const corners = [
    [0.42, 0],
    [-0.3, 0.36],
    [-0.3, -0.36],
  ].map(([along, across]) => [x * along - y * across, y * along + x * across]);
  return [s("polygon", { points: points(corners), fill: look().ink })];
}

// The routes of a crowd: the more walkers take one, the stronger it is.
function routeLines({ paths, colour }, size) {
  const opacity = round(Math.max(0.12, Math.min(0.6, 2.4 / paths.length)));
  const line = (path) => {
    const moves = path.filter((cell, k) => k === 0 || cell !== path[k - 1]);
    return s("polyline", { points: points(moves.map((cell) => middle(cell, size))) });
  };
  const style = { fill: "none", stroke: colour, "stroke-width": 0.13, "stroke-opacity": opacity };
  return s(
    "g",
    { class: "routes", ...style, "stroke-linejoin": "round", "stroke-linecap": "round" },
    ...paths.map(line),
  );
}

// A line through the cells, with a square where it ends.
function pathMark(path, number, size, colour = look().shown) {
  const shift = SHIFTS[number % SHIFTS.length];
  const places = path.map((cell) => middle(cell, size).map((x) => x + shift));
  const [x, y] = places.at(-1);
  const line = (style) =>
    s("polyline", {
      points: points(places),
      fill: "none",
      "stroke-linejoin": "round",
      "stroke-linecap": "round",
      ...style,
    });
  const { halo } = look();
  return s(
    "g",
    { class: "path" },
    line({ stroke: halo, "stroke-width": 0.2 }),
    line({ stroke: colour, "stroke-width": 0.12, "stroke-dasharray": DASHES[number % DASHES.length] }),
    s("rect", { x: x - 0.15, y: y - 0.15, width: 0.3, height: 0.3, fill: colour, stroke: halo, "stroke-width": 0.05 }),
  );
}

const words = (text, y, size) =>
  s(
    "text",
    {
      y,
      "font-size": size,
      "text-anchor": "middle",
      fill: look().ink,
      stroke: look().halo,
      "stroke-width": 0.07,
      "paint-order": "stroke",
    },
    text,
  );

// Numbers side by side, each on a chip; two are followed by their sum.
function chipMarks(numbers) {
  const { good, bad, halo, cell } = look();
  const text = (value) => `${value < 0 ? "−" : "+"}${Math.abs(Math.round(value))}`;
  const chip = (value, x) => [
    s("rect", { x: x - 0.21, y: -0.46, width: 0.42, height: 0.26, rx: 0.08, fill: value < 0 ? bad : good, stroke: cell, "stroke-width": 0.025 }),
    s("text", { x, y: -0.27, "font-size": 0.19, "text-anchor": "middle", fill: halo }, text(value)),
  ];
  if (numbers.length === 1) return chip(numbers[0], 0);
  return [...chip(numbers[0], -0.22), ...chip(numbers[1], 0.22), words(`= ${text(numbers[0] + numbers[1])}`, 0.44, 0.24)];
}

// Who is there: the guide has a hat, the learner a face. mood: "calm", "glad" or "no". at: a cell, or a place between.
function figure({ kind, at, mood = "calm" }, size) {
  const [x, y] = Array.isArray(at) ? at : middle(at, size);
  const { halo, shown, done } = look();
  const body = s("circle", { r: 0.27, fill: kind === "guide" ? shown : done, stroke: halo, "stroke-width": 0.05 });
  const line = (d, stroke = halo) => s("path", { d, stroke, "stroke-width": 0.045, fill: "none", "stroke-linecap": "round" });
  const eyes = s("path", {
    d: "M-0.09 -0.05h0.001M0.09 -0.05h0.001",
    stroke: halo,
    "stroke-width": 0.09,
    "stroke-linecap": "round",
  });
  const mouth = { calm: "M-0.08 0.1h0.16", glad: "M-0.11 0.07q0.11 0.13 0.22 0", no: "M-0.1 0.14q0.1 -0.1 0.2 0" }[mood];
  const hat = s("path", { d: "M-0.3 -0.17h0.6M-0.15 -0.17v-0.2h0.3v0.2", stroke: shown, "stroke-width": 0.1, fill: shown });
  const marks = kind === "guide" ? [body, hat, eyes, line("M-0.08 0.1h0.16")] : [body, eyes, line(mouth)];
  return s("g", { class: `figure ${kind} ${mood}`, transform: `translate(${round(x)} ${round(y)})` }, s("g", {}, ...marks));
}

// The cell under a pointer; null outside the grid.
export function cellAt(svg, world, event) {
  const box = svg.getBoundingClientRect();
  const column = Math.floor(((event.clientX - box.left) / box.width) * world.size);
  const row = Math.floor(((event.clientY - box.top) / box.height) * world.size);
  const isInside = row >= 0 && column >= 0 && row < world.size && column < world.size;
  return isInside ? row * world.size + column : null;
}
