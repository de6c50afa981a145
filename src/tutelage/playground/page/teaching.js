// The third tab: one teacher, or two side by side.

import { byId, h } from "./dom.js";
import { heatLimit } from "./grid.js";
import {
  ADAPTIVE,
  LAYERS,
  TEACHERS,
  awareTeacher,
  bestLesson,
  drawCard,
  options,
  shortName,
  taught,
} from "./lessons.js";
import { getLearner, getWorld, keepResult, learnerAsked, mindedPreferences, onChange } from "./state.js";
import { avoidedCells } from "./world.js";
import { work } from "./work.js";

// What is on the cards: {request, rounds, card} each; and the aware lesson, which says what can be achieved.
let shownLessons = [];
let best = null;

const layer = () => document.querySelector("input[name=layer]:checked").value;

export const teachMode = {
  hint: "What the learner minds is grey.",
  layers: () => ({ avoided: avoidedCells(getWorld(), mindedPreferences()) }),
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
  markStale();
}

// A card speaks of the world and the learner that it was made for.
function markStale() {
  const now = JSON.stringify([getWorld(), learnerAsked()]);
  for (const { request, card } of shownLessons) {
    const isStale = JSON.stringify([request.world, request.learner]) !== now;
    card.classList.toggle("stale", isStale);
    card.querySelector(".stale-note")?.remove();
    if (isStale) card.append(h("p", { class: "hint stale-note" }, "The world or the learner has changed since."));
  }
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
      keepResult(`Teach: ${shortName(lesson.request.teacher)}`, found);
    } catch (error) {
      const sentence = error.name === "AbortError" ? "Cancelled." : error.message;
      if (!lesson.rounds.length)
        lesson.card.replaceChildren(
          h("h3", {}, shortName(lesson.request.teacher)),
          h("p", { class: "alert" }, sentence),
        );
    }
  });
  await Promise.all(alone);
  if (!best && !signal.aborted && shownLessons.some((lesson) => lesson.rounds.length))
    best = (await bestLesson(world, learner)).rounds.at(-1);
  draw();
}

// A teacher that must know what a mismatch costs has nothing to teach a learner that only projects.
function offer() {
  const isHard = getLearner().model === "hard";
  for (const id of ["teacher-a", "teacher-b"]) {
    const select = byId(id);
    select.querySelector("option[value=bilevel]").disabled = isHard;
    if (isHard && select.value === "bilevel") select.value = "aware_cmdp";
  }
}

export function startTeaching() {
  byId("teacher-a").append(...options(Object.keys(TEACHERS)));
  byId("teacher-b").append(h("option", { value: "" }, "nobody"), ...options(Object.keys(TEACHERS)));
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
      },
      teach,
    );
  });
  onChange((what) => {
    if (what === "learner") offer();
    if (what !== "results") markStale();
  });
  offer();
}
