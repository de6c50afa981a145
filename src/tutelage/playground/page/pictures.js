// Pictures of states in the plane: data in, an SVG out. A world and a map are grounds, and all else is a layer on a ground.
// A unit is the width of a cell. All styles are attributes: a saved picture needs no style sheet.

import { repaint, s } from "./dom.js";
import { beliefColour, look, mix, visitColour } from "./look.js";
import { KINDS, arrows, chips, figure, hatching, mark, points, round, words } from "./marks.js";
import { COLOURS, describe, holder, middle } from "./world.js";

const DASHES = ["none", "0.3 0.12", "0.1 0.1", "0.4 0.1 0.1 0.1"];
// The offset of each path from the middle of its cells, so that paths do not cover each other.
const SHIFTS = [0, 0.14, -0.14, 0.07, -0.07, 0.2, -0.2];
const SMALLEST_VISITS = 1e-3;
// In larger worlds a cell has room for one arrow only.
const LARGEST_DETAILED = 14;
// On a map: how many shades there are, and how many states of a feature are marked; a feature of more, such as a length,
// marks none.
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
  const few = (states) => (states.length > MOST_MARKS ? [] : states).filter((state) => map.places[state]);
  return {
    places: map.places.map((place) => place && [0.5 + scale * (place[0] - left), 0.5 + scale * (top - place[1])]),
    size: [scale * (right - left) + 1, scale * (top - bottom) + 1],
    isCells: map.is_grid,
    roads: map.roads,
    streets: map.streets,
    marks: [
      ...rewarding.flatMap((states, k) => few(states).map((at) => ({ kind: KINDS[k % KINDS.length], at }))),
      ...few(starts).map((at) => ({ kind: "start", at })),
    ],
    name: (state) => state_names?.[state] ?? `state ${state}`,
  };
}

// Draw a ground with layers. avoided: flags of the states; avoidedRoads: pairs of states; belief, visits: {values, most};
// policy: of the cells that were reached; routes: {paths, colour}, faint lines; paths: strong lines; labels: state ->
// text; sums: state -> numbers; clues: {fill, text} of each; figures: {kind, at, mood}; cursor: a state; isTouched:
// whether a screen reader finds its cells.
export function draw(svg, ground, layers) {
  const { avoided, belief, visits, policy, reached, routes, clues, cursor, isTouched = false } = layers;
  const { paths = [], labels = {}, sums = {}, figures = [], avoidedRoads = [], pathColour, shift = 0 } = layers;
  const { places, size, isCells } = ground;
  const { cell: plain, ink, hatch } = look();
  const isMapped = Boolean(belief || visits);
  const isLarge = Math.max(...size) > LARGEST_DETAILED;
  // In a small picture of a large ground, marks are larger than its cells.
  const zoom = !isTouched && isLarge ? " scale(1.7)" : "";
  const at = (state, ...marks) => s("g", { transform: `translate(${places[state].map(round).join(" ")})` }, ...marks);
  const marked = ({ kind, at: state }, style = {}, group = {}) =>
    s("g", { transform: `translate(${places[state].map(round).join(" ")})${zoom}`, ...group }, mark(kind, style));
  const isColour = ({ kind }) => COLOURS.includes(kind);
  const flagged = avoided ? places.flatMap((place, state) => (place && avoided[state] ? [state] : [])) : [];
  const style = {
    fill: policy ? mix(plain, ink, 0.35) : ink,
    scale: layers.sums ? 0.55 : clues ? 0.62 : isMapped ? 0.8 : 1,
  };
  svg.setAttribute("viewBox", `-0.04 -0.04 ${round(size[0] + 0.08)} ${round(size[1] + 0.08)}`);
  repaint(svg, [
    isCells ? cells(svg, ground, layers) : dots(ground, layers, flagged),
    isCells && !isMapped && flagged.length
      ? s("path", { d: flagged.map((state) => hatching(places[state])).join(""), ...line(hatch, 0.045) })
      : null,
    ground.marks.filter(isColour).map((one) => marked(one, {}, isMapped ? { opacity: 0.3 } : {})),
    isCells && flagged.length ? outline(flagged, places) : null,
    avoidedRoads.length
      ? s("path.roads", { d: strokes(avoidedRoads, places), ...line(hatch, 0.3), "stroke-dasharray": "0.3 0.15" })
      : null,
    belief && isCells && !layers.sums ? s("g", minuses(belief, ground, at)) : null,
    ground.marks.filter((one) => !isColour(one)).map((one) => marked(one, one.kind === "start" ? {} : style)),
    clues
      ? s(
          "g",
          clues.map(({ text }, state) => at(state, words(text, -0.22, 0.24, -0.32))),
        )
      : null,
    routes ? routeLines(routes, places) : null,
    policy
      ? s(
          "g",
          places.map((_, k) =>
            !reached || reached[k] > SMALLEST_VISITS
              ? at(k, ...arrows(policy.slice(5 * k, 5 * k + 5), isLarge).filter(Boolean))
              : null,
          ),
        )
      : null,
    s(
      "g",
      paths.map((path, number) => pathLine(path, number + shift, places, pathColour)),
    ),
    Object.entries(labels).map(([state, text]) => at(state, words(text, 0.44, 0.17))),
    cursor === undefined
      ? null
      : at(
          cursor,
          ...[
            ["halo", 0.14],
            ["shown", 0.08],
          ].map(([colour, width]) =>
            s("rect", { x: -0.46, y: -0.46, width: 0.92, height: 0.92, ...line(look()[colour], width) }),
          ),
        ),
    Object.entries(sums).map(([state, numbers]) => at(state, ...chips(numbers))),
    s(
      "g.figures",
      { "aria-hidden": "true" },
      figures.map((one) => figure(one, Array.isArray(one.at) ? one.at : places[one.at])),
    ),
  ]);
  if (!isTouched) return;
  svg.setAttribute("role", "grid");
  svg.setAttribute("aria-label", `World of ${size[0]} by ${size[1]} cells`);
}

const line = (stroke, width) => ({
  stroke,
  "stroke-width": width,
  fill: "none",
  "stroke-linejoin": "round",
  "stroke-linecap": "round",
});
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
  const square = ([x, y]) => ({ x: x - 0.5, y: y - 0.5, width: 1, height: 1 });
  const all = places.flatMap((place, state) => (place ? [state] : []));
  if (!isTouched) {
    const frames = all.map((state) => `M${places[state][0] - 0.5} ${places[state][1] - 0.5}h1v1h-1z`);
    const coloured = all.map((state) => [state, fillOf(layers, state)]).filter(([, fill]) => fill !== plain);
    return [
      s("path", { d: frames.join(""), fill: plain }),
      ...coloured.map(([state, fill]) => s("rect", { ...square(places[state]), fill })),
      s("path", { d: frames.join(""), stroke, "stroke-width": 0.03, fill: "none" }),
    ];
  }
  const touched = (state) =>
    s("rect", {
      ...square(places[state]),
      fill: fillOf(layers, state),
      stroke,
      "stroke-width": 0.03,
      role: "gridcell",
      id: `${svg.id}-${state}`,
      "aria-label": name(state, avoided) + (sums[state] ? `, ${sums[state].join(" and ")}` : ""),
      "aria-selected": String(state === cursor),
    });
  const rows = [...Array(size[1]).keys()].map((row) => all.slice(row * size[0], (row + 1) * size[0]));
  return s(
    "g",
    rows.map((row) => s("g", { role: "row" }, row.map(touched))),
  );
}

// Dots joined by roads, the strongest on top; those of one shade are one path, so that thousands are quick.
function dots({ places, roads }, layers, flagged) {
  const plain = mix(look().line, look().ink, 0.25);
  const disc = (states, stroke, width, opacity = 1) =>
    s("path", {
      d: states.map((state) => `M${text(places[state])}h0`).join(""),
      ...line(stroke, width),
      "stroke-opacity": opacity,
    });
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
  return [
    s("path", { d: strokes(roads, places), ...line(plain, 0.17) }),
    flagged.length ? disc(flagged, look().hatch, 1.1, 0.45) : null,
    ...[...byFill].map(([fill, states]) =>
      disc(states, fill === look().cell ? plain : fill, fill === look().cell ? 0.33 : 0.67),
    ),
  ];
}

// A line around the cells that are avoided.
function outline(flagged, places) {
  const taken = new Set(flagged.map((state) => places[state].join()));
  const sides = (state) => {
    const [x, y] = places[state];
    const side = (dx, dy, d) => (taken.has([x + dx, y + dy].join()) ? "" : d);
    const [left, top] = [x - 0.5, y - 0.5];
    return (
      side(0, -1, `M${left} ${top}h1`) +
      side(0, 1, `M${left} ${top + 1}h1`) +
      side(-1, 0, `M${left} ${top}v1`) +
      side(1, 0, `M${left + 1} ${top}v1`)
    );
  };
  return s("path", { d: flagged.map(sides).join(""), ...line(look().hatch, 0.06) });
}

// Minus signs where the learner expects to lose something.
function minuses({ values, most }, { marks, places }, at) {
  const held = new Set(marks.filter(({ kind }) => KINDS.includes(kind)).map((one) => one.at));
  return values.map((value, state) => {
    if (value >= -0.01 * most || !places[state]) return null;
    const y = held.has(state) ? 0.4 : 0;
    const stroke = Math.abs(value) > 0.4 * most ? look().halo : look().ink;
    return at(state, s("line", { x1: -0.18, x2: 0.18, y1: y, y2: y, stroke, "stroke-width": 0.08 }));
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

// A line through the states, with a square where it ends.
function pathLine(given, number, places, pathColour = look().shown) {
  const { states: path, colour } = Array.isArray(given) ? { states: given, colour: pathColour } : given;
  const shift = SHIFTS[number % SHIFTS.length];
  const [x, y] = places[path.at(-1)].map((one) => one + shift);
  const { halo } = look();
  const way = (stroke, width, dashes = "none") =>
    s("polyline", { points: along(path, places, shift), ...line(stroke, width), "stroke-dasharray": dashes });
  return s(
    "g.path",
    way(halo, 0.2),
    way(colour, 0.12, DASHES[number % DASHES.length]),
    s("rect", { x: x - 0.15, y: y - 0.15, width: 0.3, height: 0.3, fill: colour, stroke: halo, "stroke-width": 0.05 }),
  );
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
    const [[ax, ay], [bx, by]] = [places[a], places[b]];
    const share = Math.max(
      0,
      Math.min(1, ((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / ((bx - ax) ** 2 + (by - ay) ** 2 || 1)),
    );
    return away([ax + share * (bx - ax), ay + share * (by - ay)]);
  };
  const road = (streets ? roads : []).reduce((best, one, k) => (fromRoad(one) < fromRoad(roads[best]) ? k : best), 0);
  return streets && roads.length && fromRoad(roads[road]) < 0.5 ? streets[road] : "";
}
