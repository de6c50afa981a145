// Rewards over rounds, and reward expectations in the plane of two types of object.

import { byId, h, refill, s, shown } from "./dom.js";
import { look } from "./look.js";
import { points } from "./marks.js";

// Round tick values that cover the interval.
function ticksOf(low, high) {
  const span = high - low || 1;
  const unit = 10 ** Math.floor(Math.log10(span / 2));
  const step = [1, 2, 5, 10].map((times) => times * unit).find((one) => span / one <= 5);
  const [first, last] = [Math.floor(low / step + 1e-9), Math.ceil(high / step - 1e-9)];
  return Array.from({ length: last - first + 1 }, (_, k) => (first + k) * step);
}
function covering(values) {
  const [low, high] = [Math.min(0, ...values), Math.max(0, ...values)];
  return ticksOf(low, Math.max(high, low + 0.1));
}
const tick = (value) => String(Math.round(value * 1e6) / 1e6).replace("-", "−");
// The place of a value between two ends of an axis.
const along = (ticks, from, to) => (value) => from + ((value - ticks[0]) / (ticks.at(-1) - ticks[0])) * (to - from);

const label = (x, y, text, anchor = "middle", size = 13) =>
  s("text", { x, y, "font-size": size, "text-anchor": anchor, fill: look().ink }, text);
// places: the coordinates of all corners, x and y in turn.
const way = (places, stroke, dashes = "none", width = 2) =>
  s("polyline", {
    points: places.flat().join(" "),
    fill: "none",
    stroke,
    "stroke-width": width,
    "stroke-dasharray": dashes,
  });
const square = ([x, y], half, style) =>
  s("rect", { x: x - half, y: y - half, width: 2 * half, height: 2 * half, ...style });

// rounds: each with reward, lesson_reward and bound (or null); selected: the number of the marked round.
export function drawRounds(svg, rounds, selected) {
  const { shown: lesson, done: learner, soft, line, cell } = look();
  const [width, height, left, right, top, bottom] = [420, 400, 42, 408, 30, 364];
  const values = rounds.flatMap((round) => [round.reward, round.lesson_reward, round.bound]).filter((x) => x !== null);
  const ticks = covering(values);
  const n = Math.max(2, rounds.length);
  const x = (number) => left + ((number - 1) / (n - 1)) * (right - left);
  const y = along(ticks, bottom, top);
  const every = Math.ceil(n / 10);
  const lineOf = (key) =>
    rounds
      .map((round, k) => [k + 1, round[key]])
      .filter(([, value]) => value !== null)
      .map(([k, value]) => [x(k), y(value)]);
  const keys = [
    ["learner", learner],
    ["lesson", lesson, "2 3"],
    ["teacher's bound", soft, "7 4"],
  ];
  const [first, last] = [rounds[0], rounds.at(-1)].map((round) => shown(round.reward));
  const best = shown(Math.max(...rounds.map((round) => round.reward)));
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("aria-label", `Reward over ${rounds.length} rounds: first ${first}, last ${last}, best ${best}`);
  refill(
    svg,
    ticks.map((value) => [
      way([left, y(value), right, y(value)], line, "none", 1),
      label(left - 5, y(value) + 4, tick(value), "end"),
    ]),
    rounds.map((_, k) => (k % every ? null : label(x(k + 1), bottom + 16, String(k + 1)))),
    label((left + right) / 2, height - 4, "round"),
    way([x(selected), top, x(selected), bottom], soft),
    way(lineOf("bound"), soft, "7 4", 1.5),
    way(lineOf("lesson_reward"), lesson, "2 3"),
    way(lineOf("reward"), learner),
    lineOf("lesson_reward").map((place) => square(place, 3, { fill: cell, stroke: lesson, "stroke-width": 1.5 })),
    lineOf("reward").map(([cx, cy]) => s("circle", { cx, cy, r: 3.5, fill: learner })),
    keys.map(([text, stroke, dashes], k) => {
      const at = left + [0, 92, 176][k];
      return [way([at, 14, at + 22, 14], stroke, dashes), label(at + 27, 18, text, "start")];
    }),
  );
}

// Draw the planes of an element, one for each pair of reward features. reach: {reachable, accepted}, polygons by plane;
// remaining: the polygons that are not excluded; isPushing: whether each lesson starts from the last response.
export function drawPlanes(element, given) {
  const { names, reach } = given;
  const pairs = reach?.reachable.length ? names.flatMap((_, a) => names.map((__, b) => [a, b]).slice(a + 1)) : [];
  const plane = ([a, b], k) =>
    h(
      "figure.panel",
      h("figcaption", `${names[a]} and ${names[b]}`),
      s(`svg#${element.id}-${k}.picture`, { role: "img" }),
    );
  if (element.children.length !== pairs.length) refill(element, pairs.map(plane));
  pairs.forEach((pair, k) => drawPlane(byId(`${element.id}-${k}`), pair, k, given));
}

function drawPlane(svg, pair, plane, { names, reach, remaining, rounds, isPushing }) {
  const { shown: lesson, done: learner, soft, ink, hatch, cell, reach: ground } = look();
  const [size, left, right, top, bottom] = [230, 34, 220, 8, 196];
  const project = (point) => pair.map((axis) => point[axis]);
  const [lessons, answers] = ["lesson", "response"].map((key) => rounds.map((round) => project(round[key])));
  const everything = [...reach.reachable[plane], ...lessons, ...answers];
  const ticks = [0, 1].map((axis) => covering(everything.map((point) => point[axis])));
  const [x, y] = [along(ticks[0], left, right), along(ticks[1], bottom, top)];
  const place = ([a, b]) => [x(a), y(b)];
  const polygon = (corners, style) => s("polygon", { points: points(corners.map(place)), ...style });
  const pattern = `stripes-${svg.id}`;
  const tiles = { width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" };
  const stripes = s("line", { x1: 0, x2: 0, y1: 0, y2: 6, stroke: hatch, "stroke-width": 1.5 });
  const leftOver = { fill: learner, "fill-opacity": 0.18, stroke: learner, "stroke-width": 2 };
  const opacity = (k) => (k === rounds.length - 1 ? 1 : 0.45);
  const upright = { transform: `translate(10 ${(top + bottom) / 2}) rotate(-90)` };
  svg.setAttribute("viewBox", `0 0 ${size} ${size}`);
  svg.setAttribute(
    "aria-label",
    `Discounted counts of ${names[pair[0]]} and ${names[pair[1]]}: the reachable set, the part not yet excluded, ` +
      "and the rounds",
  );
  refill(
    svg,
    s("defs", s("pattern", { id: pattern, ...tiles }, stripes)),
    polygon(reach.reachable[plane], { fill: ground, stroke: soft }),
    reach.accepted ? polygon(reach.accepted[plane], { fill: `url(#${pattern})`, stroke: soft }) : null,
    remaining?.[plane]?.length ? polygon(remaining[plane], leftOver) : null,
    rounds.map((_, k) => [
      isPushing && k > 0 ? arrow(place(answers[k - 1]), place(lessons[k])) : null,
      way([place(lessons[k]), place(answers[k])], soft, "2 2", 1),
    ]),
    lessons.map((point, k) => square(place(point), 3.5, { fill: lesson, stroke: ink, opacity: opacity(k) })),
    answers
      .map(place)
      .map(([cx, cy], k) =>
        s("circle", { cx, cy, r: 4, fill: cell, stroke: learner, "stroke-width": 2, opacity: opacity(k) }),
      ),
    ticks[0].map((value) => label(x(value), bottom + 13, tick(value), "middle", 9)),
    ticks[1].map((value) => label(left - 4, y(value) + 3, tick(value), "end", 9)),
    label((left + right) / 2, size - 6, names[pair[0]]),
    s("g", upright, label(0, 0, names[pair[1]], "middle", 11)),
  );
}

function arrow([x1, y1], [x2, y2]) {
  const length = Math.hypot(x2 - x1, y2 - y1) || 1;
  const [ux, uy] = [(x2 - x1) / length, (y2 - y1) / length];
  const barb = (side) => [x2 - 7 * ux + side * uy, y2 - 7 * uy - side * ux];
  const shaft = way([x1, y1, x2 - 5 * ux, y2 - 5 * uy], look().ink, "none", 1.4);
  return s("g", shaft, s("polygon", { points: points([[x2, y2], barb(3.5), barb(-3.5)]), fill: look().ink }));
}
