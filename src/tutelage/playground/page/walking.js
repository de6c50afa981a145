// The sixth tab: be the learner. The teacher shows demonstrations, the person walks, and the teacher adapts.

import { ask } from "./api.js";
import { byId, h, plural, shown, tell } from "./dom.js";
import { ADAPTIVE, options } from "./lessons.js";
import { Paths } from "./paths.js";
import { drawRounds } from "./plots.js";
import { allPreferences, getWorld, keepResult, onChange } from "./state.js";
import { drawPlanes, fillRounds } from "./rounds.js";
import { redraw } from "./stage.js";
import { avoidedCells } from "./world.js";
import { work } from "./work.js";

const STEP_MILLISECONDS = 90;
const NOTHING = { model: "soft", preferences: [] };

// The run: its number, its world and teacher, the walks so far, and the server's answer to them.
let run = 0,
  world = null,
  teacher = null,
  walks = [],
  found = null,
  reach = null;
// The demonstration that is being animated: its number and the current step.
let showing = null,
  timer = null;

const walk = new Paths(show, { most: 1 });

const secrets = () => allPreferences().filter((_, k) => byId(`secret-${k}`).checked);

export const walkMode = {
  hint:
    "First watch the demonstrations. Then walk: drag from the start, tap a cell, or use the arrow keys. " +
    "Space: stay. Backspace: undo.",
  layers: () => {
    const avoided = avoidedCells(getWorld(), secrets());
    if (showing)
      return {
        avoided,
        paths: found.lesson.paths.slice(0, showing.number + 1),
        walker: found.lesson.paths[showing.number][showing.step],
      };
    // The first path has the first colour and a solid line: that is the walk's.
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
  // On a narrow screen the grid may be scrolled out of view.
  byId("grid").scrollIntoView({ block: "nearest" });
  showing = { number: 0, step: 0 };
  timer = setInterval(() => {
    const { number, step } = showing;
    // The animation of a demonstration ends when only staying is left.
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

// Ask for the next lesson after these walks.
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
    ? `Your walk earns the teacher ${shown(last.reward)}` +
      (last.bound === null
        ? "; no single set of preferences explains all your walks, so the teacher knows no bound. "
        : `; if you follow lessons as closely as you are willing to, it can earn at most ${shown(last.bound)}. `)
    : "";
  byId("walk-lesson").textContent = isOver
    ? `${earned}After ${plural(rounds.length, "round")} the teacher ends: ${reason}.`
    : `${earned}Lesson ${rounds.length + 1}: ${reason}. Followed exactly, it earns ${shown(lesson.reward)}. ` +
      "Follow it as closely as your preferences allow.";
  for (const id of ["watch", "walk-undo", "walk-clear", "walk-done"]) byId(id).hidden = isOver;
  byId("walk-chart").closest("figure").hidden = !rounds.length;
  if (rounds.length) drawRounds(byId("walk-chart"), rounds, rounds.length);
  drawPlanes(byId("walk-planes"), {
    reach,
    remaining: found.remaining,
    rounds,
    isPushing: teacher.startsWith("line_search"),
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
    ...allPreferences().map(({ name }, k) =>
      h("label", {}, h("input", { type: "checkbox", id: `secret-${k}`, onchange: redraw }), name),
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
    if (found) tell("The world has changed: the lessons start again.");
    forget();
  });
}
