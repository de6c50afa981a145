// Five gardens of rising difficulty. The score is what the learner earns, as a share of what any lesson can get from it.

import { Board } from "./board.js";
import { h, isAt, partsOf, percentOf, refill } from "./dom.js";
import { avoidedIn, endOf, labelsOf, lessonOf, mostIn } from "./garden.js";
import { GARDENS } from "./gardens.js";
import { onLook } from "./look.js";
import { drawMeter } from "./panels.js";
import { Paths } from "./paths.js";
import { Replay } from "./replay.js";
import { getScene, setPart } from "./scene.js";
import { holder } from "./world.js";

const GOOD = 0.9;
const gardens = GARDENS.challenges;
let parts = null,
  number = 0,
  drawn = [],
  pip = null,
  board = null;

const garden = () => gardens[number];
const answer = () => garden().answers[lessonOf(garden().world, drawn)];
const most = () => mostIn(garden());
const share = () => answer().reward / garden().bound;
const isShown = () => drawn.some((path) => endOf(garden().world, path));
const bestOf = (k) => getScene().won[k] ?? 0;

const replay = new Replay((at) => {
  pip = { ...pip, at };
  board.redraw();
});

const pathsOf = (k) =>
  new Paths({
    get: () => drawn,
    set: (next) => {
      drawn = next;
      answered();
    },
    world: () => gardens[k].world,
    most: gardens[k].mostPaths,
    longest: 12,
    endsAt: (cell) => holder(gardens[k].world.objects, cell) !== null,
  });

// A path has changed: if it has an end, Pip answers.
function answered() {
  replay.stop();
  pip = null;
  if (isShown()) {
    pip = { kind: "pip", mood: share() > 0.5 ? "glad" : "no", at: garden().world.start };
    replay.start(answer().walk, garden().world.size);
    const won = gardens.map((_, k) => (k === number ? Math.max(bestOf(k), share()) : bestOf(k)));
    setPart({ won });
  }
  draw();
}

function comment() {
  if (!isShown()) return "Draw a path from the ring to a thing. It ends there, and Pip answers.";
  if (share() >= GOOD)
    return number + 1 < gardens.length ? "Solved. The next garden waits." : "Solved, and that was the last one.";
  if (share() > 0.4) return "Not bad, but more is possible.";
  return "Pip does not follow, and learns nothing that it can use. Try something else.";
}

function layers() {
  const isHidden = garden().hidesRules && bestOf(number) < GOOD;
  const figures = [{ kind: "guide", at: drawn.at(-1)?.at(-1) ?? garden().world.start }, ...(pip ? [pip] : [])];
  const avoided = isHidden ? null : avoidedIn(garden());
  return { avoided, paths: drawn, figures, labels: labelsOf(garden().world) };
}

function draw() {
  const entry = ({ name }, k) => {
    const isSolved = bestOf(k) >= GOOD;
    const attributes = {
      "aria-pressed": String(k === number),
      "aria-label": `${k + 1}. ${name}${isSolved ? " (solved)" : ""}`,
    };
    return h("button.chip-button", { ...attributes, onclick: () => choose(k) }, `${isSolved ? "★" : "☆"} ${k + 1}`);
  };
  refill(parts.list, gardens.map(entry));
  parts.title.textContent = garden().name;
  parts.about.textContent = garden().about;
  parts.comment.textContent = comment();
  parts.more.hidden = garden().mostPaths === 1;
  parts.more.disabled = !isShown() || drawn.length === garden().mostPaths;
  parts.clear.disabled = !drawn.length;
  parts.next.disabled = number + 1 === gardens.length;
  parts.best.textContent = bestOf(number) > 0 ? `Your best here: ${percentOf(bestOf(number), most())}` : "";
  drawMeter(parts.meter, { reward: isShown() ? answer().reward : 0, most: most(), label: "What Pip earns" });
  board.redraw();
}

function choose(k) {
  [number, drawn, pip] = [k, [], null];
  replay.stop();
  board.setMode({ ...pathsOf(k).mode, layers });
  draw();
}

export function openChallenges() {
  choose(number);
}

export function closeChallenges() {
  replay.stop();
}

export function startChallenges() {
  parts = partsOf("panel-play", {
    more: () => pathsOf(number).begin(),
    clear: () => pathsOf(number).clear(),
    next: () => choose(number + 1),
  });
  board = new Board(parts.picture, () => garden().world);
  onLook(() => isAt("play") && draw());
}
