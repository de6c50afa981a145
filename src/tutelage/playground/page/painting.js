// Painting the world: the brushes, undo and redo.

import { byId, h, refill, tell } from "./dom.js";
import { icon } from "./grid.js";
import { onLook } from "./look.js";
import { canRedo, canUndo, getWorld, onChange, paintWorld, redo, undo } from "./scene.js";
import { COLOURS, OBJECTS, holder, painted } from "./world.js";

const BRUSHES = [...OBJECTS, ...COLOURS, "start", "erase"];
const KEYS = { s: "star", p: "plus", d: "dot", g: "green", y: "yellow", t: "start", e: "erase" };

let brush = "star";
// A stroke that starts on the brush's own mark erases.
let before = null,
  isErasing = false;

function begin(cell) {
  before = getWorld();
  isErasing = [holder(before.objects, cell), holder(before.distractors, cell)].includes(brush);
  apply(cell);
}

function apply(cell) {
  paintWorld(painted(getWorld(), brush, cell, isErasing), before);
}

export const paintMode = {
  hint: "Paint: choose a mark, then click or drag. By keys: arrows and space; s p d g y t e choose the mark.",
  touchHint: "Paint: choose a mark, then tap a cell.",
  press: begin,
  drag: apply,
  act: begin,
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
  refill(
    byId("brushes"),
    BRUSHES.map((name) =>
      h(
        "label",
        { title: name },
        h("input", {
          type: "radio",
          name: "brush",
          value: name,
          checked: name === brush,
          "aria-label": name,
          onchange: () => {
            brush = name;
          },
        }),
        icon(name),
      ),
    ),
  );
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
    if (what !== "world") return;
    byId("undo").disabled = !canUndo();
    byId("redo").disabled = !canRedo();
  });
}
