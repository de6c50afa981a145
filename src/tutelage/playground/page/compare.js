// Teachers side by side, live: every change of the world or of the learner is taught again at once.

import { Card } from "./cards.js";
import { h, isAt, partsOf, refill, segmented, shown } from "./dom.js";
import { keepResult } from "./keeping.js";
import { Latest, awareRequest, besides, lessonOf, mostOf, taught } from "./lessons.js";
import { onLook } from "./look.js";
import { TEACHER_NAMES, awareTeacher, canTeach, choices, paperName, plainAbout, plainName } from "./players.js";
import { drawStrip, scalesOf } from "./panels.js";
import { WEIGH_FIRST, asked, getScene, isUnweighed, onChange, setPart, viewOf } from "./scene.js";

// Teacher -> {card, queue, request, rounds, problem, note}.
const shownTeachers = new Map();
// The aware lesson, where no card has it.
const aware = { queue: new Latest(), request: null, rounds: [] };
let layer = "crowd",
  isDirty = true,
  view = null;

// The last round of the teacher that knows most about the present learner, if it is there.
function awareRound() {
  const name = awareTeacher(getScene().learner.model);
  const found = shownTeachers.get(name) ?? aware;
  const isCurrent = found.request && JSON.stringify(found.request) === JSON.stringify(awareRequest(asked()));
  return isCurrent ? (found.rounds.at(-1) ?? null) : null;
}

function draw() {
  // The scene has changed elsewhere: what answers the old one is of no use.
  if (isDirty) return;
  const ready = [...shownTeachers.values()].filter((one) => one.rounds.length && one.isCurrent);
  const best = awareRound();
  const scales = scalesOf([...ready.map((one) => one.rounds.at(-1))]);
  const most = mostOf(best);
  const least = Math.min(0, ...ready.map((one) => one.rounds.at(-1).reward));
  for (const one of ready) {
    const { request, rounds, card, note } = one;
    const round = rounds.at(-1);
    card.show({ view: viewOf(request), round, rounds: rounds.length, scales, layer, most, least, note });
  }
  drawVerdict(most, least);
}

// Why there is no lesson. That nobody can teach the learner is said only if no policy keeps its rules.
function drawProblem(error) {
  if (!error) return;
  if (error.message.includes("no policy")) refill(view.verdict, "Nobody can teach this learner here.");
  else refill(view.verdict, `There is no lesson. ${error.message} `, error.isGone ? again() : null);
}

function again() {
  const onclick = () => {
    for (const one of shownTeachers.values()) if (one.problem) one.request = null;
    refresh();
  };
  return h("button", { onclick }, "Try again");
}

// Who teaches best, in a sentence; and a strip with the bars, which a phone keeps in view.
function drawVerdict(most, least) {
  const ready = [...shownTeachers].filter(([, one]) => one.isCurrent && one.rounds.length && one.card.round);
  const reward = ([, one]) => one.rounds.at(-1).reward;
  const ranked = ready.sort((a, b) => reward(b) - reward(a));
  const isWorking = [...shownTeachers.values()].some((one) => one.card.element.classList.contains("waiting"));
  view.verdict.classList.toggle("waiting", isWorking);
  if (!ranked.length) {
    if (!isWorking) drawProblem([...shownTeachers.values()].map((one) => one.problem).find(Boolean));
    return;
  }
  const [first, ...rest] = ranked;
  const last = rest.at(-1);
  const isTie = last && Math.abs(reward(first) - reward(last)) < 0.005;
  const name = (one) => h("strong", `“${plainName(one[0])}”`);
  const parts = isTie
    ? ["All teach equally well here: the learner earns ", h("strong", shown(reward(first))), "."]
    : [
        name(first),
        last ? " teaches best: the learner earns " : ": the learner earns ",
        h("strong", shown(reward(first))),
        most ? besides(reward(first), most) : "",
        last ? h("span", ". With ", name(last), " it earns ", h("strong", shown(reward(last)))) : "",
        ".",
      ];
  refill(view.verdict, ...parts);
  if (isAt("compare")) drawStrip(ranked.map((one) => ({ name: plainName(one[0]), reward: reward(one), most, least })));
}

async function teachOne(one, signal, release) {
  const { request } = one;
  try {
    const found = await taught(
      request,
      (rounds) => {
        if (one.request !== request) return;
        Object.assign(one, { rounds, isCurrent: true, note: null, problem: null });
        release();
        draw();
      },
      signal,
    );
    if (one.request !== request) return;
    one.note = found.note ? `No tight bound: ${found.note}.` : null;
    keepResult(`Compare: ${plainName(request.teacher)}`, found);
    if (one.note) draw();
  } catch (error) {
    if (error.name === "AbortError" || one.request !== request) return;
    // A lesson that is there stays there when a later part of the work fails.
    if (one.isCurrent && one.rounds.length) one.note = `Stopped: ${error.message}`;
    else {
      Object.assign(one, { rounds: [], problem: error });
      one.card?.fail(error.message);
    }
    draw();
  }
}

function refresh() {
  isDirty = !isAt("compare");
  if (isDirty) return;
  if (isUnweighed()) {
    // A lesson of what was there before must not answer for what was brought.
    for (const one of [...shownTeachers.values(), aware]) {
      one.queue.stop();
      Object.assign(one, { request: null, isCurrent: false });
      one.card?.fail("");
    }
    refill(view.verdict, WEIGH_FIRST);
    return;
  }
  const scene = asked();
  let isAny = false;
  for (const [teacher, one] of shownTeachers) {
    const request = lessonOf(scene, teacher);
    if (JSON.stringify(request) === JSON.stringify(one.request)) continue;
    Object.assign(one, { request, isCurrent: false, problem: null });
    isAny = true;
    one.card.wait();
    one.queue.run((signal, release) => teachOne(one, signal, release));
  }
  if (!shownTeachers.has(awareTeacher(getScene().learner.model))) {
    aware.request = awareRequest(scene);
    aware.rounds = [];
    aware.queue.run((signal, release) => teachOne(aware, signal, release));
  }
  if (isAny) view.verdict.classList.add("waiting");
  else draw();
}

// One card per teacher of the scene, in its order.
function arrange() {
  const { teachers, learner } = getScene();
  for (const [name, one] of shownTeachers) {
    if (teachers.includes(name)) continue;
    one.queue.stop();
    shownTeachers.delete(name);
  }
  for (const name of teachers) {
    if (shownTeachers.has(name)) continue;
    const onclick = () => setPart({ teachers: getScene().teachers.filter((other) => other !== name) });
    const label = `Remove ${plainName(name)}`;
    const action = h("button.quiet.remove", { "aria-label": label, title: "Remove", onclick }, "×");
    const note = `${plainAbout(name)} · ${paperName(name)}`;
    const card = new Card({ id: name, title: plainName(name), note, action });
    shownTeachers.set(name, { card, queue: new Latest(), request: null, rounds: [], isCurrent: false });
  }
  refill(
    view.cards,
    teachers.map((name) => shownTeachers.get(name).card.element),
  );
  const others = TEACHER_NAMES.filter((name) => !teachers.includes(name) && canTeach(name, learner.model));
  refill(
    view.adding,
    h("option", { value: "" }, "Add a teacher…"),
    choices(others, (name) => `${plainName(name)} (${paperName(name)})`),
  );
}

export function openCompare() {
  if (isDirty) refresh();
  else draw();
}

export function startCompare() {
  view = partsOf("panel-compare", {
    adding: () => view.adding.value && setPart({ teachers: [...getScene().teachers, view.adding.value] }),
  });
  const options = Object.entries({ crowd: "walks", arrows: "arrows" });
  const choose = (value) => {
    layer = value;
    draw();
  };
  refill(view.layers, segmented("layer", h("legend.sr", "What it does, as"), options, layer, choose));
  onChange((what) => {
    if (what === "teachers" || what === "learner") arrange();
    if (["world", "learner", "teachers"].includes(what)) refresh();
  });
  onLook(draw);
  arrange();
}
