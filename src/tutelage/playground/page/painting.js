// Painting the world: the brushes, marks that are dragged, undo and redo.

import { byId, h, refill, tell } from "./dom.js";
import { icon } from "./marks.js";
import { onLook } from "./look.js";
import { canRedo, canUndo, endStroke, getWorld, onChange, redo, setWorld, undo } from "./scene.js";
import { COLOURS, OBJECTS, holder, moved, painted } from "./world.js";

const BRUSHES = [...OBJECTS, ...COLOURS, "start", "erase"];
const KEYS = { s: "star", p: "plus", d: "dot", g: "green", y: "yellow", t: "start", e: "erase" };

let brush = "star";
// What the pointer does: it drags the mark `held` from the cell `origin`, or paints a stroke. A stroke that starts on the
// brush's own mark erases.
let before = null,
  held = null,
  origin = null,
  isMoved = false,
  isErasing = false;

const markAt = (world, cell) =>
  holder(world.objects, cell) ?? (cell === world.start ? "start" : holder(world.distractors, cell));

function begin(cell) {
  [before, origin, isMoved] = [getWorld(), cell, false];
  held = markAt(before, cell);
  if (!held) paint(cell);
}

function drag(cell) {
  if (held) {
    isMoved = true;
    setWorld(moved(before, held, origin, cell), "paint");
  } else setWorld(painted(getWorld(), brush, cell, isErasing), "paint");
}

function release(cell) {
  if (held && !isMoved) paint(cell);
  held = null;
  endStroke();
}

function paint(cell) {
  const world = getWorld();
  isErasing = [holder(world.objects, cell), holder(world.distractors, cell)].includes(brush);
  setWorld(painted(world, brush, cell, isErasing), "paint");
}

export const paintMode = {
  hint: "Click to paint the chosen mark; drag a mark to move it. By keys: arrows and space; s p d g y t e choose the mark.",
  touchHint: "Tap to paint the chosen mark; drag a mark to move it.",
  isGrip: (cell) => markAt(getWorld(), cell) !== null,
  press: begin,
  drag,
  release,
  act: (cell) => {
    paint(cell);
    endStroke();
  },
  key: (event) => {
    const chosen = KEYS[event.key.toLowerCase()];
    if (!chosen) return false;
    brush = chosen;
    drawBrushes();
    tell(`Brush: ${chosen}`);
    return true;
  },
};

function drawBrushes() {
  const choice = (name) => {
    const attributes = { type: "radio", name: "brush", value: name, checked: name === brush, "aria-label": name };
    return h("label.brush", { title: name }, h("input", { ...attributes, onchange: () => (brush = name) }), icon(name));
  };
  refill(byId("brushes"), BRUSHES.map(choice));
}

export function startPainting() {
  drawBrushes();
  onLook(drawBrushes);
  byId("undo").addEventListener("click", undo);
  byId("redo").addEventListener("click", redo);
  document.addEventListener("keydown", (event) => {
    const isText = event.target.matches("input:not([type=radio], [type=range], [type=checkbox]), textarea");
    if (!(event.ctrlKey || event.metaKey) || isText) return;
    const key = event.key.toLowerCase();
    if (key !== "z" && key !== "y") return;
    event.preventDefault();
    if (key === "z" && !event.shiftKey) undo();
    else redo();
  });
  onChange((what) => {
    if (!["world", "learner", "teachers", "paths"].includes(what)) return;
    byId("undo").disabled = !canUndo();
    byId("redo").disabled = !canRedo();
  });
}
