// The fifth tab: be the teacher. One's own paths are the lesson; the score is the share of the best achievable reward.

import { ask } from "./api.js";
import { byId, h, plural, shown } from "./dom.js";
import { heatLimit } from "./grid.js";
import { awareTeacher, bestLesson, drawCard, percent, shareOf, shortName } from "./lessons.js";
import { Paths } from "./paths.js";
import { getWorld, keepResult, learnerAsked, mindedPreferences, onChange } from "./state.js";
import { redraw } from "./stage.js";
import { avoidedCells } from "./world.js";
import { work } from "./work.js";

const paths = new Paths(show);

export const demonstrateMode = {
  hint:
    "Drag from the start, tap a cell, or use the arrow keys; space stays, Backspace takes back, " +
    "Enter begins another path.",
  layers: () => ({ avoided: avoidedCells(getWorld(), mindedPreferences()), paths: paths.all }),
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

function comment(share, best) {
  if (share === null) return "No lesson gets a positive reward out of this learner.";
  if (share > 1.0005) return "Better than the aware teacher's lesson!";
  if (share > 0.98) return "As good as it gets.";
  return share > 0.6 ? "Not bad: is there a way it minds less?" : `The aware teacher gets ${shown(best.reward)}.`;
}

async function answer(signal) {
  const world = getWorld(),
    learner = learnerAsked();
  const request = { world, learner, paths: paths.all };
  const [round, aware] = await Promise.all([ask("/api/answer", request, signal), bestLesson(world, learner)]);
  const best = aware.rounds.at(-1),
    share = shareOf(round.reward, best.reward);
  byId("score").replaceChildren(
    h("strong", { class: "percent" }, `Score: ${percent(share)}`),
    ` of the best achievable reward. ${comment(share, best)}`,
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
  keepResult("Your demonstrations", {
    kind: "answer",
    request,
    rounds: [round],
    ended: "answered",
    snippet: round.snippet,
  });
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
    if (what !== "world") return;
    const now = JSON.stringify([getWorld().size, getWorld().start]);
    if (now !== grid) paths.clear();
    grid = now;
  });
}
