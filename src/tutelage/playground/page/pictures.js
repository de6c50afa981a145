// Pictures of states in the plane: data in, an SVG out. A world and a map are grounds, and all else is a layer on a ground.
// A unit is the width of a cell. All styles are attributes: a saved picture needs no style sheet.

import { repaint, s } from "./dom.js";
import { beliefColour, look, mix, visitColour } from "./look.js";
import { KINDS, arrows, chips, figure, hatching, line, mark, points, rect, round, words } from "./marks.js";
import { COLOURS, describe, holder, middle } from "./world.js";

const DASHES = ["none", "0.3 0.12", "0.1 0.1", "0.4 0.1 0.1 0.1"];
// The offset of each path from the middle of its cells, so that paths do not cover each other.
const SHIFTS = [0, 0.14, -0.14, 0.07, -0.07, 0.2, -0.2];
const SMALLEST_VISITS = 1e-3;
// In larger worlds a cell has room for one arrow only.
const LARGEST_DETAILED = 14;
// On a map: how many shades there are, and how many states of a feature are marked; a feature of more, or of most
// states, such as a length, marks none.
const SHADES = 16;
const MOST_MARKS = 60;

// Where states are: places, [x, y] or null of each; size, [width, height]; isCells, squares side by side instead of dots;
// roads, pairs of states; marks, {kind, at}; name(state).
const grounds = new WeakMap();
export function groundOf({ world, about }) {
  const key = world ?? about;
  if (!world && !about.map) return null;
  if (!grounds.has(key)) grounds.set(key, world ? cellsOf(world) : mapOf(about));
  return grounds.get(key);
}

function cellsOf(world) {
  const { size } = world;
  const all = [...Array(size * size).keys()];
  const held = (things) => all.map((at) => ({ kind: holder(things, at), at })).filter(({ kind }) => kind);
  return {
    places: all.map((cell) => middle(cell, size)),
    size: [size, size],
    isCells: true,
    roads: [],
    marks: [...held(world.distractors), ...held(world.objects), { kind: "start", at: world.start }],
    name: (cell, avoided) => describe(world, cell, avoided),
  };
}

function mapOf({ map, rewarding, starts, state_names, n_states }) {
  const known = map.places.filter(Boolean);
  const [xs, ys] = [0, 1].map((axis) => known.map((place) => place[axis]));
  const [left, right, bottom, top] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const span = Math.max(right - left, top - bottom) || 1;
  const scale = map.is_grid ? 1 : Math.max(11, Math.min(64, 0.8 * Math.sqrt(n_states))) / span;
  const few = (states, most = MOST_MARKS) => (states.length > most ? [] : states).filter((state) => map.places[state]);
  return {
    places: map.places.map((place) => place && [0.5 + scale * (place[0] - left), 0.5 + scale * (top - place[1])]),
    size: [scale * (right - left) + 1, scale * (top - bottom) + 1],
    isCells: map.is_grid,
    roads: map.roads,
    streets: map.streets,
    marks: [
      ...rewarding.flatMap((states, k) =>
        few(states, Math.min(MOST_MARKS, n_states / 2)).map((at) => ({ kind: KINDS[k % KINDS.length], at })),
      ),
      ...few(starts).map((at) => ({ kind: "start", at })),
    ],
    name: (state) => state_names?.[state] ?? `state ${state}`,
  };
}

// Draw a ground with layers. avoided: flags of the states; avoidedRoads: pairs of states; belief, visits: {values, most};
// policy: of the cells that were reached; routes: {paths, colour}, faint lines; lines: {states, colour, dashes} below the
// marks; paths: what a person draws; labels: state -> text; sums: state -> numbers; clues: {fill, text} of each; figures:
// {kind, at, mood}; cursor: a state; isTouched: whether a screen reader finds its cells.
export function draw(svg, ground, layers) {
  const { avoided, belief, visits, policy, reached, routes, clues, cursor, isTouched = false } = layers;
  const { paths = [], labels = {}, sums = {}, figures = [], avoidedRoads = [], lines = [], pathColour } = layers;
  const { places, size, isCells } = ground;
  const { cell: plain, ink, hatch, halo, shown } = look();
  const isMapped = Boolean(belief || visits);
  const isLarge = Math.max(...size) > LARGEST_DETAILED;
  // In a small picture of a large world, marks are larger than its cells.
  // Beside a clue they leave its corner of the cell free.
  const zoom = clues ? " translate(0.12 0.12) scale(0.62)" : !isTouched && isLarge && isCells ? " scale(1.7)" : "";
  const moveTo = (state) => `translate(${places[state].map(round).join(" ")})`;
  const at = (state, marks) => s("g", { transform: moveTo(state) }, marks);
  const marked = ({ kind, at: state }, style, opacity = 1) =>
    s("g", { transform: moveTo(state) + zoom, opacity }, mark(kind, style));
  const isColour = ({ kind }) => COLOURS.includes(kind);
  const flagged = avoided ? places.flatMap((place, state) => (place && avoided[state] ? [state] : [])) : [];
  const scale = layers.sums ? 0.55 : isMapped ? 0.8 : 1;
  const style = { fill: policy ? mix(plain, ink, 0.35) : ink, scale };
  const moves = (k) => at(k, arrows(policy.slice(5 * k, 5 * k + 5), isLarge));
  const who = figures.map((one) => figure(one, Array.isArray(one.at) ? one.at : places[one.at]));
  const frame = (stroke, width) => rect(-0.46, -0.46, 0.92, 0.92, line(stroke, width));
  svg.setAttribute("viewBox", `-0.04 -0.04 ${round(size[0] + 0.08)} ${round(size[1] + 0.08)}`);
  repaint(svg, [
    isCells ? cells(svg, ground, layers) : dots(ground, layers, flagged),
    isCells && !isMapped && way(flagged.map((state) => hatching(places[state])).join(""), line(hatch, 0.045)),
    ground.marks.filter(isColour).map((one) => marked(one, {}, isMapped ? 0.3 : 1)),
    isCells && way(outline(flagged, places), line(hatch, 0.06)),
    way(strokes(avoidedRoads, places), { class: "roads", ...line(hatch, 0.14, "0.02 0.22") }),
    belief && isCells && !layers.sums && g(minuses(belief, ground, at)),
    lines.map(({ states, colour, dashes }, k) => g(wayLine(states, k, places, colour, dashes))),
    ground.marks.filter((one) => !isColour(one)).map((one) => marked(one, one.kind === "start" ? {} : style)),
    clues && g(clues.map(({ text }, state) => at(state, words(text, -0.22, 0.24, -0.32)))),
    routes && routeLines(routes, places),
    policy && g(places.map((_, k) => (!reached || reached[k] > SMALLEST_VISITS) && moves(k))),
    g(paths.map((path, number) => pathLine(path, number, places, pathColour))),
    Object.entries(labels).map(([state, text]) => at(state, words(text, 0.44, 0.17))),
    cursor !== undefined && at(cursor, [frame(halo, 0.14), frame(shown, 0.08)]),
    Object.entries(sums).map(([state, numbers]) => at(state, chips(numbers))),
    s("g.figures", { "aria-hidden": "true" }, who),
  ]);
  if (!isTouched) return;
  svg.setAttribute("role", "grid");
  svg.setAttribute("aria-label", `World of ${size[0]} by ${size[1]} cells`);
}

const g = (marks) => s("g", marks);
const way = (d, style) => d !== "" && s("path", { d, ...style });
const text = (place) => place.map((x) => round(x)).join(" ");
const strokes = (roads, places) => roads.map(([a, b]) => `M${text(places[a])}L${text(places[b])}`).join("");

function fillOf({ avoided, belief, visits, clues }, state, shade = (value) => value) {
  if (clues) return clues[state].fill;
  if (belief) return beliefColour(shade(belief.values[state], belief.most), belief.most);
  if (visits) return visitColour(shade(visits.values[state], visits.most), visits.most);
  return avoided?.[state] ? look().avoided : look().cell;
}

// Squares side by side. Those that nobody touches are drawn only where they have a colour of their own.
function cells(svg, { places, size, name }, layers) {
  const { isTouched, avoided, sums = {}, cursor } = layers;
  const { cell: plain, line: stroke } = look();
  const square = ([x, y], style) => rect(x - 0.5, y - 0.5, 1, 1, style);
  const all = places.flatMap((place, state) => (place ? [state] : []));
  if (!isTouched) {
    const frames = all.map((state) => `M${places[state][0] - 0.5} ${places[state][1] - 0.5}h1v1h-1z`).join("");
    const coloured = all.map((state) => [state, fillOf(layers, state)]).filter(([, fill]) => fill !== plain);
    return [
      way(frames, { fill: plain }),
      ...coloured.map(([state, fill]) => square(places[state], { fill })),
      way(frames, { stroke, "stroke-width": 0.03, fill: "none" }),
    ];
  }
  const touched = (state) =>
    square(places[state], {
      fill: fillOf(layers, state),
      stroke,
      "stroke-width": 0.03,
      role: "gridcell",
      id: `${svg.id}-${state}`,
      "aria-label": name(state, avoided) + (sums[state] ? `, ${sums[state].join(" and ")}` : ""),
      "aria-selected": String(state === cursor),
    });
  const rows = [...Array(size[1]).keys()].map((row) => all.slice(row * size[0], (row + 1) * size[0]).map(touched));
  return g(rows.map((row) => s("g", { role: "row" }, row)));
}

// Dots joined by roads, the strongest on top; those of one shade are one path, so that thousands are quick.
function dots({ places, roads }, layers, flagged) {
  const plain = mix(look().line, look().ink, 0.25);
  const disc = (states, stroke, width, opacity = 1) =>
    way(states.map((state) => `M${text(places[state])}h0`).join(""), { ...line(stroke, width), opacity });
  const values = (layers.belief ?? layers.visits)?.values;
  const shade = (value, most) =>
    most ? Math.sign(value) * (Math.round(SHADES * Math.sqrt(Math.abs(value) / most)) / SHADES) ** 2 * most : 0;
  const byFill = new Map();
  const order = places.flatMap((place, state) => (place ? [state] : []));
  if (values) order.sort((a, b) => Math.abs(values[a]) - Math.abs(values[b]));
  for (const state of order) {
    const fill = values ? fillOf(layers, state, shade) : look().cell;
    if (!byFill.has(fill)) byFill.set(fill, []);
    byFill.get(fill).push(state);
  }
  const shades = [...byFill].map(([fill, states]) =>
    fill === look().cell ? disc(states, plain, 0.33) : disc(states, fill, 0.67),
  );
  return [way(strokes(roads, places), line(plain, 0.08)), disc(flagged, look().hatch, 1.1, 0.45), ...shades];
}

// A line around the cells that are avoided.
function outline(flagged, places) {
  const taken = new Set(flagged.map((state) => places[state].join()));
  const sides = (state) => {
    const [x, y] = places[state];
    const side = (dx, dy, d) => (taken.has([x + dx, y + dy].join()) ? "" : d);
    const [across, down] = [(top) => `M${x - 0.5} ${top}h1`, (left) => `M${left} ${y - 0.5}v1`];
    return (
      side(0, -1, across(y - 0.5)) +
      side(0, 1, across(y + 0.5)) +
      side(-1, 0, down(x - 0.5)) +
      side(1, 0, down(x + 0.5))
    );
  };
  return flagged.map(sides).join("");
}

// Minus signs where the learner expects to lose something.
function minuses({ values, most }, { marks, places }, at) {
  const held = new Set(marks.filter(({ kind }) => KINDS.includes(kind)).map((one) => one.at));
  return values.map((value, state) => {
    if (value >= -0.01 * most || !places[state]) return null;
    const y = held.has(state) ? 0.4 : 0;
    const stroke = Math.abs(value) > 0.4 * most ? look().halo : look().ink;
    return at(state, s("path", { d: `M-0.18 ${y}h0.36`, stroke, "stroke-width": 0.08 }));
  });
}

const along = (path, places, shift = 0) =>
  points(path.filter((state) => places[state]).map((state) => places[state].map((x) => x + shift)));

// The routes of a crowd: the more walkers take one, the stronger it is.
function routeLines({ paths, colour }, places) {
  const opacity = round(Math.max(0.12, Math.min(0.6, 2.4 / paths.length)));
  const lines = paths.map((path) =>
    s("polyline", {
      points: along(
        path.filter((one, k) => one !== path[k - 1]),
        places,
      ),
    }),
  );
  return s("g.routes", { ...line(colour, 0.13), "stroke-opacity": opacity }, lines);
}

// A line through the states, beside those with other numbers.
function wayLine(path, number, places, colour, dashes) {
  const corners = along(path, places, SHIFTS[number % SHIFTS.length]);
  return [line(look().halo, 0.2), line(colour, 0.12, dashes)].map((style) =>
    s("polyline", { points: corners, ...style }),
  );
}

// What a person draws has a square where it ends.
function pathLine(path, number, places, colour = look().shown) {
  const [x, y] = places[path.at(-1)].map((one) => one + SHIFTS[number % SHIFTS.length] - 0.15);
  const square = rect(x, y, 0.3, 0.3, { fill: colour, stroke: look().halo, "stroke-width": 0.05 });
  return s("g.path", wayLine(path, number, places, colour, DASHES[number % DASHES.length]), square);
}

const pointOf = (svg, { clientX, clientY }) =>
  new DOMPoint(clientX, clientY).matrixTransform(svg.getScreenCTM().inverse());

// The cell under a pointer; null outside the grid.
export function cellAt(svg, { size }, event) {
  const { x, y } = pointOf(svg, event);
  const isInside = x >= 0 && y >= 0 && x < size && y < size;
  return isInside ? Math.floor(y) * size + Math.floor(x) : null;
}

// What a pointer is over: the name of a state, or of a street; empty if it is over none.
export function nameAt(svg, { places, streets, roads, name, isCells }, event) {
  const { x, y } = pointOf(svg, event);
  const away = (place) => (place ? Math.hypot(place[0] - x, place[1] - y) : Infinity);
  const nearest = places.reduce((best, place, state) => (away(place) < away(places[best]) ? state : best), 0);
  if (away(places[nearest]) < (isCells ? 0.6 : 0.45)) return name(nearest);
  const fromRoad = ([a, b]) => {
    const [[ax, ay], [dx, dy]] = [places[a], [0, 1].map((axis) => places[b][axis] - places[a][axis])];
    const nearby = ((x - ax) * dx + (y - ay) * dy) / (dx ** 2 + dy ** 2 || 1);
    const at = Math.max(0, Math.min(1, nearby));
    return away([ax + at * dx, ay + at * dy]);
  };
  const road = (streets ? roads : []).reduce((best, one, k) => (fromRoad(one) < fromRoad(roads[best]) ? k : best), 0);
  return streets && roads.length && fromRoad(roads[road]) < 0.5 ? streets[road] : "";
}
