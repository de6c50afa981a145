// Rewards over rounds, and reward expectations in the plane of two types of object.

import { refill, s, shown } from "./dom.js";
import { look } from "./look.js";

const learner = () => look().done;
const lesson = () => look().shown;

// Round tick values that cover the interval.
function ticksOf(low, high) {
  const span = high - low || 1;
  const step = [1, 2, 5, 10]
    .map((unit) => unit * 10 ** Math.floor(Math.log10(span / 2)))
    .find((unit) => span / unit <= 5);
  const first = Math.floor(low / step + 1e-9),
    last = Math.ceil(high / step - 1e-9);
  return Array.from({ length: last - first + 1 }, (_, k) => (first + k) * step);
}

const label = (x, y, text, attributes = {}) =>
  s("text", { x, y, "font-size": 13, fill: look().ink, ...attributes }, text);
const pathOf = (places) => places.map(([x, y], k) => `${k ? "L" : "M"}${x.toFixed(2)} ${y.toFixed(2)}`).join("");

// rounds: each with reward, lesson_reward and bound (or null); selected: the number of the marked round.
export function drawRounds(svg, rounds, selected) {
  const width = 420,
    height = 400,
    left = 42,
    right = 12,
    top = 30,
    bottom = 36;
  const values = rounds.flatMap((round) => [round.reward, round.lesson_reward, round.bound]).filter((x) => x !== null);
  const ticks = ticksOf(Math.min(0, ...values), Math.max(0.1, ...values));
  const n = Math.max(2, rounds.length);
  const x = (number) => left + ((number - 1) / (n - 1)) * (width - left - right);
  const y = (value) => top + ((ticks.at(-1) - value) / (ticks.at(-1) - ticks[0])) * (height - top - bottom);
  const every = Math.ceil(n / 10);
  const line = (key, style) =>
    s("path", {
      d: pathOf(
        rounds
          .map((round, k) => [x(k + 1), round[key]])
          .filter(([, value]) => value !== null)
          .map(([a, value]) => [a, y(value)]),
      ),
      fill: "none",
      "stroke-width": 2,
      ...style,
    });
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const best = Math.max(...rounds.map((round) => round.reward));
  svg.setAttribute(
    "aria-label",
    `Reward over ${rounds.length} rounds: first ${shown(rounds[0].reward)}, last ${shown(rounds.at(-1).reward)}, ` +
      `best ${shown(best)}`,
  );
  refill(
    svg,
    ...ticks.map((value) =>
      s(
        "g",
        {},
        s("line", { x1: left, x2: width - right, y1: y(value), y2: y(value), stroke: look().line }),
        label(left - 5, y(value) + 4, String(Math.round(value * 1e6) / 1e6), { "text-anchor": "end" }),
      ),
    ),
    ...rounds.map((_, k) =>
      k % every ? null : label(x(k + 1), height - bottom + 16, String(k + 1), { "text-anchor": "middle" }),
    ),
    label((left + width - right) / 2, height - 4, "round", { "text-anchor": "middle" }),
    s("line", {
      x1: x(selected),
      x2: x(selected),
      y1: top,
      y2: height - bottom,
      stroke: look().soft,
      "stroke-width": 2,
    }),
    line("bound", { stroke: look().soft, "stroke-dasharray": "7 4", "stroke-width": 1.5 }),
    line("lesson_reward", { stroke: lesson(), "stroke-dasharray": "2 3" }),
    line("reward", { stroke: learner() }),
    ...rounds.flatMap((round, k) => [
      s("rect", {
        x: x(k + 1) - 3,
        y: y(round.lesson_reward) - 3,
        width: 6,
        height: 6,
        fill: look().cell,
        stroke: lesson(),
        "stroke-width": 1.5,
      }),
      s("circle", { cx: x(k + 1), cy: y(round.reward), r: 3.5, fill: learner() }),
    ]),
    ...key(
      [
        ["learner", learner(), "none"],
        ["lesson", lesson(), "2 3"],
        ["teacher's bound", look().soft, "7 4"],
      ],
      left,
      14,
    ),
  );
}

function key(entries, left, y) {
  let x = left;
  return entries.map(([text, stroke, dashes]) => {
    const group = s(
      "g",
      {},
      s("line", { x1: x, x2: x + 22, y1: y, y2: y, stroke, "stroke-width": 2, "stroke-dasharray": dashes }),
      label(x + 27, y + 4, text),
    );
    x += 40 + 7.2 * text.length;
    return group;
  });
}

// Draw one plane. pair: the indices of the two types; names: of all types; reach: {reachable, accepted}, polygons by
// plane; plane: its index; rounds: so far; isPushing: whether each lesson starts from the last response.
export function drawPlane(svg, { pair, names, reach, plane, remaining, rounds, isPushing }) {
  const size = 230,
    left = 34,
    right = 10,
    top = 8,
    bottom = 34;
  const project = (point) => pair.map((axis) => point[axis]);
  const lessons = rounds.map((round) => project(round.lesson)),
    answers = rounds.map((round) => project(round.response));
  const everything = [...reach.reachable[plane], ...lessons, ...answers];
  const ticks = [0, 1].map((axis) =>
    ticksOf(Math.min(0, ...everything.map((p) => p[axis])), Math.max(0.1, ...everything.map((p) => p[axis]))),
  );
  const inside = size - left - right,
    tall = size - top - bottom;
  const x = (value) => left + ((value - ticks[0][0]) / (ticks[0].at(-1) - ticks[0][0])) * inside;
  const y = (value) => top + ((ticks[1].at(-1) - value) / (ticks[1].at(-1) - ticks[1][0])) * tall;
  const place = ([a, b]) => [x(a), y(b)];
  const polygon = (corners, style) =>
    s("polygon", {
      points: corners
        .map((corner) =>
          place(corner)
            .map((v) => v.toFixed(2))
            .join(","),
        )
        .join(" "),
      ...style,
    });
  const pattern = `stripes-${svg.id}`;
  svg.setAttribute("viewBox", `0 0 ${size} ${size}`);
  svg.setAttribute(
    "aria-label",
    `Discounted counts of ${names[pair[0]]} and ${names[pair[1]]}: the reachable set, the part not yet excluded, ` +
      "and the rounds",
  );
  const links = rounds.flatMap((_, k) => [
    isPushing && k > 0 ? arrow(place(answers[k - 1]), place(lessons[k])) : null,
    s("path", {
      d: pathOf([place(lessons[k]), place(answers[k])]),
      stroke: look().soft,
      "stroke-dasharray": "2 2",
      fill: "none",
    }),
  ]);
  const fade = (k) => (k === rounds.length - 1 ? 1 : 0.45);
  refill(
    svg,
    s(
      "defs",
      {},
      s(
        "pattern",
        { id: pattern, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
        s("line", { x1: 0, x2: 0, y1: 0, y2: 6, stroke: look().hatch, "stroke-width": 1.5 }),
      ),
    ),
    polygon(reach.reachable[plane], { fill: look().reach, stroke: look().soft }),
    reach.accepted ? polygon(reach.accepted[plane], { fill: `url(#${pattern})`, stroke: look().soft }) : null,
    remaining?.length
      ? polygon(remaining, { fill: learner(), "fill-opacity": 0.18, stroke: learner(), "stroke-width": 2 })
      : null,
    ...links,
    ...lessons.map((point, k) =>
      s("rect", {
        x: place(point)[0] - 3.5,
        y: place(point)[1] - 3.5,
        width: 7,
        height: 7,
        fill: lesson(),
        stroke: look().ink,
        opacity: fade(k),
      }),
    ),
    ...answers.map((point, k) =>
      s("circle", {
        cx: place(point)[0],
        cy: place(point)[1],
        r: 4,
        fill: look().cell,
        stroke: learner(),
        "stroke-width": 2,
        opacity: fade(k),
      }),
    ),
    ...ticks[0].map((value) =>
      label(x(value), size - bottom + 13, String(Math.round(value * 1e6) / 1e6), {
        "text-anchor": "middle",
        "font-size": 9,
      }),
    ),
    ...ticks[1].map((value) =>
      label(left - 4, y(value) + 3, String(Math.round(value * 1e6) / 1e6), { "text-anchor": "end", "font-size": 9 }),
    ),
    label(left + inside / 2, size - 6, names[pair[0]], { "text-anchor": "middle" }),
    s(
      "text",
      {
        transform: `translate(10 ${top + tall / 2}) rotate(-90)`,
        "text-anchor": "middle",
        "font-size": 11,
        fill: look().ink,
      },
      names[pair[1]],
    ),
  );
}

function arrow([x1, y1], [x2, y2]) {
  const length = Math.hypot(x2 - x1, y2 - y1) || 1;
  const [ux, uy] = [(x2 - x1) / length, (y2 - y1) / length];
  const head = [
    [x2, y2],
    [x2 - 7 * ux + 3.5 * uy, y2 - 7 * uy - 3.5 * ux],
    [x2 - 7 * ux - 3.5 * uy, y2 - 7 * uy + 3.5 * ux],
  ];
  return s(
    "g",
    {},
    s("line", { x1, y1, x2: x2 - 5 * ux, y2: y2 - 5 * uy, stroke: look().ink, "stroke-width": 1.4 }),
    s("polygon", { points: head.map((corner) => corner.join(",")).join(" "), fill: look().ink }),
  );
}
