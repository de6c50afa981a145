// The rounds of an adaptive teacher as a film: play, pause, and step through what it finds out.

import { ask } from "./api.js";
import { table } from "./cards.js";
import { byId, h, plural, refill, s, shown } from "./dom.js";
import { Latest, lessonOf, taught } from "./lessons.js";
import { isStill, onLook } from "./look.js";
import { panelFigure, scalesOf } from "./panels.js";
import { ADAPTIVE, paperName, plainName } from "./players.js";
import { drawPlane, drawRounds } from "./plots.js";
import { keepResult } from "./results.js";
import { asked, getScene, onChange, pathTo, setPart, viewOf } from "./scene.js";
import { OBJECTS } from "./world.js";

const FRAME = 1100;
const queue = new Latest();
const parts = {};
let film = { request: null, view: null, rounds: [], reach: null, ended: null, isCurrent: false },
  shownRound = 1,
  timer = null,
  isOpen = false,
  isDirty = true;

const pairsOf = (count) => {
  const all = [];
  for (let a = 0; a < count; a++) for (let b = a + 1; b < count; b++) all.push([a, b]);
  return all;
};

// Draw the planes of an element, one for each pair of reward features.
export function drawPlanes(element, { names, reach, remaining, rounds, isPushing }) {
  const pairs = reach?.reachable.length ? pairsOf(names.length) : [];
  if (element.children.length !== pairs.length) {
    refill(
      element,
      pairs.map(([a, b], plane) =>
        h(
          "figure",
          { class: "panel" },
          h("figcaption", {}, `${names[a]} and ${names[b]}`),
          s("svg", { id: `${element.id}-${plane}`, role: "img", class: "picture" }),
        ),
      ),
    );
  }
  pairs.forEach((pair, plane) =>
    drawPlane(byId(`${element.id}-${plane}`), {
      pair,
      names,
      reach,
      plane,
      remaining: remaining?.[plane],
      rounds,
      isPushing,
    }),
  );
}

export const roundsTable = (played) =>
  table(
    ["Round", "lesson", "learner", "bound", "why this lesson"],
    played.map((round, k) =>
      h(
        "tr",
        {},
        [String(k + 1), shown(round.lesson_reward, 3), shown(round.reward, 3), shown(round.bound, 3), round.reason].map(
          (text) => h("td", {}, text),
        ),
      ),
    ),
  );

// The teacher's bound is valid for hard learners only.
function boundSentence(bound) {
  if (bound === null) return ".";
  if (film.request.learner.model === "hard") return `; no lesson earns more than ${shown(bound)}.`;
  return `; its bound of ${shown(bound)} would hold for a learner that never breaks its rules.`;
}

function draw() {
  const { rounds, request, view, reach, ended } = film;
  parts.film.hidden = !rounds.length;
  parts.working.hidden = rounds.length > 0 || parts.alert.textContent !== "";
  if (!rounds.length) return;
  const number = Math.max(1, Math.min(rounds.length, shownRound));
  const round = rounds[number - 1];
  const isPushing = request.teacher.startsWith("line_search");
  parts.slider.max = rounds.length;
  parts.slider.value = number;
  parts.count.textContent = `${number} of ${rounds.length}`;
  const isLast = ended !== null && number === rounds.length;
  const ending = isLast ? ` Ended after ${plural(number, "round")}: ${ended}.` : "";
  refill(
    parts.reason,
    h(
      "p",
      { class: "verdict" },
      `Round ${number}: the learner earns `,
      h("strong", {}, shown(round.reward)),
      boundSentence(round.bound),
    ),
    h("p", { class: "hint" }, `Why this lesson: ${round.reason}.${ending}`),
  );
  const scales = scalesOf(rounds);
  refill(
    parts.pictures,
    ["shown", "done"].map((kind) => panelFigure(kind, { view, round, scales, about: `round ${number}` })),
    h("figure", { class: "panel chart" }, h("figcaption", {}, "What the learner earns"), parts.chart),
  );
  drawRounds(parts.chart, rounds, number);
  const names = view.about?.reward_names ?? OBJECTS;
  if (reach)
    drawPlanes(parts.planes, { names, reach, remaining: round.remaining, rounds: rounds.slice(0, number), isPushing });
  const hatched = reach?.accepted ? " Hatched: what it really accepts, which the teacher does not know." : "";
  parts.hint.textContent = reach?.reachable.length
    ? `Grey: all that can be collected. Blue: what the learner may accept, as far as the teacher knows.${hatched}` +
      ` Squares: lessons; rings: what the learner did${isPushing ? "; arrows: pushes." : "."}`
    : reach
      ? "Planes are drawn for two or three kinds of reward."
      : "";
  if (parts.table.open) refill(parts.table.lastChild, roundsTable(rounds));
}

function select(number) {
  shownRound = Math.max(1, Math.min(film.rounds.length, number));
  draw();
}

function pause() {
  clearInterval(timer);
  timer = null;
  parts.play.textContent = "Play";
}

function play() {
  if (timer) {
    pause();
    return;
  }
  if (shownRound >= film.rounds.length) shownRound = 1;
  draw();
  parts.play.textContent = "Pause";
  timer = setInterval(() => {
    if (shownRound < film.rounds.length) select(shownRound + 1);
    else if (film.ended !== null) pause();
  }, FRAME);
}

async function run(request, signal, release) {
  const next = { request, view: viewOf(request), rounds: [], reach: null, ended: null };
  const isMine = () => JSON.stringify(film.request) === JSON.stringify(request);
  const reaching = { ...request };
  delete reaching.teacher;
  delete reaching.max_rounds;
  const name = `Rounds: ${plainName(request.teacher)}`;
  try {
    ask(pathTo("reach", request), reaching, signal).then(
      (found) => {
        next.reach = found;
        if (film === next) draw();
      },
      () => {},
    );
    const found = await taught(
      request,
      (rounds) => {
        if (film !== next) {
          film = next;
          shownRound = 1;
          parts.panel.classList.remove("waiting");
          if (!isStill() && !timer) setTimeout(() => film === next && !timer && play(), 300);
        }
        next.rounds = rounds;
        release();
        if (isStill()) shownRound = rounds.length;
        draw();
      },
      signal,
    );
    next.ended = found.ended;
    keepResult(name, found);
    draw();
  } catch (error) {
    if (error.name === "AbortError" && !next.isStopped) return;
    next.ended = error.name === "AbortError" ? "stopped by you" : error.message;
    if (next.rounds.length)
      keepResult(name, { kind: "rounds", request, rounds: next.rounds, ended: next.ended, snippet: null });
    if (film === next || isMine()) parts.alert.textContent = next.rounds.length ? "" : next.ended;
    parts.panel.classList.remove("waiting");
    if (!next.rounds.length) film = next;
    draw();
  }
}

function refresh() {
  if (!isOpen) {
    isDirty = true;
    return;
  }
  isDirty = false;
  const { adaptive, max_rounds } = getScene();
  const request = lessonOf(asked(), adaptive, max_rounds);
  if (JSON.stringify(request) === JSON.stringify(film.request)) return;
  pause();
  parts.alert.textContent = "";
  parts.panel.classList.add("waiting");
  queue.run((signal, release) => run(request, signal, release));
}

// Rounds from a file, as if they had just been taught.
export function showFilm(request, rounds, ended) {
  film = { request, view: viewOf(request), rounds, reach: null, ended };
  isDirty = false;
  shownRound = 1;
  ask(pathTo("reach", request), {
    ...(request.world ? { world: request.world } : { domain: request.domain }),
    learner: request.learner,
  }).then(
    (found) => {
      film.reach = found;
      draw();
    },
    () => {},
  );
  draw();
}

export function openRounds() {
  isOpen = true;
  if (isDirty) refresh();
  else draw();
}

export function closeRounds() {
  isOpen = false;
  pause();
}

export function startRounds() {
  parts.panel = byId("panel-rounds");
  parts.choice = h(
    "select",
    { id: "adaptive", "aria-label": "Teacher", onchange: () => setPart({ adaptive: parts.choice.value }) },
    ADAPTIVE.map((name) =>
      h("option", { value: name, selected: name === getScene().adaptive }, `${plainName(name)} (${paperName(name)})`),
    ),
  );
  parts.alert = h("p", { class: "alert", role: "alert" });
  parts.working = h("p", { class: "hint", role: "status" }, "The first lesson is on its way…");
  parts.play = h("button", { type: "button", class: "main", id: "play", onclick: play }, "Play");
  parts.slider = h("input", { type: "range", id: "round", min: 1, max: 1, value: 1, "aria-label": "Round" });
  parts.slider.addEventListener("input", () => {
    pause();
    select(parts.slider.valueAsNumber);
  });
  parts.count = h("output", { for: "round" });
  parts.reason = h("div", { id: "round-reason" });
  parts.pictures = h("div", { class: "pictures" });
  parts.chart = s("svg", { id: "rounds-chart", role: "img", class: "picture" });
  parts.planes = h("div", { class: "planes", id: "planes" });
  parts.hint = h("p", { class: "hint" });
  parts.table = h(
    "details",
    {},
    h("summary", {}, "All rounds as a table"),
    h("div", { class: "inside", id: "rounds-table" }),
  );
  parts.table.addEventListener("toggle", () => draw());
  parts.film = h(
    "div",
    { id: "film", hidden: true },
    h("div", { class: "row player" }, parts.play, parts.slider, parts.count),
    parts.reason,
    parts.pictures,
    parts.planes,
    parts.hint,
    parts.table,
  );
  refill(
    parts.panel,
    h(
      "div",
      { class: "bar" },
      h(
        "p",
        { class: "verdict" },
        "A teacher who knows nothing about the learner finds out what it accepts, lesson by lesson.",
      ),
      parts.choice,
    ),
    parts.alert,
    parts.working,
    parts.film,
  );
  onChange((what) => {
    if (["world", "learner", "adaptive", "max_rounds"].includes(what)) refresh();
  });
  onLook(() => isOpen && draw());
}
