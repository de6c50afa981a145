// The rounds of an adaptive teacher, as a detective's map: a guess, the learner's answer, and what follows from it,
// cell by cell. The reader may bet on each answer. What an expert wants to see is below.

import { ask } from "./api.js";
import { h, isAt, partsOf, percentOf, plural, reaches, refill, s, shown, table } from "./dom.js";
import { GOALS, clueMarks, clueSentence, cluesOf, deedSentence, goalOf, objectsOf, walksTo } from "./inference.js";
import { keepResult } from "./keeping.js";
import { Latest, awareRequest, lessonOf, mostOf, shareOf, taught } from "./lessons.js";
import { look, onLook } from "./look.js";
import { panelFigure, scalesOf } from "./panels.js";
import { draw as drawGround, groundOf } from "./pictures.js";
import { ADAPTIVE, choices, paperName, plainName } from "./players.js";
import { drawPlanes, drawRounds } from "./plots.js";
import { WEIGH_FIRST, asked, getScene, isUnweighed, onChange, pathTo, setPart, viewOf } from "./scene.js";
import { OBJECTS } from "./world.js";

const FRAME = 1100;
const queue = new Latest();
const INTRODUCTIONS = {
  world: "A guide knows nothing about Pip, the learner. Each answer shows more of what Pip avoids.",
  domain: "A teacher knows nothing about the learner. Each answer shows more of what it avoids.",
};
const noFilm = { request: null, view: null, rounds: [], reach: null, ended: null, most: null };
let film = noFilm,
  shownRound = 1,
  isAnswered = false,
  bets = [],
  timer = null,
  parts = null,
  isDirty = true;

export const roundsTable = (played) =>
  table(
    ["Round", "lesson", "learner", "bound", "why this lesson"],
    played.map(({ lesson_reward, reward, bound, reason }, k) => [
      String(k + 1),
      ...[lesson_reward, reward, bound].map((value) => shown(value, 3)),
      reason,
    ]),
  );

// The teacher's bound is valid for hard learners only.
function boundSentence(bound) {
  if (bound === null) return ".";
  if (film.request.learner.model === "hard") return `; no lesson earns more than ${shown(bound)}.`;
  return `; its bound of ${shown(bound)} would hold for a learner that never breaks its rules.`;
}

// The map after this round, or with its guess alone: a line to each object that is shown, and one to each that is taken.
function drawClues(round, number) {
  const { view, rounds } = film;
  const { world, about } = view;
  if (!world) return deedSentence(round, about.reward_names);
  const count = world.size ** 2;
  const before = cluesOf(rounds.slice(0, number - 1), count);
  const clues = isAnswered ? cluesOf(rounds.slice(0, number), count) : before;
  const { shown: objects, taken } = objectsOf(round);
  const linesTo = (names, walks, style) => walksTo(world, walks ?? [], names).map((states) => ({ states, ...style }));
  const walks = isAnswered ? linesTo(taken, round.done, { colour: look().done, dashes: "0.22 0.18" }) : [];
  const ground = groundOf(view);
  const [x, y] = ground.places[walks.at(-1)?.states.at(-1) ?? world.start];
  const mood = isAnswered && goalOf(round) === "nowhere" ? "no" : "calm";
  drawGround(parts.clues, ground, {
    clues: clueMarks(clues),
    lines: [...linesTo(objects, round.shown, { colour: look().shown }), ...walks],
    figures: [{ kind: "pip", at: [x + 0.2, y + 0.2], mood, scale: 0.75 }],
  });
  const accepted = clues.filter((one) => one.accepted).length;
  const suspected = clues.filter((one) => !one.accepted && one.suspected).length;
  const after = plural(isAnswered ? number : number - 1, "lesson");
  const known = `${accepted} cells accepted, ${suspected} under suspicion, ${count - accepted - suspected} not known`;
  parts.clues.setAttribute("aria-label", `The guide's map after ${after}: ${known}`);
  return isAnswered ? clueSentence(round, clues, before) : "This is what I show, in orange. Where will Pip go?";
}

// What the last round has come to, against a teacher who knows everything.
function ending(round, number) {
  if (film.ended === null || number < film.rounds.length || !isAnswered) return "";
  const { most } = film;
  const [who, unit] = film.view.world ? ["guide", " points"] : ["teacher", ""];
  const after = `After ${plural(number, "lesson")} it earns ${shown(round.reward)}${unit}.`;
  if (!most) return after;
  const all = `No ${who} can make it earn more than ${shown(most.bound)}${unit}, not even one who knows everything about it.`;
  const share = shareOf(round.reward, most);
  if (share !== null) return `${after} ${all} So this is ${percentOf(share, most)} of what is possible.`;
  return `${after} ${all}${reaches(round.reward, most.bound) ? " So this is the most that is possible." : ""}`;
}

function drawBets(round, number) {
  const mine = bets[number - 1];
  const place = (goal) => (goal === "nowhere" ? "nowhere in particular" : `to the ${goal}`);
  if (isAnswered) {
    const right = bets.filter((bet, k) => bet && k < film.rounds.length && bet === goalOf(film.rounds[k])).length;
    const verdict = mine === goalOf(round) ? "Right" : `It went ${place(goalOf(round))}`;
    const score = `${right} of ${bets.filter(Boolean).length} bets right`;
    refill(parts.bets, h("span.hint", mine ? `You bet: ${place(mine)}. ${verdict}. ${score}.` : ""));
    return;
  }
  const bet = (goal) => {
    const onclick = () => {
      bets[number - 1] = goal;
      step();
    };
    return h("button", { onclick }, place(goal));
  };
  refill(parts.bets, h("span", "Your bet:"), GOALS.map(bet));
}

function draw() {
  const { rounds, view } = film;
  parts.film.hidden = !rounds.length;
  parts.working.hidden = rounds.length > 0 || parts.alert.textContent !== "";
  if (!rounds.length) return;
  const number = Math.max(1, Math.min(rounds.length, shownRound));
  const round = rounds[number - 1];
  parts.slider.max = rounds.length;
  parts.slider.value = number;
  parts.count.textContent = `${number} of ${rounds.length}`;
  parts.next.disabled = isAnswered && number === rounds.length;
  parts.clues.toggleAttribute("hidden", !view.world);
  parts.bets.hidden = parts.key.hidden = !view.world;
  parts.film.classList.toggle("mapless", !view.world);
  // Without cells there is no detective's map: the pictures take its place.
  (view.world ? parts.planes : parts.experts).before(parts.reason, parts.pictures);
  refill(
    parts.told,
    h("p.verdict", h("strong", `Lesson ${number}. `), drawClues(round, number)),
    h("p#round-ending.verdict", ending(round, number)),
  );
  drawBets(round, number);
  if (parts.experts.open || !view.world) drawExperts(round, number);
}

function drawExperts(round, number) {
  const { rounds, request, view, reach, ended } = film;
  const isPushing = request.teacher.startsWith("line_search");
  const isLast = ended !== null && number === rounds.length;
  const last = isLast ? ` Ended after ${plural(number, "round")}: ${ended}.` : "";
  refill(
    parts.reason,
    h("p", `Round ${number}: the learner earns `, h("strong", shown(round.reward)), boundSentence(round.bound)),
    h("p.hint", `Why this lesson: ${round.reason}.${last}`),
  );
  const scales = scalesOf(rounds);
  const chart = s("svg#rounds-chart.picture", { role: "img" });
  drawRounds(chart, rounds, number);
  refill(
    parts.pictures,
    ["shown", "done"].map((kind) => panelFigure(kind, { view, round, scales, about: `round ${number}` })),
    h("figure.panel.chart", h("figcaption", "What the learner earns"), chart),
  );
  const names = view.about?.reward_names ?? OBJECTS;
  const { remaining } = round;
  if (reach) drawPlanes(parts.planes, { names, reach, remaining, rounds: rounds.slice(0, number), isPushing });
  const hatched = reach?.accepted ? " Hatched: what it really accepts, which the teacher does not know." : "";
  const key =
    `Grey: all that can be collected. Blue: what the learner may accept, as far as the teacher knows.${hatched}` +
    ` Squares: lessons; rings: what the learner did${isPushing ? "; arrows: pushes." : "."}`;
  parts.hint.textContent = reach?.reachable.length
    ? key
    : reach
      ? "Planes are drawn for two or three kinds of reward."
      : "";
  if (parts.table.open) refill(parts.table.lastElementChild, roundsTable(rounds));
}

// From a guess to its answer, and from an answer to the next guess.
function step() {
  if (!isAnswered) isAnswered = true;
  else if (shownRound < film.rounds.length) [shownRound, isAnswered] = [shownRound + 1, !film.view.world];
  draw();
}

export function pause() {
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

// Show these rounds from the first on. The most that any lesson can get, and the planes, come later.
function open(next, signal) {
  film = next;
  [shownRound, isAnswered, bets] = [1, !next.view.world, []];
  parts.panel.classList.remove("waiting");
  const { world, domain, learner } = next.request;
  const scene = world ? { world, learner } : { domain, learner };
  const arrived = (found) => {
    Object.assign(next, found);
    if (film === next) draw();
  };
  ask(pathTo("reach", scene), scene, signal).then(
    (reach) => arrived({ reach }),
    () => {},
  );
  taught(awareRequest(scene), (rounds) => arrived({ most: mostOf(rounds.at(-1)) })).catch(() => {});
}

async function run(request, signal, release) {
  const next = { ...noFilm, request, view: viewOf(request) };
  const name = `Rounds: ${plainName(request.teacher)}`;
  const onRound = (rounds) => {
    if (film !== next) open(next, signal);
    next.rounds = rounds;
    release();
    draw();
  };
  try {
    const found = await taught(request, onRound, signal);
    next.ended = found.ended;
    keepResult(name, found);
  } catch (error) {
    if (error.name === "AbortError") return;
    next.ended = error.message;
    const { rounds, ended } = next;
    if (rounds.length) keepResult(name, { kind: "rounds", request, rounds, ended, snippet: null });
    else parts.alert.textContent = ended;
    parts.panel.classList.remove("waiting");
    film = next;
  }
  draw();
}

function refresh() {
  isDirty = !isAt("rounds");
  if (isDirty) return;
  parts.intro.textContent = INTRODUCTIONS[getScene().brought ? "domain" : "world"];
  parts.working.textContent = isUnweighed() ? WEIGH_FIRST : "The first lesson is on its way…";
  if (isUnweighed()) {
    queue.stop();
    pause();
    film = noFilm;
    parts.alert.textContent = "";
    draw();
    return;
  }
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
  isDirty = false;
  open({ ...noFilm, request, view: viewOf(request), rounds, ended });
  draw();
}

export function openRounds() {
  if (isDirty) refresh();
  else draw();
}

export function startRounds() {
  parts = partsOf("panel-rounds", {
    choice: () => setPart({ adaptive: parts.choice.value }),
    play,
    next: () => {
      pause();
      step();
    },
  });
  parts.panel = parts.film.parentElement;
  refill(
    parts.choice,
    choices(ADAPTIVE, (name) => `${plainName(name)} (${paperName(name)})`, getScene().adaptive),
  );
  parts.slider.addEventListener("input", () => {
    pause();
    [shownRound, isAnswered] = [parts.slider.valueAsNumber, true];
    draw();
  });
  for (const box of [parts.table, parts.experts]) box.addEventListener("toggle", draw);
  onChange((what) => {
    if (["world", "learner", "adaptive", "max_rounds"].includes(what)) refresh();
  });
  onLook(() => isAt("rounds") && draw());
}
