// The sixth tab: be the learner. One is shown demonstrations, walks as one likes, and the teacher draws its conclusions.

import { ask } from "./api.js";
import { byId, h, plural, shown, tell } from "./dom.js";
import { ADAPTIVE, options } from "./lessons.js";
import { Paths } from "./paths.js";
import { drawRounds } from "./plots.js";
import { allPreferences, getWorld, keepResult, onChange } from "./state.js";
import { drawPlanes, fillRounds } from "./rounds.js";
import { redraw } from "./stage.js";
import { avoidedCells, preferenceName } from "./world.js";
import { work } from "./work.js";

const STEP_MILLISECONDS = 90;
const NOTHING = { model: "soft", preferences: [] };

// Of the run: its number, the world and the teacher it began with, the walks so far, and what the server made of them.
let run = 0,
  world = null,
  teacher = null,
  walks = [],
  found = null,
  reach = null;
// The demonstration that is being shown: which, and how far.
let showing = null,
  timer = null;

const walk = new Paths(show, { most: 1 });

const secrets = () => allPreferences().filter((_, k) => byId(`secret-${k}`).checked);

export const walkMode = {
  hint:
    "First watch what the teacher shows. Then walk: drag from the start, tap a cell, or use the arrow keys; " +
    "space stays, Backspace takes back.",
  layers: () => {
    const avoided = avoidedCells(getWorld(), secrets());
    if (showing)
      return {
        avoided,
        paths: found.lesson.paths.slice(0, showing.number + 1),
        walker: found.lesson.paths[showing.number][showing.step],
      };
    // The walk comes first, in the first colour and unbroken.
    if (walk.current) return { avoided, paths: [walk.current] };
    return { avoided, paths: found?.lesson ? [[getWorld().start], ...found.lesson.paths] : [] };
  },
  ...walk.mode,
  press: (cell) => {
    stopShowing();
    walk.mode.press(cell);
  },
  key: (event) => {
    stopShowing();
    return walk.mode.key(event);
  },
};

function stopShowing() {
  clearInterval(timer);
  showing = null;
}

function watch() {
  stopShowing();
  walk.clear();
  if (!found?.lesson || matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  // On a narrow page the grid may be out of sight.
  byId("grid").scrollIntoView({ block: "nearest" });
  showing = { number: 0, step: 0 };
  timer = setInterval(() => {
    const { number, step } = showing;
    // A demonstration that stays where it is has nothing more to show.
    const path = found.lesson.paths[number];
    const isOver = path.slice(step).every((cell) => cell === path[step]);
    if (!isOver) showing = { number, step: step + 1 };
    else if (number + 1 < found.lesson.paths.length) showing = { number: number + 1, step: 0 };
    else stopShowing();
    redraw();
  }, STEP_MILLISECONDS);
  redraw();
}

function show() {
  byId("walk-done").disabled = !walk.current || !found?.lesson;
  redraw();
}

// The teacher's next lesson, after these walks.
async function adapt(next, signal) {
  const request = { world, teacher, walks: next };
  const mine = run;
  const [answer, polygons] = await Promise.all([
    ask("/api/adapt", request, signal),
    reach ?? ask("/api/reach", { world, learner: NOTHING }, signal),
  ]);
  if (mine !== run) return;
  [walks, found, reach] = [next, answer, polygons];
  byId("walking").hidden = false;
  keepResult("Your walks", {
    kind: "adapt",
    request,
    rounds: found.rounds,
    ended: found.is_over ? found.reason : "the rounds go on",
    snippet: found.snippet,
  });
  draw();
  watch();
}

function draw() {
  const { rounds, lesson, reason, is_over: isOver } = found;
  const last = rounds.at(-1);
  const earned = last
    ? `Your walk is worth ${shown(last.reward)} to the teacher` +
      (last.bound === null
        ? "; your walks contradict each other as compromises, so it can be sure of nothing. "
        : `; if such walks are the most you are willing to do, it cannot get more than ${shown(last.bound)}. `)
    : "";
  byId("walk-lesson").textContent = isOver
    ? `${earned}After ${plural(rounds.length, "round")} the teacher ends: ${reason}.`
    : `${earned}Lesson ${rounds.length + 1}: ${reason}. Done its way it would be worth ${shown(lesson.reward)}. ` +
      "Walk as far along as you like.";
  for (const id of ["watch", "walk-undo", "walk-clear", "walk-done"]) byId(id).hidden = isOver;
  byId("walk-chart").closest("figure").hidden = !rounds.length;
  if (rounds.length) drawRounds(byId("walk-chart"), rounds, rounds.length);
  drawPlanes(byId("walk-planes"), {
    reach,
    remaining: found.remaining,
    rounds,
    isPushing: teacher === "line_search",
  });
  fillRounds(byId("walk-table"), rounds);
}

function forget() {
  run += 1;
  stopShowing();
  [walks, found, reach] = [[], null, null];
  byId("walking").hidden = true;
  byId("walk-planes").replaceChildren();
  walk.clear();
}

export function startWalking() {
  byId("walk-teacher").append(...options(ADAPTIVE));
  byId("secrets").append(
    ...allPreferences().map(({ colour, distance }, k) =>
      h(
        "label",
        {},
        h("input", { type: "checkbox", id: `secret-${k}`, onchange: redraw }),
        preferenceName(colour, distance),
      ),
    ),
  );
  byId("walk-form").addEventListener("submit", (event) => {
    event.preventDefault();
    work({ button: byId("begin-walk"), alert: "walk-alert" }, (signal) => {
      forget();
      [world, teacher] = [getWorld(), byId("walk-teacher").value];
      return adapt([], signal);
    });
  });
  byId("walk-done").addEventListener("click", (event) =>
    work({ button: event.currentTarget, alert: "walk-alert" }, (signal) => adapt([...walks, walk.current], signal)),
  );
  byId("watch").addEventListener("click", watch);
  byId("walk-undo").addEventListener("click", () => walk.undoStep());
  byId("walk-clear").addEventListener("click", () => walk.clear());
  onChange((what) => {
    if (what !== "world" || getWorld() === world) return;
    if (found) tell("The world has changed: the lessons begin again.");
    forget();
  });
}
