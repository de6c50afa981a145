// Be the learner: the teacher shows demonstrations, the person walks under secret preferences, and the teacher says what
// it has concluded. The secrets never leave this page; the reveal compares them here.

import { ask } from "./api.js";
import { byId, chip, h, isAt, partsOf, plural, refill, shown, table } from "./dom.js";
import { clueMarks, cluesOf, sourceOf } from "./inference.js";
import { keepResult } from "./keeping.js";
import { Latest } from "./lessons.js";
import { look, onLook } from "./look.js";
import { Paths } from "./paths.js";
import { draw as drawGround, groundOf } from "./pictures.js";
import { ADAPTIVE, choices, plainName } from "./players.js";
import { drawPlanes, drawRounds } from "./plots.js";
import { roundsTable } from "./rounds.js";
import { PREFERENCES, getScene, getWorld, onChange, setPart } from "./scene.js";
import { redraw } from "./stage.js";
import { setCrowd } from "./walkers.js";
import { OBJECTS, avoidedCells, middle } from "./world.js";

const queue = new Latest({ pause: 0 });
const VERDICTS = { avoids: "you avoid it", accepts: "you accept it", unknown: "I cannot tell" };
const STATISTICS =
  "The statistics are infer_learner's: what your walks prove about a soft learner, with 95 % confidence.";
let parts = null,
  drawn = [],
  found = null,
  estimate = null,
  reach = null,
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
    const paths =
      found?.lesson && !drawn.length && isAt("learn") ? found.lesson.paths.flatMap((path) => [path, path]) : [];
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
    const { rounds, snippet, is_over: isOver, reason } = found;
    keepResult("Your walks", { kind: "adapt", request, rounds, ended: isOver ? reason : "the rounds go on", snippet });
  } catch (error) {
    if (error.name !== "AbortError") parts.alert.textContent = error.message;
  }
  draw();
}

const begin = (walks) => queue.run((signal) => adapt(walks, signal));

function sentence() {
  const { rounds, lesson, reason, is_over: isOver } = found;
  const earned = rounds.length ? `Your walk earned ${shown(rounds.at(-1).reward)}. ` : "";
  if (isOver) return `${earned}After ${plural(rounds.length, "round")} I have no more to show: ${reason}.`;
  const next = `Lesson ${rounds.length + 1}: ${reason}. Followed exactly it earns ${shown(lesson.reward)}.`;
  return `${earned}${next} Follow it as closely as your secret allows.`;
}

// What the teacher concludes, and, after the reveal, whether it is right.
function conclusions() {
  // To avoid cells within a distance is to avoid the nearer ones too.
  const truth = PREFERENCES.map(({ colour, distance }) =>
    secrets().some((secret) => secret.colour === colour && secret.distance >= distance),
  );
  const judged = found.conclusions.filter((one) => one.verdict !== "unknown");
  const isRight = (one, k) => (one.verdict === "avoids") === truth[k];
  const hits = found.conclusions.filter((one, k) => judged.includes(one) && isRight(one, k)).length;
  const verdict = (one, k) => {
    const mark = judged.includes(one) ? (isRight(one, k) ? " ✓" : " ✗") : "";
    return h(`td.${mark === " ✗" ? "wrong" : "right"}`, (truth[k] ? "you do avoid it" : "you do not mind") + mark);
  };
  const fitted = isRevealed ? estimate?.verdicts : null;
  // Some conclusions have no counts of their own.
  const because = (k) => {
    const source = sourceOf(found.conclusions, k);
    return source ? `: follows from “${source.name.split(" ").slice(1).join(" ")}”` : "";
  };
  const rows = found.conclusions.map((one, k) => [
    one.name,
    shown(one.shown, 1),
    shown(one.done, 1),
    VERDICTS[one.verdict] + because(k),
    ...(fitted ? [VERDICTS[fitted[k]]] : []),
    ...(isRevealed ? [verdict(one, k)] : []),
  ]);
  const more = [...(fitted ? ["by statistics"] : []), ...(isRevealed ? ["The truth"] : [])];
  const reveal = () => {
    isRevealed = true;
    infer();
    draw();
  };
  const score = `I was right about ${hits} of the ${judged.length} that I dared to judge.`;
  const fit = estimate ? h("span#estimate.hint", ` ${estimate.verdicts ? STATISTICS : estimate.text}`) : null;
  return [
    h("h2", "What I conclude about you"),
    table(["Cells", "shown", "you went", "I conclude", ...more], rows),
    isRevealed
      ? h("p#self-score.verdict", score, fit)
      : h("button#reveal.main", { onclick: reveal }, "Reveal my secret"),
  ];
}

// The statistical estimate takes longer than the rounds, so it is asked for at the end only.
function infer() {
  const { world, walker, walks } = getScene();
  const mine = found;
  const arrived = (answer) => {
    if (found !== mine) return;
    estimate = answer;
    draw();
  };
  estimate = { text: "The statistical fit is on its way…" };
  ask("/api/infer", { world, teacher: walker, walks }).then(arrived, (error) =>
    arrived({ text: `No statistical fit: ${error.message}` }),
  );
}

function draw() {
  const isPlaying = found !== null;
  parts.setup.hidden = isPlaying;
  parts.play.hidden = !isPlaying;
  if (!isAt("learn")) return;
  redraw();
  if (!isPlaying) return;
  const { rounds, remaining, is_over: isOver } = found;
  const world = getWorld();
  parts.lesson.textContent = sentence();
  parts.done.disabled = !(drawn[0]?.length > 1);
  for (const button of [parts.done, parts.undo, parts.again]) button.hidden = isOver;
  refill(parts.conclusions, rounds.length ? conclusions() : null);
  parts.earned.hidden = !rounds.length;
  if (rounds.length) drawRounds(parts.chart, rounds, rounds.length);
  drawGround(parts.clues, groundOf({ world }), { clues: clueMarks(cluesOf(rounds, world.size ** 2)) });
  const isPushing = getScene().walker.startsWith("line_search");
  drawPlanes(parts.planes, { names: OBJECTS, reach, remaining, rounds, isPushing });
  refill(parts.table, roundsTable(rounds));
}

function forget() {
  [found, reach, drawn, isRevealed] = [null, null, [], false];
  draw();
}

export function openLearning() {
  byId("panel-learn").classList.toggle("unavailable", Boolean(getScene().brought));
  if (!found && getScene().walks.length) begin(getScene().walks);
  draw();
}

function drawSecrets() {
  const tick = (k) => (isOn) => setPart({ secrets: getScene().secrets.map((old, j) => (j === k ? isOn : old)) });
  refill(
    parts.secrets,
    PREFERENCES.map(({ name }, k) => chip(`secret-${k}`, name, getScene().secrets[k], tick(k))),
  );
}

export function startLearning() {
  parts = partsOf("panel-learn", {
    begin: () => begin([]),
    deal: () => setPart({ secrets: PREFERENCES.map(({ distance }) => distance < 2 && Math.random() < 0.4) }),
    teacher: () => setPart({ walker: parts.teacher.value }),
    done: () => begin([...getScene().walks, drawn[0]]),
    undo: () => walk.undoStep(),
    again: () => walk.clear(),
    over: () => {
      setPart({ walks: [] });
      forget();
    },
  });
  refill(parts.teacher, choices(ADAPTIVE, plainName, getScene().walker));
  onChange((what) => {
    if (what === "secrets") {
      drawSecrets();
      if (isAt("learn")) redraw();
    }
    if (what === "world") forget();
  });
  onLook(() => isAt("learn") && draw());
  drawSecrets();
  draw();
}
