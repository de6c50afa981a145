// Pictures of a domain from a file: a map where its states have places, bars by name otherwise.

import { repaint, s, shown } from "./dom.js";
import { beliefColour, look, mix, visitColour } from "./look.js";

const BUCKETS = 16;
const MOST_MARKS = 60;

// Places of the states within a square of 100, north at the top, null for a state without one; null without a map.
const placed = new WeakMap();
export function placesOf(about) {
  if (!about.map) return null;
  if (!placed.has(about)) {
    const known = about.map.places.filter(Boolean);
    const xs = known.map(([x]) => x),
      ys = known.map(([, y]) => y);
    const [left, right, bottom, top] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    const scale = 96 / (Math.max(right - left, top - bottom) || 1);
    const [dx, dy] = [(100 - scale * (right - left)) / 2, (100 - scale * (top - bottom)) / 2];
    placed.set(
      about,
      about.map.places.map((place) => place && [dx + scale * (place[0] - left), dy + scale * (top - place[1])]),
    );
  }
  return placed.get(about);
}

export const dotOf = (about) => Math.max(0.5, Math.min(3, 40 / Math.sqrt(about.n_states)));

// values: {of, most, colour}: what colours the states; routes: {paths, colour}.
export function drawMap(svg, { about, avoided, belief, visits, routes }) {
  const places = placesOf(about);
  const { line, hatch, ink, halo } = look();
  const radius = dotOf(about);
  const path = (states) =>
    states
      .filter((state) => places[state])
      .map((state) => `M${places[state].map((x) => x.toFixed(2)).join(" ")}h0`)
      .join("");
  const roads = about.map.roads.map(
    ([a, b]) => `M${places[a].map((x) => x.toFixed(1))}L${places[b].map((x) => x.toFixed(1))}`,
  );
  const dots = (states, style) =>
    s("path", { d: path(states), fill: "none", "stroke-linecap": "round", "stroke-width": 2 * radius, ...style });
  const layers = [
    s("path", { d: roads.join(""), fill: "none", stroke: mix(line, ink, 0.25), "stroke-width": radius / 2 }),
  ];
  const flagged = avoided.flatMap((flag, state) => (flag ? [state] : []));
  layers.push(dots(flagged, { stroke: hatch, "stroke-width": 3.4 * radius, "stroke-opacity": 0.45 }));
  const given = belief ?? visits;
  const colour = belief ? beliefColour : visitColour;
  const byColour = new Map();
  for (let state = 0; state < about.n_states; state++) {
    const value = given ? given.values[state] : 0;
    const share = given?.most ? Math.sign(value) * Math.round(BUCKETS * Math.sqrt(Math.abs(value) / given.most)) : 0;
    if (!byColour.has(share)) byColour.set(share, []);
    byColour.get(share).push(state);
  }
  for (const [share, states] of [...byColour].sort(([a], [b]) => Math.abs(a) - Math.abs(b))) {
    const fill = colour(Math.sign(share) * share ** 2, BUCKETS ** 2);
    if (share === 0) layers.push(dots(states, { stroke: mix(line, ink, 0.25), "stroke-width": radius }));
    else layers.push(dots(states, { stroke: fill }));
  }
  if (routes) {
    const opacity = Math.max(0.15, Math.min(0.6, 2.4 / routes.paths.length));
    for (const walk of routes.paths) {
      const corners = walk
        .filter((state) => places[state])
        .map((state) => places[state].map((x) => x.toFixed(1)).join(","))
        .join(" ");
      layers.push(
        s("polyline", {
          points: corners,
          fill: "none",
          stroke: routes.colour,
          "stroke-width": 0.9,
          "stroke-opacity": opacity,
        }),
      );
    }
  }
  // A feature of nearly all states, such as a length, marks none.
  about.rewarding.forEach((states, k) => {
    for (const state of states.length > MOST_MARKS ? [] : states) {
      if (!places[state]) continue;
      const [x, y] = places[state];
      layers.push(
        s(
          "text",
          {
            x,
            y: y + 1.6,
            "font-size": 5,
            "text-anchor": "middle",
            fill: ink,
            stroke: halo,
            "stroke-width": 0.5,
            "paint-order": "stroke",
          },
          "★✚●▲■◆"[k % 6],
        ),
      );
    }
  });
  for (const state of about.starts.slice(0, MOST_MARKS)) {
    if (!places[state]) continue;
    const [cx, cy] = places[state];
    layers.push(
      s("circle", { cx, cy, r: Math.max(2.2, radius * 1.6), fill: "none", stroke: ink, "stroke-width": 0.6 }),
    );
  }
  svg.setAttribute("viewBox", "0 0 100 100");
  repaint(svg, layers);
}

// rows: {name, value, mark, note}: bars from zero on one scale; mark: a second value, drawn as a line.
export function drawBars(svg, rows, { colour, most, least = 0, digits = 2 }) {
  const { ink, line, soft, bad } = look();
  const width = 220,
    step = 26,
    height = Math.max(60, rows.length * step + 8);
  const low = Math.min(0, least, ...rows.map((row) => row.value)),
    high = Math.max(1e-9, most ?? 0, ...rows.map((row) => Math.max(row.value, row.mark ?? 0)));
  const x = (value) => 4 + ((value - low) / (high - low)) * (width - 52);
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.replaceChildren(
    s("line", { x1: x(0), x2: x(0), y1: 2, y2: height - 4, stroke: line, "stroke-width": 1 }),
    ...rows.map((row, k) => {
      const y = 6 + k * step;
      const [from, to] = [Math.min(0, row.value), Math.max(0, row.value)].map(x);
      return s(
        "g",
        {},
        s("text", { x: 4, y: y + 8, "font-size": 9, fill: soft }, row.name.slice(0, 40)),
        s("rect", {
          x: from,
          y: y + 11,
          width: Math.max(0.5, to - from),
          height: 7,
          rx: 2,
          fill: row.value < 0 ? bad : colour,
        }),
        row.mark === undefined
          ? null
          : s("line", { x1: x(row.mark), x2: x(row.mark), y1: y + 8, y2: y + 21, stroke: ink, "stroke-width": 1.6 }),
        s(
          "text",
          { x: width - 4, y: y + 18, "font-size": 9.5, "text-anchor": "end", fill: ink },
          shown(row.value, digits),
        ),
      );
    }),
  );
}
