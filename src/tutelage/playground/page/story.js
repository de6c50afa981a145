// The story as data, so that others can write their own: a scene, and steps of one sentence, pictures and one number.
//
// A step has: sentence; pictures, of "world", "shown", "believed" and "done"; teacher, whose lesson they show;
// showsAvoided, whether the avoided cells are marked; number: {of, text}, where `of` is "lesson" (what the lesson itself
// would earn), "reward" (what the learner earns), "share" (of the most possible) or "avoided" (how many cells). A step
// with `choices` ends the story: [{place, text}] are its buttons. A file with such an object, dropped on the page,
// replaces this story.

import { GARDEN } from "./world.js";

export const STORY = {
  title: "Teaching someone with a mind of their own",
  world: GARDEN,
  learner: {
    model: "soft",
    preferences: [{ colour: "green", distance: 1, allowance: 0 }],
    mismatch_penalty: 5,
    violation_penalty: 10,
  },
  steps: [
    {
      sentence: "In this garden a star is worth most, and the best way goes straight to it.",
      pictures: ["shown"],
      captions: { shown: "The best way" },
      teacher: "agnostic",
      showsAvoided: false,
      number: { of: "lesson", text: "is what the best way earns" },
    },
    {
      sentence: "But this learner does not go near green, and the star is right beside it.",
      pictures: ["world"],
      captions: { world: "Where it does not want to go" },
      showsAvoided: true,
      number: { of: "avoided", text: "cells are out of the question for it, the star's among them" },
    },
    {
      sentence:
        "Shown the best way all the same, it only learns that nothing else counts. It wanders about and earns nothing.",
      pictures: ["shown", "done"],
      teacher: "agnostic",
      showsAvoided: true,
      number: { of: "share", text: "of what it could earn" },
    },
    {
      sentence: "Shown a way that it accepts, to the plus, it follows, and earns nearly all that it can.",
      pictures: ["shown", "done"],
      teacher: "bilevel",
      showsAvoided: true,
      number: { of: "share", text: "of what it could earn" },
    },
    {
      sentence: "So the best lesson depends on who is learning. Now you.",
      pictures: ["world"],
      captions: { world: "Yours to change" },
      showsAvoided: true,
      choices: [
        { place: "compare", text: "Change the world and compare teachers" },
        { place: "teach", text: "Be the teacher: draw a path" },
        { place: "learn", text: "Be the learner: keep a secret" },
        { place: "rounds", text: "Watch a teacher find out" },
      ],
    },
  ],
};
