// The rounds of an adaptive teacher, as a detective's map: a guess, the learner's answer, and what follows from it,
// cell by cell. The reader may bet on each answer. What an expert wants to see is below.

import { ask } from "./api.js";
import { table } from "./cards.js";
import { byId, h, percent, plural, refill, s, shown } from "./dom.js";
import { GOALS, clueMarks, clueSentence, cluesOf, goalOf } from "./detective.js";
import { drawGrid } from "./grid.js";
import { Latest, awareRequest, lessonOf, possible, shareOf, taught } from "./lessons.js";
import { look, onLook } from "./look.js";
import { panelFigure, scalesOf } from "./panels.js";
import { ADAPTIVE, choices, paperName, plainName } from "./players.js";
import { drawPlane, drawRounds } from "./plots.js";
import { keepResult } from "./results.js";
import { asked, getScene, onChange, pathTo, setPart, viewOf } from "./scene.js";
import { OBJECTS } from "./world.js";

const FRAME = 1100;
const queue = new Latest();
const parts = {};
let film = { request: null, view: null, rounds: [], reach: null, ended: null, isCurrent: false },
  shownRound = 1,
  isAnswered = false,
  bets = [],
  most = null,
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

// The map after this round, or with its guess alone.
function drawClues(round, number) {
  const { view, rounds } = film;
  parts.clues.hidden = !view.world;
  if (!view.world) return "";
  const count = view.world.size ** 2;
  const before = cluesOf(rounds.slice(0, number - 1), count);
  const clues = isAnswered ? cluesOf(rounds.slice(0, number), count) : before;
  const [walk = []] = isAnswered ? (round.done ?? []) : [];
  drawGrid(parts.clues, {
    world: view.world,
    clues: clueMarks(clues),
    routes: { paths: round.shown ?? [], colour: look().shown },
    paths: walk.length ? [walk] : [],
    pathColour: look().done,
    figures: [{ kind: "pip", at: walk.at(-1) ?? view.world.start, mood: isAnswered && goalOf(round) === "nowhere" ? "no" : "calm" }],
  });
  const counted = [clues.filter((one) => one.accepted).length, clues.filter((one) => !one.accepted && one.suspected).length];
  const words = `The guide's map after ${plural(isAnswered ? number : number - 1, "lesson")}: ${counted[0]} cells accepted, ${counted[1]} under suspicion, ${count - counted[0] - counted[1]} not known`;
  parts.clues.setAttribute("aria-label", words);
  parts.clues.setAttribute("role", "img");
  return isAnswered ? clueSentence(round, clues, before) : "This is what I show, in orange. Where will Pip go?";
}

// What the last round has come to, against a teacher who knows everything.
function ending(round, number) {
  if (film.ended === null || number < film.rounds.length || !isAnswered) return "";
  const share = shareOf(round.reward, most);
  const after = `After ${plural(number, "lesson")} it earns ${shown(round.reward)} points`;
  if (share === null) return `${after}.`;
  return `${after}: ${percent(share)} of ${shown(most)}, and even a guide who knows everything about it cannot get more than that.`;
}

function drawBets(round, number) {
  const mine = bets[number - 1];
  const right = bets.filter((bet, k) => bet && k < film.rounds.length && bet === goalOf(film.rounds[k])).length;
  const made = bets.filter(Boolean).length;
  const place = (goal) => (goal === "nowhere" ? "nowhere in particular" : `to the ${goal}`);
  parts.bets.hidden = !film.view.world;
  if (isAnswered) {
    const verdict = mine ? `You bet: ${place(mine)}. ${mine === goalOf(round) ? "Right" : `It went ${place(goalOf(round))}`}. ${right} of ${made} bets right.` : "";
    refill(parts.bets, h("span", { class: "hint" }, verdict));
    return;
  }
  const bet = (goal) => () => {
    bets[number - 1] = goal;
    step();
  };
  refill(parts.bets, h("span", {}, "Your bet:"), GOALS.map((goal) => h("button", { type: "button", onclick: bet(goal) }, place(goal))));
}

function draw() {
  const { rounds, request, view, reach, ended } = film;
  parts.film.hidden = !rounds.length;
  parts.working.hidden = rounds.length > 0 || parts.alert.textContent !== "";
  if (!rounds.length) return;
  const number = Math.max(1, Math.min(rounds.length, shownRound));
  const round = rounds[number - 1];
  parts.slider.max = rounds.length;
  parts.slider.value = number;
  parts.count.textContent = `${number} of ${rounds.length}`;
  parts.next.disabled = isAnswered && number === rounds.length;
  const words = drawClues(round, number);
  refill(
    parts.told,
    h("p", { class: "verdict" }, h("strong", {}, `Lesson ${number}. `), words),
    h("p", { class: "verdict", id: "round-ending" }, ending(round, number)),
  );
  drawBets(round, number);
  if (parts.experts.open || !view.world) drawExperts(round, number, request, view, reach, ended);
}

function drawExperts(round, number, request, view, reach, ended) {
  const { rounds } = film;
  const isPushing = request.teacher.startsWith("line_search");
  const isLast = ended !== null && number === rounds.length;
  const last = isLast ? ` Ended after ${plural(number, "round")}: ${ended}.` : "";
  refill(
    parts.reason,
    h("p", {}, `Round ${number}: the learner earns `, h("strong", {}, shown(round.reward)), boundSentence(round.bound)),
    h("p", { class: "hint" }, `Why this lesson: ${round.reason}.${last}`),
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
  isAnswered = true;
  draw();
}

// From a guess to its answer, and from an answer to the next guess.
function step() {
  if (!isAnswered) isAnswered = true;
  else if (shownRound < film.rounds.length) [shownRound, isAnswered] = [shownRound + 1, !film.view.world];
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
  if (shownRound >= film.rounds.length && isAnswered) [shownRound, isAnswered] = [1, false];
  draw();
  parts.play.textContent = "Pause";
  timer = setInterval(() => {
    if (shownRound < film.rounds.length || !isAnswered) step();
    else if (film.ended !== null) pause();
  }, FRAME);
}

// The most that any lesson can get, for the last sentence.
function findMost(request) {
  const { teacher, max_rounds, ...scene } = request;
  most = null;
  taught(awareRequest(scene), (rounds) => {
    if (film.request !== request) return;
    most = possible(rounds.at(-1));
    draw();
  }).catch(() => {});
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
          [shownRound, isAnswered, bets] = [1, !next.view.world, []];
          parts.panel.classList.remove("waiting");
          findMost(request);
        }
        next.rounds = rounds;
        release();
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
  if (getScene().brought?.isWeighed === false) return;
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
  [shownRound, isAnswered, bets] = [1, !film.view.world, []];
  findMost(request);
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
    choices(ADAPTIVE, (name) => `${plainName(name)} (${paperName(name)})`, getScene().adaptive),
  );
  parts.alert = h("p", { class: "alert", role: "alert" });
  parts.working = h("p", { class: "hint", role: "status" }, "The first lesson is on its way…");
  parts.play = h("button", { type: "button", id: "play", onclick: play }, "Play");
  parts.slider = h("input", { type: "range", id: "round", min: 1, max: 1, value: 1, "aria-label": "Round" });
  parts.slider.addEventListener("input", () => {
    pause();
    select(parts.slider.valueAsNumber);
  });
  parts.count = h("output", { for: "round" });
  parts.next = h("button", { type: "button", class: "main", id: "round-next", onclick: () => (pause(), step()) }, "Next");
  parts.clues = s("svg", { id: "clues", class: "picture" });
  parts.told = h("div", { id: "round-told", role: "status" });
  parts.bets = h("div", { class: "row", id: "bets" });
  parts.reason = h("div", { id: "round-reason" });
  parts.pictures = h("div", { class: "pictures" });
  parts.chart = s("svg", { id: "rounds-chart", role: "img", class: "picture" });
  parts.planes = h("div", { class: "planes", id: "planes" });
  parts.hint = h("p", { class: "hint" });
  parts.table = h("details", {}, h("summary", {}, "All rounds as a table"), h("div", { class: "inside", id: "rounds-table" }));
  parts.experts = h(
    "details",
    { id: "experts" },
    h("summary", {}, "For experts"),
    h("div", { class: "inside" }, parts.choice, parts.reason, parts.pictures, parts.planes, parts.hint, parts.table),
  );
  for (const box of [parts.table, parts.experts]) box.addEventListener("toggle", () => draw());
  parts.film = h(
    "div",
    { id: "film", hidden: true },
    h("div", { class: "row player" }, parts.next, parts.play, parts.slider, parts.count),
    h("div", { class: "detective" }, parts.clues, h("div", { class: "clue-text" }, parts.told, parts.bets, h("p", { class: "hint" }, "✓ Pip went there, so it accepts the cell. ✗ it was shown the cell and stayed away: for sure, or ✗? perhaps. ? not known. Orange: shown; blue: one walk of Pip."))),
    parts.experts,
  );
  refill(
    parts.panel,
    h("p", { class: "verdict" }, "A guide who knows nothing about Pip finds out what it minds, lesson by lesson."),
    parts.alert,
    parts.working,
    parts.film,
  );
  onChange((what) => {
    if (["world", "learner", "adaptive", "max_rounds"].includes(what)) refresh();
  });
  onLook(() => isOpen && draw());
}
