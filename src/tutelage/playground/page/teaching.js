// The third tab: one teacher, or two side by side.

import { byId, h } from "./dom.js";
import { heatLimit } from "./grid.js";
import {
  ADAPTIVE,
  LAYERS,
  TEACHERS,
  awareTeacher,
  awareLesson,
  brokenOff,
  drawCard,
  markStale,
  options,
  shortName,
  taught,
} from "./lessons.js";
import { players } from "./players.js";
import { getLearner, getWorld, isStale, keepResult, learnerAsked, avoidedPreferences, onChange } from "./state.js";
import { avoidedCells } from "./world.js";
import { work } from "./work.js";

// The lessons on the cards, {request, rounds, card} each; and the round of the aware lesson, to compare with.
let shownLessons = [];
let best = null;

const layer = () => document.querySelector("input[name=layer]:checked").value;

export const teachMode = {
  hint: "The cells that the learner avoids are grey.",
  layers: () => ({ avoided: avoidedCells(getWorld(), avoidedPreferences()) }),
};

function draw() {
  const ready = shownLessons.filter((lesson) => lesson.rounds.length);
  const limit = ready.length ? heatLimit(ready.map((lesson) => lesson.rounds.at(-1).reward_map)) : 1;
  for (const { request, rounds, card } of ready) {
    const { world, learner, teacher } = request;
    drawCard(card, {
      title: shortName(teacher),
      world,
      learner,
      round: rounds.at(-1),
      rounds: rounds.length,
      best,
      layer: layer(),
      limit,
    });
  }
  for (const { request, rounds, card, problem } of shownLessons) {
    if (!problem) continue;
    if (!rounds.length) card.replaceChildren(h("h3", {}, shortName(request.teacher)));
    card.append(h("p", { class: "alert" }, problem));
  }
  markCards();
}

function markCards() {
  for (const { request, card } of shownLessons) markStale(card, isStale(request));
}

async function teach(signal) {
  const world = getWorld(),
    learner = learnerAsked();
  const teachers = [...new Set([byId("teacher-a").value, byId("teacher-b").value])].filter(Boolean);
  best = null;
  shownLessons = teachers.map((teacher) => ({
    request: { world, learner, teacher, max_rounds: ADAPTIVE.includes(teacher) ? 60 : 1 },
    rounds: [],
    card: h(
      "article",
      { class: "card", "data-teacher": teacher },
      h("h3", {}, shortName(teacher)),
      h("p", {}, "Working…"),
    ),
  }));
  byId("lessons").replaceChildren(...shownLessons.map((lesson) => lesson.card));
  const alone = shownLessons.map(async (lesson) => {
    const name = `Teach: ${shortName(lesson.request.teacher)}`;
    try {
      const found = await taught(
        lesson.request,
        (rounds) => {
          lesson.rounds = rounds;
          if (lesson.request.teacher === awareTeacher(learner)) best = rounds.at(-1);
          draw();
        },
        signal,
      );
      keepResult(name, found);
    } catch (error) {
      lesson.problem = error.name === "AbortError" ? "Cancelled." : error.message;
      if (lesson.rounds.length) keepResult(name, brokenOff(lesson.request, lesson.rounds, error));
    }
  });
  await Promise.all(alone);
  draw();
  if (best || !shownLessons.some((lesson) => lesson.rounds.length)) return;
  best = (await awareLesson(world, learner, signal)).rounds.at(-1);
  draw();
}

// A bi-level teacher needs the learner's mismatch penalty, which a model may not have.
function offer() {
  const learner = getLearner();
  const hasMismatch = "mismatch_penalty" in players.learner_models[learner.model].options;
  for (const id of ["teacher-a", "teacher-b"]) {
    const select = byId(id);
    for (const option of select.options) {
      option.disabled = !hasMismatch && Boolean(players.teachers[option.value]?.needs_penalties);
    }
    if (select.selectedOptions[0].disabled) select.value = awareTeacher(learner);
  }
}

export function startTeaching() {
  byId("teacher-a").append(...options(TEACHERS));
  byId("teacher-b").append(h("option", { value: "" }, "none"), ...options(TEACHERS));
  byId("teacher-a").value = "bilevel";
  byId("teacher-b").value = "agnostic";
  byId("layers").append(
    ...Object.entries(LAYERS).map(([name, label], k) =>
      h(
        "label",
        {},
        h("input", { type: "radio", name: "layer", value: name, checked: k === 0, onchange: draw }),
        label,
      ),
    ),
  );
  byId("teach-form").addEventListener("submit", (event) => {
    event.preventDefault();
    work(
      {
        button: event.submitter ?? byId("teach-form").querySelector(".main"),
        cancel: "cancel-teach",
        alert: "teach-alert",
        done: "Taught.",
      },
      teach,
    );
  });
  onChange((what) => {
    if (what === "learner") offer();
    if (what !== "results") markCards();
  });
  offer();
}
