// The teachers, learner models and preferences that the server knows, loaded before the page starts, in plain words.

import { ask } from "./api.js";
import { complain, h } from "./dom.js";

export const players = await ask("/api/players").catch((error) => {
  complain(error.message);
  throw error;
});

// Plain names of the paper's teachers. Any other teacher has the name of the registry.
const TEACHERS = {
  agnostic: ["Shows the best way", "and does not ask who is looking"],
  conservative: ["Plays it safe", "shows only what no learner could mind"],
  aware_cmdp: ["Knows the rules", "shows the best way among those that the learner accepts"],
  bilevel: ["Knows the learner", "foresees what the learner will make of the lesson"],
  volume_search: ["Finds out by narrowing", "rules out what the learner did not follow, round by round"],
  line_search: ["Finds out by pushing", "asks for a little more each round"],
  adaptive_bilevel: ["Finds out by guessing", "guesses what the learner is like, and plans for that"],
};
const MODELS = { soft: "Bends its rules, at a price", hard: "Never breaks its rules", standard: "Has no rules" };

export const plainName = (teacher) => TEACHERS[teacher]?.[0] ?? players.teachers[teacher].label;
export const plainAbout = (teacher) => TEACHERS[teacher]?.[1] ?? players.teachers[teacher].about;
export const paperName = (teacher) => players.teachers[teacher].label;
export const modelName = (model) => MODELS[model] ?? players.learner_models[model].label;

// Options for a choice of teachers or models: those with plain names first, those for readers of the paper below.
export function choices(names, text, chosen) {
  const option = (name) => h("option", { value: name, selected: name === chosen }, text(name));
  const isPlain = (name) => name in TEACHERS || name in MODELS;
  const rest = names.filter((name) => !isPlain(name));
  return [
    ...names.filter(isPlain).map(option),
    rest.length ? h("optgroup", { label: "From the paper" }, rest.map(option)) : null,
  ];
}

export const isAdaptive = (teacher) => players.teachers[teacher].is_adaptive;
export const TEACHER_NAMES = Object.keys(players.teachers);
export const ADAPTIVE = TEACHER_NAMES.filter(isAdaptive);

// The teacher to compare with: the one that knows most about a learner of this model.
export const awareTeacher = (model) => players.learner_models[model].aware_teacher;

// Whether a learner of this model avoids anything.
export const hasRules = (model) =>
  Object.keys(players.learner_models[model].options).some((option) => option.startsWith("violation"));

// A bi-level teacher needs the learner's mismatch penalty, which a model may not have.
export const canTeach = (teacher, model) =>
  !players.teachers[teacher].needs_penalties || "mismatch_penalty" in players.learner_models[model].options;
