// The result of a lesson as a card: the reward, a picture, and tables of expectations and preferences.

import { stream } from "./api.js";
import { h, refill, s, shown } from "./dom.js";
import { drawGrid, heatLimit } from "./grid.js";
import { players } from "./players.js";
import { OBJECTS, avoidedCells } from "./world.js";

export const TEACHERS = Object.keys(players.teachers);
export const ADAPTIVE = TEACHERS.filter((name) => players.teachers[name].is_adaptive);
export const LAYERS = { reward: "inferred reward", policy: "policy", visits: "expected visits" };
const STATES = { exceeded: "✗ exceeded", binds: "● binds", reached: "○ at its limit", free: "– not binding" };

export const shortName = (teacher) => players.teachers[teacher].label;
export const options = (names) =>
  names.map((name) => h("option", { value: name }, `${shortName(name)}: ${players.teachers[name].about}`));

// The teacher to compare with: the one that knows most about a learner of this model.
export const awareTeacher = (learner) => players.learner_models[learner.model].aware_teacher;

// All rounds of a teacher, each passed to onRound as it comes. A round may come again with a tighter bound.
export async function taught(request, onRound, signal) {
  const rounds = [];
  let ending = null;
  await stream(
    "/api/teach",
    request,
    (name, data) => {
      if (name === "end") ending = data;
      else {
        rounds[data.number - 1] = data;
        onRound(rounds, data);
      }
    },
    signal,
  );
  if (!ending) throw new Error("The server stopped before the end.");
  return { kind: "teach", request, rounds, ended: ending.ended, snippet: ending.snippet };
}

// The aware lesson for a learner in a world, the standard of comparison. The last one is cached.
let known = { key: "", lesson: null };

export function awareLesson(world, learner, signal) {
  const request = { world, learner, teacher: awareTeacher(learner), max_rounds: 1 };
  const key = JSON.stringify(request);
  if (known.key !== key) {
    const lesson = taught(request, () => {});
    known = { key, lesson };
    lesson.catch(() => {
      if (known.lesson === lesson) known = { key: "", lesson: null };
    });
  }
  // Several tabs may wait for one lesson: cancelling one of them does not stop it.
  return Promise.race([known.lesson, cancelled(signal)]);
}

function cancelled(signal) {
  return new Promise((_, reject) => {
    signal.addEventListener("abort", () => reject(new DOMException("cancelled", "AbortError")));
  });
}

// The rounds of an incomplete run, for the export.
export function brokenOff(request, rounds, error) {
  const ended = error.name === "AbortError" ? "cancelled" : error.message;
  return { kind: "rounds", request, rounds, ended, snippet: null };
}

// Mark cards and figures that belong to an earlier world or learner.
export function markStale(element, isStale) {
  element.classList.toggle("stale", isStale);
  element.querySelector(".stale-note")?.remove();
  if (isStale) element.prepend(h("p", { class: "hint stale-note" }, "The world or the learner has changed since."));
}

// The share of the aware lesson's reward; null if that is not positive.
export const shareOf = (reward, best) => (best !== null && best > 1e-9 ? reward / best : null);

export function percent(share) {
  return share === null ? "–" : `${shown(100 * share, share > 0.9995 && share < 1.0005 ? 0 : 1)}%`;
}

function meter(share) {
  const value = Math.max(0, Math.min(1, share ?? 0));
  const filling = h("div");
  filling.style.width = `${100 * value}%`;
  return h(
    "div",
    {
      class: "share",
      role: "meter",
      "aria-valuemin": 0,
      "aria-valuemax": 100,
      "aria-valuenow": Math.round(100 * value),
      "aria-label": "Share of the reward of the aware lesson",
    },
    filling,
  );
}

// world, learner: of the request; round: as the server sent it; best: the aware lesson's reward and bound, if known.
export function drawCard(card, { title, world, learner, round, rounds, best, layer, limit }) {
  const share = best ? shareOf(round.reward, best.reward) : null;
  // The bound of an adaptive teacher holds only for hard learners; the aware lesson's holds for all.
  const bound = (learner.model === "hard" ? round.bound : null) ?? best?.bound ?? null;
  const picture = s("svg", {
    role: "img",
    "data-picture": `${title}, ${LAYERS[layer]}`,
    "aria-label": `${LAYERS[layer]}: ${title}`,
  });
  drawLayer(picture, { world, learner, round, layer, limit });
  const many = rounds > 1 ? ` after ${rounds} rounds` : "";
  refill(
    card,
    h("h3", {}, title),
    h(
      "p",
      {},
      "Reward ",
      h("strong", { class: "reward" }, shown(round.reward)),
      best ? ": " : "",
      best ? h("strong", { class: "percent" }, percent(share)) : "",
      best ? ` of the aware lesson's ${shown(best.reward)}` : "",
      many,
    ),
    best ? meter(share) : null,
    bound === null ? null : h("p", { class: "hint bound" }, `No lesson earns more than ${shown(bound)}.`),
    picture,
    h("p", { class: "hint" }, scaleOf(layer, round, limit)),
    matchTable(round),
    preferenceTable(round),
    h("details", {}, h("summary", {}, "In words, with the certificate"), h("pre", {}, round.explanation)),
  );
}

// The meaning of the darkest colour.
function scaleOf(layer, round, limit) {
  if (layer === "policy") return "Arrows: moves, longer if more probable. Disc: stays. Drawn where the learner goes.";
  if (layer === "visits") return `White: no visits. Darkest: ${shown(Math.max(...round.visits), 2)} discounted visits.`;
  return `Darkest blue: ${shown(limit, 2)} or more. Darkest red, with a minus sign: ${shown(-limit, 2)} or less.`;
}

export function drawLayer(svg, { world, learner, round, layer, limit }) {
  const avoided = avoidedCells(world, learner.preferences);
  const layers = {
    reward: { heat: { values: round.reward_map, limit: limit ?? heatLimit([round.reward_map]) } },
    policy: { policy: round.policy, reached: round.visits },
    visits: { visits: round.visits },
  };
  drawGrid(svg, { world, avoided, ...layers[layer] });
}

// Visits; small numbers are not rounded to zero.
const small = (number) =>
  number > 1e-9 && number < 0.005 ? number.toExponential(0).replace("-", "−") : shown(number, 2);

function matchTable(round) {
  const row = (kind, k) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, kind),
      h("td", {}, shown(round.lesson[k], 2)),
      h("td", {}, shown(round.response[k], 2)),
    );
  return h(
    "table",
    {},
    h(
      "thead",
      {},
      h("tr", {}, ...["Discounted count", "shown", "done"].map((name) => h("th", { scope: "col" }, name))),
    ),
    h("tbody", {}, ...OBJECTS.map(row)),
  );
}

function preferenceTable(round) {
  if (!round.preferences.length) return h("p", { class: "hint" }, "The learner avoids nothing.");
  const row = (preference) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, preference.name),
      h("td", {}, shown(preference.allowance, 1)),
      h("td", {}, small(preference.visits)),
      h(
        "td",
        { class: preference.state },
        STATES[preference.state] + (preference.price > 0.005 ? `, price ${shown(preference.price, 2)}` : ""),
      ),
    );
  return h(
    "div",
    { class: "scroll" },
    h(
      "table",
      { class: "binding" },
      h(
        "thead",
        {},
        h("tr", {}, ...["Preference", "allowance", "visits", "outcome"].map((name) => h("th", { scope: "col" }, name))),
      ),
      h("tbody", {}, ...round.preferences.map(row)),
    ),
  );
}
