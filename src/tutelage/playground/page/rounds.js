// The fourth tab: the rounds of an adaptive teacher, one by one.

import { ask } from "./api.js";
import { byId, h, plural, s, shown } from "./dom.js";
import { ADAPTIVE, brokenOff, drawLayer, markStale, options, shortName, taught } from "./lessons.js";
import { drawPlane, drawRounds } from "./plots.js";
import { getWorld, isStale, keepResult, learnerAsked, onChange } from "./state.js";
import { OBJECTS } from "./world.js";
import { work } from "./work.js";

export const PAIRS = [
  [0, 1],
  [0, 2],
  [1, 2],
];

let request = null,
  rounds = [],
  reach = null,
  ended = null;

const selected = () => Number(byId("round").value);

// Draw the planes of an element, one for each pair of object types.
export function drawPlanes(element, { reach: polygons, remaining, rounds: played, isPushing }) {
  if (!element.children.length) {
    element.append(
      ...PAIRS.map((pair, plane) =>
        h(
          "figure",
          {},
          h("figcaption", {}, `${OBJECTS[pair[0]]} and ${OBJECTS[pair[1]]}`),
          s("svg", {
            id: `${element.id}-${plane}`,
            role: "img",
            "data-picture": `${element.dataset.of}: ${OBJECTS[pair[0]]} and ${OBJECTS[pair[1]]}`,
          }),
        ),
      ),
    );
  }
  PAIRS.forEach((pair, plane) =>
    drawPlane(byId(`${element.id}-${plane}`), {
      pair,
      names: OBJECTS,
      reach: polygons,
      plane,
      remaining: remaining?.[plane],
      rounds: played,
      isPushing,
    }),
  );
}

export function fillRounds(table, played) {
  const cells = (tag, values, attributes = {}) => h("tr", {}, ...values.map((value) => h(tag, attributes, value)));
  table.replaceChildren(
    h("thead", {}, cells("th", ["Round", "lesson", "learner", "bound", "why this lesson"], { scope: "col" })),
    h(
      "tbody",
      {},
      ...played.map((round, k) =>
        cells("td", [String(k + 1), shown(round.lesson_reward), shown(round.reward), shown(round.bound), round.reason]),
      ),
    ),
  );
}

// The teacher's bound is valid for hard learners only.
function boundSentence(bound) {
  if (bound === null) return ".";
  if (request.learner.model === "hard") return `; no lesson earns more than ${shown(bound)}.`;
  return `; the teacher's bound is ${shown(bound)}, which holds only for hard learners.`;
}

function draw() {
  const number = selected(),
    round = rounds[number - 1];
  byId("round-shown").textContent = `${number} of ${rounds.length}`;
  const ending = ended && number === rounds.length ? ` Ended after ${plural(number, "round")}: ${ended}.` : "";
  byId("round-reason").textContent =
    `Round ${number}: ${round.reason}. The learner earns ${shown(round.reward)}` + boundSentence(round.bound) + ending;
  drawRounds(byId("rounds-chart"), rounds, number);
  drawLayer(byId("round-grid"), { world: request.world, learner: request.learner, round, layer: "policy" });
  byId("round-grid").setAttribute("aria-label", `The learner's policy in round ${number}`);
  if (reach) {
    drawPlanes(byId("planes"), {
      reach,
      remaining: round.remaining,
      rounds: rounds.slice(0, number),
      isPushing: request.teacher.startsWith("line_search"),
    });
    byId("planes-hint").textContent =
      "Grey: reachable by policies." +
      (reach.accepted ? " Striped: accepted by the learner." : "") +
      " Blue: not yet excluded by the teacher. Squares: lessons; rings: responses" +
      (request.teacher.startsWith("line_search") ? "; arrows: pushes." : ".");
  }
  fillRounds(byId("rounds-table"), rounds);
  markStale(byId("rounds"), isStale(request));
}

function select(number) {
  byId("round").value = Math.max(1, Math.min(rounds.length, number));
  draw();
}

async function start(signal) {
  request = {
    world: getWorld(),
    learner: learnerAsked(),
    teacher: byId("adaptive").value,
    max_rounds: byId("max-rounds").valueAsNumber,
  };
  [rounds, reach, ended] = [[], null, null];
  byId("rounds").hidden = true;
  byId("planes").replaceChildren();
  byId("round").value = 1;
  const reaching = ask("/api/reach", { world: request.world, learner: request.learner }, signal).then((found) => {
    reach = found;
    if (rounds.length) draw();
  });
  // If the rounds fail too, their error is shown.
  reaching.catch(() => {});
  const name = `Rounds: ${shortName(request.teacher)}`;
  try {
    const found = await taught(request, follow, signal);
    keepResult(name, found);
    ended = found.ended;
    draw();
  } catch (error) {
    if (rounds.length) keepResult(name, brokenOff(request, rounds, error));
    throw error;
  }
  await reaching;
}

// Show the new round if the last one was selected.
function follow(all) {
  const isFollowing = selected() >= all.length - 1;
  rounds = all;
  byId("rounds").hidden = false;
  byId("round").max = all.length;
  select(isFollowing ? all.length : selected());
}

export function startRounds() {
  byId("adaptive").append(...options(ADAPTIVE));
  byId("round").addEventListener("input", draw);
  byId("previous-round").addEventListener("click", () => select(selected() - 1));
  byId("next-round").addEventListener("click", () => select(selected() + 1));
  byId("rounds-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const button = byId("rounds-form").querySelector(".main");
    work({ button, cancel: "cancel-rounds", alert: "rounds-alert", done: "All rounds are complete." }, start);
  });
  onChange((what) => {
    if (what !== "results" && request) markStale(byId("rounds"), isStale(request));
  });
}
