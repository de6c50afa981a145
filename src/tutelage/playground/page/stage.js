// The grid on the left; the open view draws on it and handles its events.

import { byId, isTouched, tell } from "./dom.js";
import { cellAt, drawGrid } from "./grid.js";
import { onLook } from "./look.js";
import { asked, getScene, getWorld, viewOf } from "./scene.js";
import { MOVES, describe, neighbour, wayTo } from "./world.js";

const svg = byId("grid");
let cursor = 0;
let mode = {};

// mode: hint, a sentence; layers(), what is drawn on the world; press(cell), drag(cell); act(cell), for the space bar;
// key(event), true if it handled the key; isGrip(cell), true where a finger draws. touchHint: for fingers. isWalking: the mode handles the arrow keys, and no cursor is drawn.
export function setMode(next) {
  mode = next;
  byId("stage-hint").textContent = (isTouched() ? next.touchHint : next.hint) ?? "";
  redraw();
}

export function redraw() {
  if (getScene().brought) return;
  const world = getWorld();
  cursor = Math.min(cursor, world.size * world.size - 1);
  const layers = mode.layers?.() ?? { avoided: viewOf(asked()).avoided };
  const isMarked = document.activeElement === svg && !mode.isWalking;
  drawGrid(svg, { world, ...layers, isGrid: true, cursor: isMarked ? cursor : undefined });
  const place = mode.isWalking ? (layers.paths?.at(-1)?.at(-1) ?? world.start) : cursor;
  svg.setAttribute("aria-activedescendant", `grid-${place}`);
  mode.after?.(svg);
}

let isDown = false,
  last = null;

function press(cell) {
  svg.focus({ preventScroll: true });
  [last, cursor] = [cell, cell];
  mode.press?.(cell);
}

// A mouse or a pen draws. A finger draws from where the mode says, the end of a path; elsewhere it taps, or scrolls the
// page.
let tapped = null;

svg.addEventListener("pointerdown", (event) => {
  const cell = cellAt(svg, getWorld(), event);
  if (event.button !== 0 || cell === null) return;
  if (event.pointerType === "touch" && !mode.isGrip?.(cell)) {
    tapped = { x: event.clientX, y: event.clientY };
    return;
  }
  event.preventDefault();
  svg.setPointerCapture(event.pointerId);
  isDown = true;
  press(cell);
});

svg.addEventListener("touchstart", (event) => isDown && event.preventDefault(), { passive: false });

svg.addEventListener("pointerup", (event) => {
  const isTap = tapped && Math.hypot(event.clientX - tapped.x, event.clientY - tapped.y) < 10;
  const cell = isTap ? cellAt(svg, getWorld(), event) : null;
  tapped = null;
  if (cell !== null) press(cell);
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
    if (end === "pointercancel") tapped = null;
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
onLook(redraw);
