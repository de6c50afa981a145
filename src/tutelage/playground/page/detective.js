// What a teacher may conclude from its rounds, cell by cell. A cell where the learner went is accepted. Of the cells that
// it was shown and stayed away from, at least one is refused: each is a suspect, the more so the fewer they are.

import { plural } from "./dom.js";
import { look, mix } from "./look.js";
import { OBJECTS } from "./world.js";

// Visits that count as having been there, and the share of the shown visits below which the learner stayed away.
const THERE = 0.05;
const AWAY = 0.1;

// rounds: each with shown_visits and visits, one number for each cell. Cell -> {accepted, suspected}, from 0 to 1.
export function cluesOf(rounds, count) {
  const clues = Array.from({ length: count }, () => ({ accepted: 0, suspected: 0 }));
  for (const { visits } of rounds)
    visits.forEach((value, cell) => {
      if (value >= THERE) clues[cell].accepted = Math.max(clues[cell].accepted, Math.min(1, 0.4 + value));
    });
  for (const round of rounds) {
    const suspects = (round.shown_visits ?? [])
      .map((value, cell) => [value, cell])
      .filter(([value, cell]) => value >= THERE && round.visits[cell] < AWAY * value && !clues[cell].accepted)
      .map(([, cell]) => cell);
    for (const cell of suspects) clues[cell].suspected = 1 - (1 - clues[cell].suspected) * (1 - 1 / suspects.length);
  }
  return clues;
}

// The clues as marks of a picture: "?" where nothing is known.
export const clueMarks = (clues) =>
  clues.map(({ accepted, suspected }) => {
    if (accepted) return { text: "✓", fill: mix(look().cell, look().done, 0.45 * accepted), label: "accepts" };
    if (suspected) {
      const label = suspected > 0.99 ? "refuses" : `refuses perhaps, ${Math.round(100 * suspected)} percent`;
      return { text: suspected > 0.99 ? "✗" : "✗?", fill: mix(look().cell, look().bad, 0.65 * suspected), label };
    }
    return { text: "?", fill: look().cell, label: "not known" };
  });

const NOTHING = "nowhere";
const listed = (names) => (names.length > 1 ? `${names.slice(0, -1).join(", ")} and ${names.at(-1)}` : names[0]);
const the = (names) => listed(names.map((name) => `the ${name}`));

// Where the learner went most: an object, or nowhere in particular.
export function goalOf(round) {
  const most = Math.max(...round.response);
  return most < 0.3 ? NOTHING : OBJECTS[round.response.indexOf(most)];
}
export const GOALS = [...OBJECTS, NOTHING];

// A round in plain words: what was shown, what the learner did, what follows.
export function clueSentence(round, clues, before) {
  const shown = OBJECTS.filter((_, k) => round.lesson[k] > 0.3);
  const left = shown.filter((name) => round.response[OBJECTS.indexOf(name)] < AWAY * round.lesson[OBJECTS.indexOf(name)]);
  const taken = shown.filter((name) => !left.includes(name));
  const deed =
    !left.length && shown.length
      ? "It followed."
      : taken.length
        ? `It went to ${the(taken)} and stayed away from ${the(left)}.`
        : "It stayed away.";
  const isSure = (all) => all.filter(({ suspected, accepted }) => suspected > 0.99 && !accepted).length;
  const suspects = clues.filter(({ suspected, accepted }) => suspected && !accepted).length;
  const known = clues.filter(({ accepted }) => accepted).length - before.filter(({ accepted }) => accepted).length;
  const way = taken.length ? `It accepts the way to ${the(taken)}. ` : "";
  const rest = left.length
    ? isSure(clues) > isSure(before)
      ? `Only one cell can be the reason: it refuses the cell of ${the(left)}.`
      : `So it minds something near ${the(left)}: one of ${plural(suspects, "cell")}.`
    : known > 0
      ? `I know ${known} more that it accepts.`
      : "I learned nothing new.";
  return `I showed ${shown.length ? the(shown) : "nothing in particular"}. ${deed} ${way}${rest}`;
}
