// What a teacher may conclude from its rounds, cell by cell. A cell where the learner went is accepted. Of the cells that
// it was shown and stayed away from, at least one is refused: each is a suspect, the more so the fewer they are.

import { plural, shown as inDigits } from "./dom.js";
import { look, mix } from "./look.js";
import { OBJECTS } from "./world.js";

// Visits that count as having been there, and the share of the shown visits below which the learner stayed away.
const THERE = 0.05;
const AWAY = 0.1;
// Expected visits from which on an object is part of a lesson, or of an answer.
const PART = 0.3;

// rounds: each with shown_visits and visits, one number for each cell. Cell -> {accepted, suspected}, from 0 to 1. Who
// is the only suspect of a round is sure, and then explains every other round in which it is a suspect.
export function cluesOf(rounds, count) {
  const clues = Array.from({ length: count }, () => ({ accepted: 0, suspected: 0 }));
  for (const { visits } of rounds)
    visits.forEach((value, cell) => {
      if (value >= THERE) clues[cell].accepted = Math.max(clues[cell].accepted, Math.min(1, 0.4 + value));
    });
  const isSuspect = (round, cell) =>
    round.shown_visits?.[cell] >= THERE &&
    round.visits[cell] < AWAY * round.shown_visits[cell] &&
    !clues[cell].accepted;
  const groups = rounds.map((round) => [...clues.keys()].filter((cell) => isSuspect(round, cell)));
  const sure = new Set(groups.filter((group) => group.length === 1).flat());
  for (const cell of sure) clues[cell].suspected = 1;
  for (const group of groups.filter((one) => !one.some((cell) => sure.has(cell))))
    for (const cell of group) clues[cell].suspected = 1 - (1 - clues[cell].suspected) * (1 - 1 / group.length);
  return clues;
}

// The clues as marks of a picture: "?" where nothing is known.
export const clueMarks = (clues) =>
  clues.map(({ accepted, suspected }) => {
    if (accepted) return { text: "✓", fill: mix(look().cell, look().done, 0.45 * accepted) };
    if (!suspected) return { text: "?", fill: look().cell };
    return { text: suspected > 0.99 ? "✗" : "✗?", fill: mix(look().cell, look().bad, 0.65 * suspected) };
  });

const NOTHING = "nowhere";
export const GOALS = [...OBJECTS, NOTHING];
const listed = (names) => (names.length > 1 ? `${names.slice(0, -1).join(", ")} and ${names.at(-1)}` : names[0]);
const the = (names) => listed(names.map((name) => `the ${name}`));

// Where the learner went most: an object, or nowhere in particular.
export function goalOf(round) {
  const most = Math.max(...round.response);
  return most < PART ? NOTHING : OBJECTS[round.response.indexOf(most)];
}

// The objects that were shown, and of these the ones that the learner took and those that it left.
export function objectsOf({ lesson, response }) {
  const shown = OBJECTS.filter((_, k) => lesson[k] > PART);
  const taken = shown.filter((name) => response[OBJECTS.indexOf(name)] >= AWAY * lesson[OBJECTS.indexOf(name)]);
  return { shown, taken, left: shown.filter((name) => !taken.includes(name)) };
}

// One walk to each of these objects, as far as the object; without objects, the first walk.
export function walksTo(world, walks, names) {
  const to = (name) => {
    const end = (walk) => walk.findIndex((cell) => world.objects[name].includes(cell));
    const there = walks.filter((walk) => end(walk) >= 0).sort((a, b) => end(a) - end(b))[0];
    return there ? [there.slice(0, end(there) + 1)] : [];
  };
  return names.length ? names.flatMap(to) : walks.slice(0, 1);
}

// A round in plain words: what was shown, what the learner did, what follows.
export function clueSentence(round, clues, before) {
  const { shown, taken, left } = objectsOf(round);
  const count = (all, is) => all.filter(is).length;
  const isSure = ({ suspected }) => suspected > 0.99;
  const known = count(clues, ({ accepted }) => accepted) - count(before, ({ accepted }) => accepted);
  const suspects = plural(
    count(clues, ({ suspected }) => suspected),
    "cell",
  );
  let deed = "It stayed away.";
  if (shown.length && !left.length) deed = "It followed.";
  else if (taken.length) deed = `It went to ${the(taken)} and stayed away from ${the(left)}.`;
  let rest = known > 0 ? `I know ${plural(known, "cell")} more that it accepts.` : "I learned nothing new.";
  const [sure, wereSure] = [count(clues, isSure), count(before, isSure)];
  if (left.length && sure > wereSure) rest = `Only one cell can be the reason: it refuses the cell of ${the(left)}.`;
  else if (left.length && sure) rest = "I knew that already.";
  else if (left.length) rest = `So it minds something near ${the(left)}: one of ${suspects}.`;
  const way = taken.length ? `It accepts the way to ${the(taken)}. ` : "";
  return `I showed ${shown.length ? the(shown) : "nothing in particular"}. ${deed} ${way}${rest}`;
}

// A round without cells in plain words: whether the learner followed, and if not, where it differs most.
export function deedSentence({ lesson, response }, names) {
  const apart = (k) => Math.abs(lesson[k] - response[k]);
  const most = names.reduce((best, _, k) => (apart(k) > apart(best) ? k : best), 0);
  if (inDigits(lesson[most]) === inDigits(response[most])) return "The learner does as it is shown.";
  const how = apart(most) < AWAY * Math.abs(lesson[most]) ? "does nearly as it is shown" : "goes its own way";
  return `The learner ${how}: of “${names[most]}” it was shown ${inDigits(lesson[most])}, and does ${inDigits(response[most])}.`;
}

const TAKEN = 0.5;
const colourOf = (name) => name.split(" ")[0];
// What the counts of a row say by themselves, as the server decides it.
function ownVerdict({ shown, done }) {
  if (!(shown > 1e-6)) return done > 1e-6 ? "accepts" : "unknown";
  return done < AWAY * shown ? "avoids" : done >= TAKEN * shown ? "accepts" : "unknown";
}

// The row that a conclusion follows from, as who avoids a distance avoids the smaller ones; null where the row itself says it.
export function sourceOf(conclusions, k) {
  const { name, verdict } = conclusions[k];
  if (ownVerdict(conclusions[k]) === verdict) return null;
  const isSource = (one) => colourOf(one.name) === colourOf(name) && ownVerdict(one) === verdict;
  // The nearest distance, of those that are larger for what is avoided, and smaller for what is accepted.
  const candidates = verdict === "avoids" ? conclusions.slice(k + 1) : conclusions.slice(0, k).reverse();
  return candidates.find(isSource) ?? null;
}
