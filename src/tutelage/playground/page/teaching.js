// Be the teacher in one's own world: a person draws paths, the learner answers at once, and the score is a share of the
// most possible.

import { ask } from "./api.js";
import { Card } from "./cards.js";
import { byId, h, isAt, partsOf, percentOf, plural, refill, shown } from "./dom.js";
import { keepResult } from "./keeping.js";
import { Latest, awareRequest, mostOf, shareOf, taught } from "./lessons.js";
import { onLook } from "./look.js";
import { drawStrip, inTwoSizes, scalesOf } from "./panels.js";
import { Paths } from "./paths.js";
import { plainName } from "./players.js";
import { asked, endStroke, getScene, onChange, setPart, viewOf } from "./scene.js";
import { redraw } from "./stage.js";

const queue = new Latest({ pause: 120 });
// The last answer, and the request that it answers. A score is shown only for what is drawn now.
let parts = null,
  answer = null,
  isRevealed = false;

const paths = new Paths({ get: () => getScene().paths, set: (next) => setPart({ paths: next }, "path") });

export const teachMode = {
  hint: "Drag from the ring, click where the path should go, or use the arrow keys. Space: stay. Backspace: undo. Enter: another path.",
  touchHint: "Draw with a finger from the ring or from the path's end, or tap where the path should go.",
  layers: () => ({ avoided: viewOf(asked()).avoided, paths: getScene().paths }),
  ...paths.mode,
  release: endStroke,
};

// What is drawn now, without paths that only begin.
const requestNow = () => ({ ...asked(), paths: getScene().paths.filter((path) => path.length > 1) });
const isFresh = () => answer !== null && JSON.stringify(answer.request) === JSON.stringify(requestNow());

function comment(share) {
  if (share >= 0.9995) return "As good as can be.";
  if (share > 0.9) return "Nearly perfect.";
  if (share > 0.5) return "Not bad. Is there a path that it accepts all the way?";
  if (share > 0.02) return "It follows a little. Look where its blue crowd goes.";
  return "It learns nothing that it can use. Does your path cross what it avoids?";
}

function draw() {
  const drawn = getScene().paths;
  const isTaught = requestNow().paths.length > 0;
  const row = (path, k) => {
    const attributes = { "aria-label": `Remove path ${k + 1}`, onclick: () => paths.remove(k) };
    return h("li", `${plural(path.length - 1, "step")}, then stays`, h("button.quiet", attributes, "×"));
  };
  refill(parts.list, drawn.map(row));
  for (const button of [parts.undo, parts.clear, parts.another]) button.disabled = !isTaught;
  const isReady = isFresh() && isTaught;
  parts.card.element.hidden = !isTaught || (!isReady && !parts.card.round);
  if (!isTaught) {
    answer = null;
    drawScore("–", "Draw a path from the ring. The learner watches, and answers at once.");
  } else if (!isReady) {
    drawScore("…", "The learner is thinking.");
    parts.card.wait();
  } else if (answer.problem) drawProblem();
  else drawAnswer(requestNow().paths);
  const reward = isReady && !answer.problem ? answer.round.reward : null;
  if (isAt("teach")) drawStrip([{ name: "Your lesson", reward, most: mostOf(aware.round) }]);
  parts.reveal.textContent = isRevealed ? "Hide the best lesson" : "Show me the best lesson";
}

const drawScore = (score, text, ...more) =>
  refill(
    parts.score,
    h("strong", { class: score.endsWith("%") ? "big-score percent" : "big-score" }, inTwoSizes(score)),
    h("span", text),
    ...more,
  );

function drawProblem() {
  const { message } = answer.problem;
  const again = () => {
    answer = null;
    refresh();
  };
  parts.card.fail(message);
  const text = `No score: ${message[0].toLowerCase()}${message.slice(1)}`;
  drawScore("–", text, h("button", { onclick: again }, "Try again"));
}

function drawAnswer(drawn) {
  const { round, request } = answer;
  const best = aware.round;
  const most = mostOf(best);
  const share = shareOf(round.reward, most);
  const rounds = isRevealed && best ? [round, best] : [round];
  const scales = scalesOf(rounds);
  const view = viewOf(request);
  const least = Math.min(0, ...rounds.map((one) => one.reward));
  parts.card.show({ view, round, scales, most, least, drawn });
  if (most === null)
    drawScore(`${shown(round.reward)} so far`, aware.problem || "How much is possible is not known yet.");
  else if (share === null)
    drawScore(shown(round.reward), `No lesson gets more than ${shown(most.bound)} from this learner.`);
  else drawScore(percentOf(share, most), comment(share));
  parts.best.element.hidden = !(isRevealed && best);
  if (isRevealed && best) parts.best.show({ view, round: best, scales, most, least });
}

// The most that is possible, planned once for each world and learner.
const aware = { key: "", round: null, problem: "" };

function ensureAware(scene) {
  const request = awareRequest(scene);
  const key = JSON.stringify(request);
  if (aware.key === key) return;
  Object.assign(aware, { key, round: null, problem: "" });
  taught(request, (rounds) => {
    if (aware.key !== key) return;
    aware.round = rounds.at(-1);
    draw();
  }).catch((error) => {
    if (aware.key !== key) return;
    if (!aware.round) Object.assign(aware, { key: "", problem: error.message });
    draw();
  });
}

async function teach(request, signal, release) {
  const { paths: drawn, ...scene } = request;
  ensureAware(scene);
  try {
    const round = await ask("/api/answer", request, signal);
    release();
    answer = { request, round };
    keepResult("Your paths", { kind: "answer", request, rounds: [round], ended: "answered", snippet: round.snippet });
    draw();
  } catch (error) {
    if (error.name === "AbortError") return;
    answer = { request, problem: error };
    draw();
  }
}

function refresh() {
  if (!isAt("teach") || getScene().brought) return;
  const request = requestNow();
  if (request.paths.length && !isFresh()) queue.run((signal, release) => teach(request, signal, release));
  else if (!request.paths.length) queue.stop();
  draw();
}

export function openTeaching() {
  byId("panel-teach").classList.toggle("unavailable", Boolean(getScene().brought));
  refresh();
}

export function startTeaching() {
  parts = partsOf("panel-teach", {
    another: () => paths.begin(),
    undo: () => paths.undoStep(),
    clear: () => paths.clear(),
    reveal: () => {
      isRevealed = !isRevealed;
      if (!isRevealed) parts.best.element.hidden = true;
      draw();
    },
  });
  const note = `“${plainName("bilevel")}” or “${plainName("aware_cmdp")}”`;
  parts.card = new Card({ id: "you", title: "Your lesson", note: "what you drew, and what the learner makes of it" });
  parts.best = new Card({ id: "best", title: "The best lesson", note });
  parts.best.element.hidden = true;
  refill(parts.cards, parts.card.element, parts.best.element);
  onChange((what) => {
    if (["world", "learner", "paths"].includes(what)) {
      redraw();
      refresh();
    }
  });
  onLook(() => isAt("teach") && draw());
}
