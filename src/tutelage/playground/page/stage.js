// The grid on the left; the open tab draws on it and handles its events.

import { byId, h, tell } from "./dom.js";
import { cellAt, drawGrid, icon } from "./grid.js";
import { getWorld } from "./state.js";
import { MOVES, describe, neighbour, wayTo } from "./world.js";

const svg = byId("grid");
let cursor = 0;
let mode = {};

// mode: hint, a sentence; layers(), what is drawn on the world; press(cell), drag(cell); act(cell), for the space bar;
// key(event), true if it handled the key. isWalking: the mode handles the arrow keys, and no cursor is drawn.
export function setMode(next) {
  mode = next;
  // In other modes, dragging a finger scrolls the page.
  svg.classList.toggle("is-drawn-on", Boolean(next.press));
  byId("stage-hint").textContent = next.hint;
  redraw();
}

export function redraw() {
  const world = getWorld();
  if (!world) return;
  cursor = Math.min(cursor, world.size * world.size - 1);
  const layers = mode.layers?.() ?? {};
  const isMarked = document.activeElement === svg && !mode.isWalking;
  drawGrid(svg, { world, ...layers, isGrid: true, cursor: isMarked ? cursor : undefined });
  const place = mode.isWalking ? (layers.paths?.at(-1)?.at(-1) ?? world.start) : cursor;
  svg.setAttribute("aria-activedescendant", `grid-${place}`);
}

export function drawLegend() {
  const marks = {
    star: "star",
    plus: "plus",
    dot: "dot",
    start: "start",
    green: "green",
    yellow: "yellow",
    avoided: "avoided",
  };
  byId("legend").replaceChildren(...Object.entries(marks).map(([kind, name]) => h("li", {}, icon(kind), name)));
}

let isDown = false,
  last = null;

svg.addEventListener("pointerdown", (event) => {
  const cell = cellAt(svg, getWorld(), event);
  if (event.button !== 0 || cell === null) return;
  event.preventDefault();
  svg.focus({ preventScroll: true });
  svg.setPointerCapture(event.pointerId);
  [isDown, last, cursor] = [true, cell, cell];
  mode.press?.(cell);
});

svg.addEventListener("pointermove", (event) => {
  const cell = isDown ? cellAt(svg, getWorld(), event) : null;
  if (cell === null || cell === last) return;
  // A fast pointer skips cells.
  for (const passed of wayTo(getWorld(), last, cell)) mode.drag?.(passed);
  [last, cursor] = [cell, cell];
});

for (const end of ["pointerup", "pointercancel"]) {
  svg.addEventListener(end, () => {
    isDown = false;
  });
}

svg.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (mode.key?.(event)) {
    event.preventDefault();
    return;
  }
  const world = getWorld();
  if (event.key in MOVES) {
    cursor = neighbour(world, cursor, MOVES[event.key]) ?? cursor;
    redraw();
  } else if ((event.key === " " || event.key === "Enter") && mode.act) {
    mode.act(cursor);
    tell(describe(getWorld(), cursor));
  } else return;
  event.preventDefault();
});

svg.addEventListener("focus", redraw);
svg.addEventListener("blur", redraw);
