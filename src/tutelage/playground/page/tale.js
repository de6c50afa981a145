// The page's own story, which can be touched: one garden, one picture from the first step to the last. Every answer in it
// was computed by the package beforehand, so that it follows the finger without a server.

import { chip, h, shown, table } from "./dom.js";
import { avoidedIn, beliefsOf, endOf, lessonOf, mostIn, points, pointsOf, signed, sumOf, visitsOf } from "./garden.js";
import { GARDENS } from "./gardens.js";
import { isStill } from "./look.js";
import { Paths } from "./paths.js";
import { Replay } from "./replay.js";
import { MOVES, OBJECTS, holder, neighbour } from "./world.js";

const garden = GARDENS.story;
const TO_STAR = [32, 26, 20, 14, 15];
const [GREEN] = garden.world.distractors.green;
// What the reader did: drawn, the first paths; second, those of the other lesson; green, where the square is.
const told = {
  drawn: [],
  second: [],
  green: GREEN,
  cell: garden.world.objects.star[0],
  isTaught: true,
  isDisliked: true,
};
let stage = null,
  pip = null;

const here = () => ({ ...garden.world, distractors: { green: [told.green], yellow: [] } });
const starPath = () => (endOf(garden.world, told.drawn[0]) === "star" ? told.drawn[0] : TO_STAR);
const answerTo = (paths) => garden.answers[lessonOf(garden.world, paths)];
const guide = (path) => ({ kind: "guide", at: path?.at(-1) ?? garden.world.start });
const withPip = (...others) => (pip ? [...others, pip] : others);

function drawing(key) {
  const set = (next) => {
    told[key] = next;
    pip = null;
    stage.draw();
    if (key === "second" && endOf(garden.world, next[0])) walkOf(answerTo(next).walk);
  };
  const endsAt = (cell) => holder(garden.world.objects, cell) !== null;
  return new Paths({ get: () => told[key], set, world: () => garden.world, most: 1, longest: 12, endsAt }).mode;
}

const replay = new Replay((at) => {
  pip = { ...pip, at };
  stage.redraw();
});

// Pip walks; its mood before and after.
function walkOf(walk, { mood = "glad", after = mood, onEnd } = {}) {
  pip = { kind: "pip", at: walk[0], mood };
  replay.start(walk, garden.world.size, {
    onEnd: () => {
      pip = { ...pip, mood: after };
      stage.draw();
      onEnd?.();
    },
  });
}

// Pip follows the path to the edge of what it minds, shakes its head, and wanders.
function refuse() {
  const path = starPath(),
    avoided = avoidedIn(garden);
  const edge = path.slice(
    0,
    Math.max(
      1,
      path.findIndex((cell) => avoided[cell]),
    ),
  );
  told.isRefused = false;
  const wander = () => {
    if (!stage.isAt(REFUSAL)) return;
    told.isRefused = true;
    walkOf(answerTo([path]).walk, { mood: "no" });
    stage.draw();
  };
  walkOf(edge, { after: "no", onEnd: () => setTimeout(wander, isStill() ? 0 : 900) });
}

// The green square is where the finger is; everything else was computed for this cell.
function moveGreen(cell) {
  if (cell === garden.world.start) return;
  told.green = cell;
  replay.stop();
  pip = { kind: "pip", at: garden.moved[cell].walk.at(-1), mood: "glad" };
  stage.draw();
}

const dragGreen = {
  isWalking: true,
  isGrip: (cell) => cell === told.green,
  press: moveGreen,
  drag: moveGreen,
  release: () => walkOf(garden.moved[told.green].walk),
  key: (event) => {
    if (!(event.key in MOVES)) return false;
    const next = neighbour(garden.world, told.green, MOVES[event.key]);
    if (next !== null) moveGreen(next);
    return true;
  },
};

function lookInto(cell) {
  told.cell = cell;
  stage.draw();
}

// What the cell is to Pip, as a sentence.
function cellSentence(beliefs) {
  const { kind, taught, dislike } = beliefs[told.cell];
  const name = kind ? `The ${kind}'s cell` : "This cell";
  const texts = [];
  if (taught) texts.push(`${signed(taught)} because of what Pip ${taught > 0 ? "saw" : "never saw"}`);
  if (dislike) texts.push(`${signed(dislike)} because it is near green`);
  if (!texts.length) return `${name}: 0. Nothing speaks for it or against it.`;
  const total = texts.length > 1 ? `: ${sumOf(beliefs[told.cell])}` : "";
  return `${name} is ${texts.join(", and ")}${total}. ${taught + dislike < 0 ? "Pip stays away." : "Pip wants to go there."}`;
}

function tally() {
  const path = starPath(),
    { weights } = answerTo([path]);
  const count = (kind) => (kind === "star" ? `often (${shown(visitsOf(garden.world, path), 1)})` : "never");
  const row = (kind, k) => [kind, count(kind), `${signed(weights[k])} ${weights[k] > 0 ? "good" : "bad"}`];
  const dislike = ["near green", "–", `${signed(weights[3])} its own dislike`];
  return table(["Thing", "Pip saw it", "so Pip thinks"], [...OBJECTS.map(row), dislike], "tally");
}

const layerChip = (key, text) =>
  chip(`layer-${key}`, text, told[key], (isOn) => {
    told[key] = isOn;
    stage.draw();
  });

const beliefs = () => beliefsOf(garden, answerTo([starPath()]).weights);

// What Pip was taught and what it dislikes, as far as the two layers are on: a colour, and chips.
function beliefLayers() {
  const parts = beliefs().map(({ taught, dislike }) => [told.isTaught ? taught : 0, told.isDisliked ? dislike : 0]);
  const sums = parts.map((numbers) => numbers.filter(Boolean));
  return {
    avoided: avoidedIn(garden),
    belief: { values: parts.map(([taught, dislike]) => taught + dislike), most: 10 },
    sums: Object.fromEntries(Object.entries(sums).filter(([, numbers]) => numbers.length)),
    labels: {},
    cursor: told.cell,
  };
}

const DRAWING = {
  sentence: () => "You are the guide. Draw a path from the ring to the star.",
  note: () => "Whoever stands on a thing collects its points at every step. Later points count less, so be quick.",
  mode: drawing("drawn"),
  layers: () => ({ paths: told.drawn, figures: [guide(told.drawn[0])] }),
  value: () => {
    const [path] = told.drawn,
      kind = endOf(garden.world, path);
    if (!kind) return { value: points(0), text: path?.length > 12 ? "Too long: begin again at the ring." : "so far" };
    const text = kind === "star" ? "This is a good path." : `This is the ${kind}. The star is worth more.`;
    return { value: points(pointsOf(garden.world, path)), text };
  },
};

const REFUSAL = {
  sentence: () =>
    "This is Pip. Pip does as it is shown, but it will not go near green. You show Pip the path to the star.",
  note: () =>
    told.isRefused
      ? "Pip came along to the edge, shook its head, and now wanders about. It does not even take the plus."
      : "Pip watches, and follows.",
  enter: refuse,
  layers: () => ({ avoided: avoidedIn(garden), paths: [starPath()], figures: withPip(guide(starPath())) }),
  value: () => ({ value: points(answerTo([starPath()]).reward), text: "is what Pip earns" }),
  button: () => ["Show it again", refuse],
};

const MIDDLE = {
  sentence: () =>
    "Why? Pip counted what it saw. It believes that what it never saw is bad. Its own dislike of green lies on top.",
  extra: () => [
    tally(),
    h("div.chips", layerChip("isTaught", "What it was taught"), layerChip("isDisliked", "What it dislikes")),
  ],
  note: () => cellSentence(beliefs()),
  mode: { press: lookInto, act: lookInto },
  layers: beliefLayers,
};

const ANOTHER = {
  sentence: () =>
    "So the star's cell is red to Pip: it stays away. Show it something else: draw a path that Pip accepts.",
  note: () => {
    const kind = endOf(garden.world, told.second[0]);
    if (!kind) return "The bar shows what Pip would earn if your path ended here.";
    if (kind === "star") return "Pip does not go there. Try another thing.";
    return answerTo(told.second).reward / garden.bound > 0.9
      ? "Pip follows all the way. It never gets the star, and still this is nearly the best that any guide can do."
      : "Pip follows. But is there something better that it accepts?";
  },
  mode: drawing("second"),
  layers: () => ({ avoided: avoidedIn(garden), paths: told.second, figures: withPip(guide(told.second[0])) }),
  bar: () => ({ reward: answerTo(told.second).reward, most: mostIn(garden) }),
};

// The best lesson for a place of the green square.
const barAt = ({ reward, bound }) => ({ reward, most: mostIn({ model: garden.model, bound }) });

const DRAGGING = {
  sentence: () => "Now drag the green square. A guide who knows Pip shows another path, and Pip follows.",
  note: () => "Orange is what is shown, the blue face is Pip. Where green is far from the star, Pip gets the star.",
  enter: () => moveGreen(told.green),
  mode: dragGreen,
  layers: () => ({ avoided: avoidedIn(garden, here()), paths: [garden.moved[told.green].route], figures: withPip() }),
  bar: () => barAt(garden.moved[told.green]),
};

const ENDING = {
  ...DRAGGING,
  sentence: () => "So the best lesson depends on who is learning. Now you.",
  note: () => "",
  choices: [
    { place: "play", text: "Five gardens: teach Pip yourself" },
    { place: "rounds", text: "Watch a guide find out what Pip minds" },
    { place: "compare", text: "Change everything, compare teachers" },
    { place: "learn", text: "Be the learner: keep a secret" },
  ],
};

// The green square is dragged in the last steps, and back in its place in the others.
const isBack = (step) => () => {
  [told.green, pip] = [GREEN, null];
  step.enter?.();
};
const STEPS = [
  ...[DRAWING, REFUSAL, MIDDLE, ANOTHER].map((step) => Object.assign(step, { enter: isBack({ ...step }) })),
  DRAGGING,
  ENDING,
];

export function ownStory(given) {
  stage = given;
  return { title: "Teaching someone with a mind of their own", world: here, steps: STEPS, stop: () => replay.stop() };
}
