// Be the learner: the teacher shows demonstrations, the person walks under secret preferences, and the teacher says what
// it has concluded. The secrets never leave this page; the reveal compares them here.

import { ask } from "./api.js";
import { byId, h, plural, refill, s, shown } from "./dom.js";
import { clueMarks, cluesOf } from "./detective.js";
import { drawGrid, middle } from "./grid.js";
import { Latest } from "./lessons.js";
import { look, onLook } from "./look.js";
import { Paths } from "./paths.js";
import { ADAPTIVE, choices, plainName } from "./players.js";
import { drawRounds } from "./plots.js";
import { keepResult } from "./results.js";
import { drawPlanes, roundsTable } from "./rounds.js";
import { PREFERENCES, getScene, getWorld, onChange, setPart } from "./scene.js";
import { redraw } from "./stage.js";
import { setCrowd } from "./walkers.js";
import { OBJECTS, avoidedCells } from "./world.js";

const queue = new Latest({ pause: 0 });
const parts = {};
const STATISTICS =
  "The statistics are infer_learner's: what your walks prove about a soft learner, with 95 % confidence.";
let drawn = [],
  found = null,
  estimate = null,
  reach = null,
  isOpen = false,
  isRevealed = false;

const walk = new Paths({
  get: () => drawn,
  set: (next) => {
    drawn = next;
    draw();
  },
  most: 1,
});

const secrets = () => PREFERENCES.filter((_, k) => getScene().secrets[k]);

export const learnMode = {
  hint: "Watch the orange walkers. Then walk yourself: drag from the ring, click a cell, or use the arrow keys. Backspace: undo.",
  touchHint: "Watch the orange walkers. Then walk yourself: draw with a finger from the ring, or tap a cell.",
  layers: () => {
    const routes = found?.lesson ? { paths: found.lesson.paths, colour: look().shown } : undefined;
    return { avoided: avoidedCells(getWorld(), secrets()), routes, paths: drawn, pathColour: look().done };
  },
  after: (svg) => {
    const { size } = getWorld();
    const paths = found?.lesson && !drawn.length && isOpen ? found.lesson.paths.flatMap((path) => [path, path]) : [];
    setCrowd(svg, { paths, place: (cell) => middle(cell, size), colour: look().shown });
  },
  ...walk.mode,
};

// Ask for the next lesson after these walks.
async function adapt(walks, signal) {
  const request = { world: getWorld(), teacher: getScene().walker, walks };
  parts.alert.textContent = "";
  try {
    const nothing = { model: "soft", preferences: [] };
    const [answer, polygons] = await Promise.all([
      ask("/api/adapt", request, signal),
      ask("/api/reach", { world: request.world, learner: nothing }, signal),
    ]);
    [found, reach, drawn, estimate] = [answer, polygons, [], null];
    setPart({ walks });
    keepResult("Your walks", {
      kind: "adapt",
      request,
      rounds: found.rounds,
      ended: found.is_over ? found.reason : "the rounds go on",
      snippet: found.snippet,
    });
  } catch (error) {
    if (error.name !== "AbortError") parts.alert.textContent = error.message;
  }
  draw();
  redraw();
}

const begin = (walks) => queue.run((signal) => adapt(walks, signal));

function sentence() {
  const { rounds, lesson, reason, is_over: isOver } = found;
  const last = rounds.at(-1);
  const earned = last ? `Your walk earned ${shown(last.reward)}. ` : "";
  if (isOver) return `${earned}After ${plural(rounds.length, "round")} I have no more to show: ${reason}.`;
  return (
    `${earned}Lesson ${rounds.length + 1}: ${reason}. Followed exactly it earns ${shown(lesson.reward)}. ` +
    "Follow it as closely as your secret allows."
  );
}

// What the teacher concludes, and, after the reveal, whether it is right.
function conclusions() {
  // To avoid cells within a distance is to avoid the nearer ones too.
  const truth = PREFERENCES.map(({ colour, distance }) =>
    secrets().some((secret) => secret.colour === colour && secret.distance >= distance),
  );
  const verdicts = { avoids: "you avoid it", accepts: "you accept it", unknown: "I cannot tell" };
  const right = (one, k) => (one.verdict === "unknown" ? null : (one.verdict === "avoids") === truth[k]);
  const isFitted = Boolean(isRevealed && estimate?.verdicts);
  const rows = found.conclusions.map((one, k) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, one.name),
      h("td", {}, shown(one.shown, 1)),
      h("td", {}, shown(one.done, 1)),
      h("td", {}, verdicts[one.verdict]),
      isFitted ? h("td", {}, verdicts[estimate.verdicts[k]]) : null,
      isRevealed
        ? h(
            "td",
            { class: right(one, k) === false ? "wrong" : "right" },
            truth[k] ? "you do avoid it" : "you do not mind",
            right(one, k) === null ? "" : right(one, k) ? " ✓" : " ✗",
          )
        : null,
    ),
  );
  const judged = found.conclusions.filter((one) => one.verdict !== "unknown");
  const hits = found.conclusions.filter((one, k) => right(one, k)).length;
  const head = [
    "Cells",
    "shown",
    "you went",
    "I conclude",
    ...(isFitted ? ["by statistics"] : []),
    ...(isRevealed ? ["The truth"] : []),
  ];
  return [
    h("h2", {}, "What I conclude about you"),
    h(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": "Conclusions" },
      h(
        "table",
        {},
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            head.map((text) => h("th", { scope: "col" }, text)),
          ),
        ),
        h("tbody", {}, rows),
      ),
    ),
    isRevealed
      ? h(
          "p",
          { class: "verdict", id: "self-score" },
          `I was right about ${hits} of the ${judged.length} that I dared to judge.`,
          estimate
            ? h("span", { class: "hint", id: "estimate" }, ` ${estimate.verdicts ? STATISTICS : estimate.text}`)
            : null,
        )
      : h(
          "button",
          {
            type: "button",
            class: "main",
            id: "reveal",
            onclick: () => {
              isRevealed = true;
              infer();
              draw();
            },
          },
          "Reveal my secret",
        ),
  ];
}

// The statistical estimate takes longer than the rounds, so it is asked for at the end only.
function infer() {
  const { world, walker, walks } = getScene();
  const mine = found;
  estimate = { text: "The statistical fit is on its way…" };
  ask("/api/infer", { world, teacher: walker, walks }).then(
    (answer) => {
      if (found !== mine) return;
      estimate = answer;
      draw();
    },
    (error) => {
      if (found !== mine) return;
      estimate = { text: `No statistical fit: ${error.message}` };
      draw();
    },
  );
}

function draw() {
  const isPlaying = found !== null;
  parts.setup.hidden = isPlaying;
  parts.play.hidden = !isPlaying;
  if (!isOpen) return;
  redraw();
  if (!isPlaying) return;
  parts.lesson.textContent = sentence();
  parts.done.disabled = !(drawn[0]?.length > 1);
  for (const button of [parts.done, parts.undo, parts.again]) button.hidden = found.is_over;
  const { rounds } = found;
  const isTeaching = rounds.length > 0;
  refill(parts.conclusions, isTeaching ? conclusions() : null);
  parts.earned.hidden = !isTeaching;
  if (isTeaching) drawRounds(parts.chart, rounds, rounds.length);
  drawGrid(parts.clues, { world: getWorld(), clues: clueMarks(cluesOf(rounds, getWorld().size ** 2)) });
  drawPlanes(parts.planes, {
    names: OBJECTS,
    reach,
    remaining: found.remaining,
    rounds,
    isPushing: getScene().walker.startsWith("line_search"),
  });
  refill(parts.table.lastChild, roundsTable(rounds));
}

function forget() {
  [found, reach, drawn, isRevealed] = [null, null, [], false];
}

export function openLearning() {
  isOpen = true;
  byId("panel-learn").classList.toggle("unavailable", Boolean(getScene().brought));
  if (!found && getScene().walks.length) begin(getScene().walks);
  draw();
}

export function closeLearning() {
  isOpen = false;
  redraw();
}

function drawSecrets() {
  refill(
    parts.secrets,
    PREFERENCES.map(({ name }, k) =>
      h(
        "label",
        { class: "chip" },
        h("input", {
          type: "checkbox",
          id: `secret-${k}`,
          checked: getScene().secrets[k],
          onchange: (event) =>
            setPart({ secrets: getScene().secrets.map((old, j) => (j === k ? event.target.checked : old)) }),
        }),
        h("span", {}, name),
      ),
    ),
  );
}

export function startLearning() {
  parts.secrets = h("div", { class: "chips", role: "group", "aria-label": "Your secret" });
  parts.teacher = h(
    "select",
    { id: "walk-teacher", "aria-label": "Teacher", onchange: () => setPart({ walker: parts.teacher.value }) },
    choices(ADAPTIVE, plainName, getScene().walker),
  );
  parts.alert = h("p", { class: "alert", role: "alert" });
  const deal = () => setPart({ secrets: PREFERENCES.map(({ distance }) => distance < 2 && Math.random() < 0.4) });
  parts.setup = h(
    "div",
    { class: "setup" },
    h(
      "p",
      { class: "verdict" },
      "Choose in secret what you avoid. I teach you, and try to find out. Your secret does not leave this page.",
    ),
    parts.secrets,
    h(
      "div",
      { class: "row" },
      h(
        "button",
        { type: "button", class: "main", id: "begin-walk", onclick: () => begin([]) },
        "Show me the first lesson",
      ),
      h("button", { type: "button", onclick: deal }, "Deal me a secret"),
      parts.teacher,
    ),
  );
  parts.lesson = h("p", { class: "verdict", id: "walk-lesson", role: "status" });
  parts.done = h(
    "button",
    { type: "button", class: "main", id: "walk-done", onclick: () => begin([...getScene().walks, drawn[0]]) },
    "This is my walk",
  );
  parts.undo = h("button", { type: "button", onclick: () => walk.undoStep() }, "Undo step");
  parts.again = h("button", { type: "button", onclick: () => walk.clear() }, "Watch again");
  const over = () => {
    forget();
    setPart({ walks: [] });
    draw();
  };
  parts.conclusions = h("div", { id: "conclusions" });
  parts.chart = s("svg", { id: "walk-chart", role: "img", class: "picture" });
  parts.planes = h("div", { class: "planes", id: "walk-planes" });
  parts.clues = s("svg", { id: "walk-clues", class: "picture clues", role: "img", "aria-label": "What I know about each cell" });
  parts.table = h(
    "details",
    {},
    h("summary", {}, "All rounds as a table"),
    h("div", { class: "inside", id: "walk-table" }),
  );
  parts.earned = h(
    "div",
    {},
    h(
      "div",
      { class: "pictures" },
      h("figure", { class: "panel chart" }, h("figcaption", {}, "What your walks earn"), parts.chart),
    ),
    parts.table,
  );
  parts.results = h(
    "div",
    {},
    h("h2", {}, "What I know so far"),
    h("p", { class: "hint" }, "✓ you went there. ✗ I showed it and you stayed away: for sure, or ✗? perhaps. ? I do not know."),
    parts.clues,
    parts.earned,
    h(
      "details",
      {},
      h("summary", {}, "For experts"),
      parts.planes,
      h(
        "p",
        { class: "hint" },
        "Grey: all that can be collected. Blue: what you may accept, as far as I know. Squares: my lessons; rings: your walks.",
      ),
    ),
  );
  parts.play = h(
    "div",
    {},
    parts.lesson,
    h(
      "div",
      { class: "row" },
      parts.done,
      parts.undo,
      parts.again,
      h("button", { type: "button", class: "quiet", onclick: over }, "Start over"),
    ),
    parts.conclusions,
    parts.results,
  );
  refill(
    byId("panel-learn"),
    h(
      "p",
      { class: "verdict only-brought" },
      "Walks are made in worlds of cells. Return to the painted world to play.",
    ),
    parts.setup,
    parts.alert,
    parts.play,
  );
  onChange((what) => {
    if (what === "secrets") {
      drawSecrets();
      if (isOpen) redraw();
    }
    if (what === "world") {
      forget();
      draw();
    }
  });
  onLook(() => isOpen && draw());
  drawSecrets();
  draw();
}
