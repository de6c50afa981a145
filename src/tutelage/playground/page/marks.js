// The marks of pictures, each in the unit square around (0, 0). Marks differ in shape, so that none depends on its colour.

import { s } from "./dom.js";
import { look } from "./look.js";

// Corners as in SVG: "x,y x,y".
const corners = (text) => text.split(" ").map((pair) => pair.split(",").map(Number));
const turned = (count, ...radii) =>
  Array.from({ length: count }, (_, k) => {
    const [angle, radius] = [(2 * k * Math.PI) / count, radii[k % radii.length]];
    return [radius * Math.sin(angle), -radius * Math.cos(angle)];
  });
const PLUS =
  "-.12,-.36 .12,-.36 .12,-.12 .36,-.12 .36,.12 .12,.12 .12,.36 -.12,.36 -.12,.12 -.36,.12 -.36,-.12 -.12,-.12";
const SHAPES = {
  star: turned(10, 0.42, 0.19),
  plus: corners(PLUS),
  dot: turned(32, 0.2),
  triangle: turned(3, 0.36),
  square: corners("-.27,-.27 .27,-.27 .27,.27 -.27,.27"),
  diamond: turned(4, 0.36),
};
const STRIPES = {
  green: "M-0.34 0L0 -0.34M-0.34 0.34L0.34 -0.34M0 0.34L0.34 0",
  yellow: "M-0.34 -0.23h0.68M-0.34 0h0.68M-0.34 0.23h0.68",
};
export const KINDS = Object.keys(SHAPES);

// Actions in the order of the package: up, left, down, right, stay.
const STEPS = corners("0,-1 -1,0 0,1 1,0 0,0");
const ARROW = corners("0,.12 .5,.12 .5,.36 1,0 .5,-.36 .5,-.12 0,-.12");
const BOLD_ARROW = corners(".42,0 -.3,.36 -.3,-.36");
const SMALLEST_PROBABILITY = 0.05;

export const round = (x) => Math.round(x * 1000) / 1000;
export const points = (corners) => corners.map(([x, y]) => `${round(x)},${round(y)}`).join(" ");
export const rect = (x, y, width, height, style) => s("rect", { x, y, width, height, ...style });
export const line = (stroke, width, dashes = "none") => {
  const ends = { "stroke-linejoin": "round", "stroke-linecap": "round" };
  return { stroke, "stroke-width": width, "stroke-dasharray": dashes, fill: "none", ...ends };
};
// Two diagonals of a cell, which meet those of its neighbours.
export const hatching = ([x, y]) => `M${x - 0.5} ${y}l0.5 -0.5M${x - 0.5} ${y + 0.5}l1 -1M${x} ${y + 0.5}l0.5 -0.5`;

// A mark of the grid, of the legend or of the brushes.
export function mark(kind, { scale = 1, fill = look().ink } = {}) {
  const { halo, ink, avoided, hatch } = look();
  if (kind in SHAPES) {
    const shape = points(SHAPES[kind].map(([x, y]) => [scale * x, scale * y]));
    return s("polygon", { points: shape, fill, stroke: halo, "stroke-width": 0.05, "paint-order": "stroke" });
  }
  if (kind === "start") {
    const ring = (stroke, width) => s("circle", { r: 0.4, fill: "none", stroke, "stroke-width": width });
    return s("g", ring(halo, 0.13), ring(ink, 0.065));
  }
  const stroke = (d, colour, width) => s("path", { d, ...line(colour, width) });
  const box = (half, colour) => rect(-half, -half, 2 * half, 2 * half, { rx: 0.1, fill: colour });
  if (kind === "avoided") return s("g", box(0.5, avoided), stroke(hatching([0, 0]), hatch, 0.06));
  if (kind === "erase") return stroke("M-0.3 -0.3L0.3 0.3M-0.3 0.3L0.3 -0.3", ink, 0.1);
  return s("g", box(0.42, look()[kind]), stroke(STRIPES[kind], "#12151a8c", 0.05));
}

export const icon = (kind) =>
  s("svg.icon", { viewBox: "-0.5 -0.5 1 1", "aria-hidden": "true", focusable: "false" }, mark(kind));

// The moves of a policy in a cell. The length and opacity of an arrow grow with the probability of the move; a disc is
// staying. isBold: the most probable move alone, as a triangle that fills the cell.
export function arrows(chosen, isBold) {
  const most = chosen.indexOf(Math.max(...chosen));
  return chosen.map((probability, action) => {
    if (isBold ? action !== most : probability < SMALLEST_PROBABILITY) return null;
    const [x, y] = STEPS[action];
    const style = { fill: look().ink, "fill-opacity": isBold ? 1 : round(0.3 + 0.7 * probability) };
    if (x === 0 && y === 0) return s("circle", { r: isBold ? 0.24 : round(0.13 * Math.sqrt(probability)), ...style });
    const [from, length] = isBold ? [0, 1] : [0.09, 0.4 * (0.35 + 0.65 * probability)];
    const corner = ([along, across]) => [
      x * (from + length * along) - y * length * across,
      y * (from + length * along) + x * length * across,
    ];
    return s("polygon", { points: points((isBold ? BOLD_ARROW : ARROW).map(corner)), ...style });
  });
}

export const words = (text, y, size, x = 0) => {
  const edge = { stroke: look().halo, "stroke-width": 0.07, "paint-order": "stroke" };
  return s("text", { x, y, "font-size": size, "text-anchor": "middle", fill: look().ink, ...edge }, text);
};

// Numbers side by side, each on a chip; two have their sum on a chip below.
export function chips(numbers) {
  const { good, bad, halo, cell } = look();
  const text = (value) => `${value < 0 ? "−" : "+"}${Math.abs(Math.round(value))}`;
  const edge = { rx: 0.08, stroke: cell, "stroke-width": 0.025 };
  const chip = (value, x, { y = -0.43, width = 0.4, sign = "" } = {}) => [
    rect(x - width / 2, y, width, 0.24, { fill: value < 0 ? bad : good, ...edge }),
    s("text", { x, y: y + 0.18, "font-size": 0.18, "text-anchor": "middle", fill: halo }, sign + text(value)),
  ];
  if (numbers.length === 1) return chip(numbers[0], 0);
  const [one, other] = numbers;
  return [...chip(one, -0.21), ...chip(other, 0.21), ...chip(one + other, 0, { y: 0.19, width: 0.54, sign: "= " })];
}

const MOUTHS = { calm: "M-0.08 0.1h0.16", glad: "M-0.11 0.07q0.11 0.13 0.22 0", no: "M-0.1 0.14q0.1 -0.1 0.2 0" };

// Who is there: the guide has a hat, the learner a face. mood: "calm", "glad" or "no".
export function figure({ kind, mood = "calm", scale = 1 }, [x, y]) {
  const { halo, shown, done } = look();
  const stroke = (d, colour = halo, width = 0.045) => s("path", { d, ...line(colour, width) });
  const isGuide = kind === "guide";
  const place = { class: `figure ${kind} ${mood}`, transform: `translate(${round(x)} ${round(y)}) scale(${scale})` };
  const face = [
    s("circle", { r: 0.27, fill: isGuide ? shown : done, stroke: halo, "stroke-width": 0.05 }),
    isGuide ? rect(-0.15, -0.37, 0.3, 0.2, { fill: shown, stroke: shown, "stroke-width": 0.1 }) : null,
    isGuide ? stroke("M-0.3 -0.17h0.6", shown, 0.1) : null,
    stroke("M-0.09 -0.05h0.001M0.09 -0.05h0.001", halo, 0.09),
    stroke(MOUTHS[isGuide ? "calm" : mood]),
  ];
  return s("g", place, s("g", face));
}
