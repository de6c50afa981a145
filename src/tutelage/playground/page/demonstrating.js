// The fifth tab: be the teacher. The person's paths are the lesson; the score is a share of the aware lesson's reward.

import { ask } from "./api.js";
import { byId, h, plural, shown } from "./dom.js";
import { heatLimit } from "./grid.js";
import { awareTeacher, awareLesson, drawCard, markStale, percent, shareOf, shortName } from "./lessons.js";
import { Paths } from "./paths.js";
import { getWorld, isStale, keepResult, learnerAsked, avoidedPreferences, onChange } from "./state.js";
import { redraw } from "./stage.js";
import { avoidedCells } from "./world.js";
import { work } from "./work.js";

const paths = new Paths(show);
let shownRequest = null;

export const demonstrateMode = {
  hint:
    "Drag from the start, tap a cell, or use the arrow keys. Space: stay. Backspace: undo. " +
    "Enter: another path.",
  layers: () => ({ avoided: avoidedCells(getWorld(), avoidedPreferences()), paths: paths.all }),
  ...paths.mode,
};

function show() {
  byId("paths").replaceChildren(
    ...paths.all.map((path, k) =>
      h(
        "li",
        {},
        `${plural(path.length - 1, "step")}, then stays`,
        h("button", { type: "button", "aria-label": `Remove path ${k + 1}`, onclick: () => paths.remove(k) }, "Remove"),
      ),
    ),
  );
  byId("show-paths").disabled = !paths.all.length;
  redraw();
}

// best: the round of the aware lesson. No lesson earns more than its bound; for hard preferences, than its reward.
function comment(share, best) {
  if (share === null) return best.bound <= 1e-9 ? "No lesson earns a positive reward from this learner." : "";
  if (share > 1.0005) return "Better than the aware teacher!";
  if (share > 0.98) return "As good as the aware teacher.";
  if (share > 0.6) return "Not bad. Is there a path that its preferences allow?";
  return `The aware teacher earns ${shown(best.reward)}.`;
}

async function answer(signal) {
  const world = getWorld(),
    learner = learnerAsked();
  const request = { world, learner, paths: paths.all };
  const [round, aware] = await Promise.all([ask("/api/answer", request, signal), awareLesson(world, learner, signal)]);
  const best = aware.rounds.at(-1),
    share = shareOf(round.reward, best.reward);
  const achieved = learner.model === "hard" ? "the best achievable reward" : "the aware lesson's reward";
  byId("score").replaceChildren(
    h("strong", { class: "percent" }, `Score: ${percent(share)}`),
    ` of ${achieved}. ${comment(share, best)}`,
  );
  const limit = heatLimit([round.reward_map, best.reward_map]);
  const cards = [
    ["Your lesson", round],
    [`The aware lesson (${shortName(awareTeacher(learner))})`, best],
  ].map(([title, shownRound]) => {
    const card = h("article", { class: "card" });
    drawCard(card, { title, world, learner, round: shownRound, rounds: 1, best, layer: "policy", limit });
    return card;
  });
  byId("answers").replaceChildren(...cards);
  shownRequest = request;
  markAnswers();
  keepResult("Your demonstrations", {
    kind: "answer",
    request,
    rounds: [round],
    ended: "answered",
    snippet: round.snippet,
  });
}

function markAnswers() {
  if (shownRequest) markStale(byId("answered"), isStale(shownRequest));
}

export function startDemonstrating() {
  byId("new-path").addEventListener("click", () => paths.begin());
  byId("undo-step").addEventListener("click", () => paths.undoStep());
  byId("clear-paths").addEventListener("click", () => paths.clear());
  byId("show-paths").addEventListener("click", (event) =>
    work({ button: event.currentTarget, alert: "demonstrate-alert" }, answer),
  );
  let grid = null;
  onChange((what) => {
    if (what !== "results") markAnswers();
    if (what !== "world") return;
    const now = JSON.stringify([getWorld().size, getWorld().start]);
    if (now !== grid) paths.clear();
    grid = now;
  });
}
