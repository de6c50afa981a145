// The three pictures of a lesson: what is shown, what the learner thinks is good, what it does; and its reward as a bar.

import { byId, h, percentOf, refill, s, shown } from "./dom.js";
import { besides, shareOf } from "./lessons.js";
import { beliefColour, look, visitColour } from "./look.js";
import { icon } from "./marks.js";
import { draw, groundOf, nameAt } from "./pictures.js";
import { setCrowd } from "./walkers.js";

export const TITLES = { shown: "What it is shown", believed: "What it thinks is good", done: "What it does" };

// The scales that the pictures of several rounds share.
export function scalesOf(rounds) {
  const most = (lists) => Math.max(0, ...lists.map((list) => list.reduce((a, b) => Math.max(a, Math.abs(b)), 0)));
  return {
    belief: most(rounds.map((round) => round.reward_map ?? round.weights)),
    visits: most(rounds.map((round) => round.visits)),
    count: most(rounds.flatMap((round) => [round.lesson, round.response])),
  };
}

// Whether a picture of this kind has places; otherwise it has bars.
const isPlaced = (kind, { view, round }) =>
  Boolean(groundOf(view)) && (kind !== "believed" || Boolean(round?.reward_map));

// Draw one of the three pictures. view: of `viewOf`; layer: "crowd" or "arrows" for what the learner does; drawn: the
// paths of a person instead of the walks of a policy.
export function drawPanel(svg, kind, options) {
  const { view, round, about } = options;
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `${TITLES[kind]}${about ? `: ${about}` : ""}`);
  if (!isPlaced(kind, options)) {
    drawBars(svg, ...barsOf(kind, options));
    return;
  }
  const ground = groundOf(view);
  const { avoided, avoidedRoads } = view;
  draw(svg, ground, { avoided, avoidedRoads, ...layersOf(kind, options) });
  const walks = kind === "shown" ? (options.drawn?.flatMap((path) => [path, path]) ?? round.shown ?? []) : round.done;
  const isCrowd = kind !== "believed" && !(kind === "done" && options.layer === "arrows");
  const paths = (isCrowd ? walks : []).map((walk) => walk.filter((state) => ground.places[state]));
  setCrowd(svg, { paths, place: (state) => ground.places[state], colour: look()[kind] });
}

function layersOf(kind, { round, scales, layer, drawn }) {
  if (kind === "shown")
    return drawn ? { paths: drawn } : { routes: { paths: round.shown ?? [], colour: look().shown } };
  if (kind === "believed") return { belief: { values: round.reward_map, most: scales.belief } };
  const moves = layer === "arrows" && round.policy ? { policy: round.policy, reached: round.visits } : {};
  return { visits: { values: round.visits, most: scales.visits }, ...moves };
}

// Without places: counts by name. What is shown is a line beside what is done.
function barsOf(kind, { view, round, scales }) {
  const { reward_names: names } = view.about;
  const rows = (values) => names.map((name, k) => ({ name, value: values[k] }));
  if (kind === "shown") return [rows(round.lesson), { colour: look().shown, most: scales.count }];
  if (kind === "believed") {
    const every = [...names, ...view.preference_names];
    const inferred = round.weights.map((value, k) => ({ name: every[k], value })); // none of some learners
    return [inferred, { colour: look().good, most: scales.belief, least: -scales.belief }];
  }
  const done = rows(round.response).map((row, k) => ({ ...row, mark: round.lesson[k] }));
  const kept = round.preferences.map(({ name, visits, allowance }) => ({ name, value: visits, mark: allowance }));
  return [[...done, ...kept], { colour: look().done, most: scales.count }];
}

// rows: {name, value, mark}: bars from zero on one scale; mark: a second value, drawn as a line.
function drawBars(svg, rows, { colour, most, least = 0 }) {
  const { ink, line, soft, bad } = look();
  const [width, step] = [220, 30];
  const height = Math.max(60, rows.length * step + 8);
  const low = Math.min(0, least, ...rows.map((row) => row.value));
  const high = Math.max(1e-9, most, ...rows.map((row) => Math.max(row.value, row.mark ?? 0)));
  const x = (value) => 4 + ((value - low) / (high - low)) * (width - 52);
  const upright = (at, y1, y2, stroke, wide) => s("line", { x1: at, x2: at, y1, y2, stroke, "stroke-width": wide });
  const bar = ({ name, value, mark }, k) => {
    const y = 6 + k * step;
    const [from, to] = [Math.min(0, value), Math.max(0, value)].map(x);
    const box = { x: from, y: y + 13, width: Math.max(0.5, to - from), height: 7, rx: 2 };
    return [
      s("text", { x: 4, y: y + 8, "font-size": 9, fill: soft }, name.slice(0, 40)),
      s("rect", { ...box, fill: value < 0 ? bad : colour }),
      mark === undefined ? null : upright(x(mark), y + 11, y + 22, ink, 1.6),
      s("text", { x: width - 4, y: y + 20, "font-size": 9.5, "text-anchor": "end", fill: ink }, shown(value)),
    ];
  };
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  refill(svg, upright(x(0), 2, height - 4, line, 1), rows.map(bar));
}

const BAR_LEGENDS = {
  shown: "expected counts",
  believed: "learned weights",
  done: "counts; line: as shown, or allowed",
};

// The legend of a picture, with its scale.
export function legendOf(kind, options) {
  const { scales, layer } = options;
  if (!isPlaced(kind, options)) return h("p.legend", BAR_LEGENDS[kind]);
  const ramp = (colours) => {
    const stops = colours.map((fill, k) => s("rect", { x: 6 * k, y: 0, width: 6.4, height: 8, fill }));
    return s("svg.ramp", { viewBox: `0 0 ${6 * colours.length} 8`, "aria-hidden": "true" }, stops);
  };
  const shares = [0, 0.04, 0.16, 0.36, 0.64, 1];
  const swatch = s("svg.swatch", { viewBox: "0 0 10 10", "aria-hidden": "true" });
  swatch.append(s("circle", { cx: 5, cy: 5, r: 4, fill: look()[kind === "shown" ? "shown" : "done"] }));
  if (kind === "shown") return h("p.legend", swatch, "its route", icon("avoided"), "avoided");
  if (kind === "believed") {
    const bad = shares.slice(1).reverse();
    const colours = [...bad.map((x) => beliefColour(-x, 1)), ...shares.map((x) => beliefColour(x, 1))];
    return h("p.legend", `−${shown(scales.belief, 1)}`, ramp(colours), `+${shown(scales.belief, 1)}`);
  }
  const colours = ramp(shares.map((x) => visitColour(x, 1)));
  const who = layer === "arrows" ? " ▸ its moves" : [swatch, "the learner"];
  return h("p.legend", "0", colours, `${shown(scales.visits, 1)} visits`, who);
}

// A figure with its title above and its legend below. A pointer over a map finds the names of places and streets.
export function panelFigure(kind, options) {
  const svg = s("svg", { class: `picture ${options.view.world ? "" : "free"}` });
  drawPanel(svg, kind, options);
  const figure = h("figure.panel", h("figcaption", TITLES[kind]), svg, legendOf(kind, options));
  figure.classList.add(kind);
  if (options.view.about && isPlaced(kind, options)) nameOnHover(figure, svg, groundOf(options.view));
  return figure;
}

export function nameOnHover(element, svg, ground) {
  element.addEventListener("pointermove", (event) => {
    const name = nameAt(svg, ground, event);
    byId("hover").textContent = name;
    byId("hover").style.translate = `${event.clientX + 14}px ${event.clientY + 14}px`;
  });
  element.addEventListener("pointerleave", () => (byId("hover").textContent = ""));
}

// A reward as a bar from zero, with a mark at the most that any lesson gets; costs grow from the right to the left.
// most: of `mostOf`, null while it is not known; least: the lowest reward of all bars on the same scale.
function barOf({ reward, most, least = 0 }) {
  if (reward === null || reward === undefined || !most) return { low: 0, high: 0, parts: [part("most", 100)] };
  const [low, high] = [Math.min(0, reward, least), Math.max(0, most.bound)];
  const at = (value) => (high > low ? 100 * Math.max(0, Math.min(1, (value - low) / (high - low))) : 0);
  const [from, to] = [Math.min(0, reward), Math.max(0, reward)].map(at);
  const filling = part(reward < 0 ? "filling.below" : "filling", from, to - from);
  return {
    low,
    high,
    parts: [filling, low < 0 && high > 0 ? part("zero", at(0)) : null, part("most", at(most.bound))],
  };
}

function part(name, left, width = null) {
  const element = h(`i.${name}`);
  element.style.left = `${left}%`;
  if (width !== null) element.style.width = `${width}%`;
  return element;
}

// given: reward, most and least as of `barOf`. The share of the most is returned.
export function drawMeter(element, { label, ...given }) {
  const { reward, most } = given;
  const share = shareOf(reward, most);
  const { low, high, parts } = barOf(given);
  const beside = reward === null || !most ? " so far" : besides(reward, most);
  const values =
    share === null
      ? { "aria-valuemin": low, "aria-valuemax": high, "aria-valuenow": reward ?? 0 }
      : {
          "aria-valuemin": 0,
          "aria-valuemax": 100,
          "aria-valuenow": Math.round(100 * Math.max(0, Math.min(1, share))),
        };
  const spoken = share !== null ? `${percentOf(share, most)} of the most possible` : `${shown(reward)}${beside}`;
  values["aria-valuetext"] = reward === null || !most ? "not known" : spoken;
  refill(
    element,
    h("span.percent", share === null ? "" : inTwoSizes(percentOf(share, most))),
    h("div.track", { role: "meter", "aria-label": label, ...values }, parts),
    h("span.numbers", reward === null ? "…" : [h("strong.reward", shown(reward)), beside]),
  );
  return share;
}

// "at least 99.1 %": the number is large, the words are small.
export function inTwoSizes(text) {
  const [words, number] = text.split(/ (?=[\d−])/);
  return number ? [h("small", `${words} `), number] : text;
}

// The bars in short, which a phone keeps in view at the bottom. rows: {name, reward, most, least}.
export function drawStrip(rows) {
  const text = ({ reward, most }) => {
    const share = shareOf(reward, most);
    return share !== null ? percentOf(share, most) : reward === null || !most ? "…" : shown(reward);
  };
  refill(
    byId("strip"),
    rows.map((row) => h("div", h("span", row.name), h("b", barOf(row).parts), h("span", text(row)))),
  );
}
