// The three pictures of a lesson: what is shown, what the learner thinks is good, what it does; and its reward as a bar.

import { byId, h, percent, refill, s, shown } from "./dom.js";
import { drawGrid, middle } from "./grid.js";
import { beliefColour, look, visitColour } from "./look.js";
import { dotOf, drawBars, drawMap, placesOf } from "./map.js";
import { setCrowd } from "./walkers.js";

export const TITLES = { shown: "What it is shown", believed: "What it thinks is good", done: "What it does" };

// The scales that the pictures of several rounds share.
export function scalesOf(rounds) {
  const most = (lists) => Math.max(0, ...lists.map((list) => list.reduce((a, b) => Math.max(a, Math.abs(b)), 0)));
  return {
    belief: most(rounds.map((round) => round.reward_map ?? round.weights)),
    visits: most(rounds.map((round) => round.visits)),
    count: most(rounds.flatMap((round) => [round.lesson, round.response])),
    preference: most(rounds.map((round) => round.preferences.flatMap((one) => [one.visits, one.allowance]))),
  };
}

// Draw one of the three pictures. view: of `viewOf`; layer: "crowd" or "arrows" for what the learner does; drawn: the
// paths of a person instead of the walks of a policy.
export function drawPanel(svg, kind, { view, round, scales, layer = "crowd", drawn, about = "" }) {
  const draw = view.world ? gridPanel : placesOf(view.about) ? mapPanel : barPanel;
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `${TITLES[kind]}${about ? `: ${about}` : ""}`);
  draw(svg, kind, { view, round, scales, layer, drawn });
}

function gridPanel(svg, kind, { view, round, scales, layer, drawn }) {
  const { world, avoided } = view;
  const place = (cell) => middle(cell, world.size);
  if (kind === "shown") {
    const paths = drawn ?? round.shown ?? [];
    const routes = drawn ? undefined : { paths, colour: look().shown };
    drawGrid(svg, { world, avoided, routes, paths: drawn ?? [] });
    setCrowd(svg, { paths: drawn ? drawn.flatMap((path) => [path, path]) : paths, place, colour: look().shown });
  } else if (kind === "believed") {
    drawGrid(svg, { world, avoided, belief: { values: round.reward_map, most: scales.belief } });
  } else {
    const visits = { values: round.visits, most: scales.visits };
    const moves = layer === "arrows" ? { policy: round.policy, reached: round.visits } : {};
    drawGrid(svg, { world, avoided, visits, ...moves });
    setCrowd(svg, { paths: layer === "arrows" ? [] : round.done, place, colour: look().done });
  }
}

function mapPanel(svg, kind, { view, round, scales }) {
  const { about, avoided } = view;
  const places = placesOf(about);
  const place = (state) => places[state];
  if (kind === "believed" && !round.reward_map) {
    barPanel(svg, kind, { view, round, scales });
    return;
  }
  const layers = {
    shown: { routes: { paths: round.shown ?? [], colour: look().shown } },
    believed: { belief: { values: round.reward_map, most: scales.belief } },
    done: { visits: { values: round.visits, most: scales.visits } },
  };
  drawMap(svg, { about, avoided, ...layers[kind] });
  const walks = { shown: round.shown ?? [], believed: [], done: round.done }[kind];
  const paths = walks.map((walk) => walk.filter((state) => places[state]));
  setCrowd(svg, { paths, place, colour: look()[kind === "shown" ? "shown" : "done"], unit: 3 * dotOf(about) });
}

// Without a map: counts by name. What is shown is a line beside what is done.
function barPanel(svg, kind, { view, round, scales }) {
  const names = view.about?.reward_names ?? ["star", "plus", "dot"];
  if (kind === "shown") {
    const rows = names.map((name, k) => ({ name, value: round.lesson[k] }));
    drawBars(svg, rows, { colour: look().shown, most: scales.count });
  } else if (kind === "believed") {
    const every = [...names, ...(view.preference_names ?? [])];
    drawBars(
      svg,
      every.map((name, k) => ({ name, value: round.weights[k] })),
      { colour: look().good, most: scales.belief, least: -scales.belief },
    );
  } else {
    const rows = names.map((name, k) => ({ name, value: round.response[k], mark: round.lesson[k] }));
    const kept = round.preferences.map((one) => ({ name: `${one.name}`, value: one.visits, mark: one.allowance }));
    drawBars(svg, [...rows, ...kept], { colour: look().done, most: scales.count });
  }
}

// The legend of a picture, with its scale.
export function legendOf(kind, { view, scales, layer = "crowd" }) {
  const isDrawn = view.world || (view.about && placesOf(view.about));
  const ramp = (colours) => {
    const stops = colours.map((fill, k) => s("rect", { x: 6 * k, y: 0, width: 6.4, height: 8, fill }));
    return s("svg", { class: "ramp", viewBox: `0 0 ${6 * colours.length} 8`, "aria-hidden": "true" }, ...stops);
  };
  const shares = [0, 0.04, 0.16, 0.36, 0.64, 1];
  if (!isDrawn) {
    const texts = { shown: "expected counts", believed: "learned weights", done: "counts; line: as shown, or allowed" };
    return h("p", { class: "legend" }, texts[kind]);
  }
  if (kind === "shown") return h("p", { class: "legend" }, swatch("shown"), "its route", hatched(), "avoided");
  if (kind === "believed") {
    const bad = shares
      .slice(1)
      .reverse()
      .map((x) => beliefColour(-x, 1));
    const good = shares.map((x) => beliefColour(x, 1));
    const most = shown(scales.belief, 1);
    return h("p", { class: "legend" }, `−${most}`, ramp([...bad, ...good]), `+${most}`);
  }
  return h(
    "p",
    { class: "legend" },
    "0",
    ramp(shares.map((x) => visitColour(x, 1))),
    `${shown(scales.visits, 1)} visits`,
    layer === "arrows" ? " ▸ its moves" : [swatch("done"), "the learner"],
  );
}

const swatch = (kind) =>
  s(
    "svg",
    { class: "swatch", viewBox: "0 0 10 10", "aria-hidden": "true" },
    s("circle", { cx: 5, cy: 5, r: 4, fill: look()[kind] }),
  );
const hatched = () =>
  s(
    "svg",
    { class: "swatch", viewBox: "0 0 10 10", "aria-hidden": "true" },
    s("rect", { width: 10, height: 10, fill: look().avoided }),
    s("path", { d: "M0 5l5 -5M0 10l10 -10M5 10l5 -5", stroke: look().hatch, "stroke-width": 0.9 }),
  );

// A figure with its title above and its legend below.
export function panelFigure(kind, options) {
  const svg = s("svg", { class: `picture ${options.view.world ? "" : "free"}` });
  drawPanel(svg, kind, options);
  const title = options.title ?? TITLES[kind];
  return h("figure", { class: `panel ${kind}` }, h("figcaption", {}, title), svg, legendOf(kind, options));
}

// A reward as a bar from zero. most: the most that any lesson gets, the end of the track; null while it is not known.
export function drawMeter(element, { reward, most, label }) {
  const share = reward === null || most === null || most <= 1e-6 ? null : reward / most;
  const filled = Math.max(0, Math.min(1, share ?? 0));
  const bar = h("div", {
    class: "track",
    role: "meter",
    "aria-label": label,
    "aria-valuemin": 0,
    "aria-valuemax": 100,
    "aria-valuenow": Math.round(100 * filled),
    "aria-valuetext": share === null ? "not known" : `${percent(share)} of the most possible`,
  });
  const filling = h("div", { class: share !== null && share < 0 ? "filling below" : "filling" });
  filling.style.width = `${100 * filled}%`;
  bar.append(filling);
  const numbers =
    reward === null
      ? h("span", { class: "numbers" }, "…")
      : h(
          "span",
          { class: "numbers" },
          h("strong", { class: "reward" }, shown(reward)),
          most === null
            ? " so far"
            : most <= 1e-6
              ? ": no lesson earns anything here"
              : ` of ${shown(most)} possible`,
        );
  refill(element, h("span", { class: "percent" }, share === null ? "" : percent(share)), bar, numbers);
  return share;
}

// The bars in short, which a phone keeps in view at the bottom: rows of a name and a share.
export function drawStrip(rows) {
  refill(
    byId("strip"),
    rows.map(([name, share]) => {
      const bar = h("i");
      bar.style.width = `${Math.max(0, Math.min(100, 100 * (share ?? 0)))}%`;
      return h("div", {}, h("span", {}, name), h("b", {}, bar), h("span", {}, share === null ? "…" : percent(share)));
    }),
  );
}
