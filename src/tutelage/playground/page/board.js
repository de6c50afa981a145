// A grid that can be touched: pointers and keys become moves over cells, which the mode of the board handles.

import { isTouched, tell } from "./dom.js";
import { onLook } from "./look.js";
import { cellAt, draw, groundOf } from "./pictures.js";
import { MOVES, describe, neighbour, wayTo } from "./world.js";

export class Board {
  // getWorld(): the world now; hint: an element for the mode's hint.
  constructor(svg, getWorld, hint = null) {
    Object.assign(this, { svg, getWorld, hint, cursor: 0, mode: {}, isDown: false, last: null, tapped: null });
    svg.addEventListener("pointerdown", (event) => this.down(event));
    svg.addEventListener("pointermove", (event) => this.move(event));
    svg.addEventListener("pointerup", (event) => this.up(event));
    svg.addEventListener("pointercancel", () => Object.assign(this, { isDown: false, tapped: null }));
    svg.addEventListener("touchstart", (event) => this.isDown && event.preventDefault(), { passive: false });
    svg.addEventListener("keydown", (event) => this.key(event));
    svg.addEventListener("focus", () => this.redraw());
    svg.addEventListener("blur", () => this.redraw());
    onLook(() => this.redraw());
  }

  // mode: hint and touchHint, sentences; layers(), what is drawn on the world; press(cell), drag(cell), release(cell);
  // act(cell), for the space bar; key(event), true if it handled the key; isGrip(cell), true where a finger draws.
  // isWalking: the mode handles the arrow keys, and no cursor is drawn. after(svg): called when the grid is drawn.
  setMode(next) {
    this.mode = next;
    if (this.hint) this.hint.textContent = (isTouched() ? next.touchHint : next.hint) ?? "";
    this.redraw();
  }

  redraw() {
    const world = this.getWorld(),
      { svg, mode } = this;
    if (!world) return;
    this.cursor = Math.min(this.cursor, world.size * world.size - 1);
    const layers = mode.layers?.() ?? {};
    const isMarked = document.activeElement === svg && !mode.isWalking;
    const cursor = isMarked ? this.cursor : layers.cursor;
    draw(svg, groundOf({ world }), { ...layers, isTouched: true, cursor });
    const place = mode.isWalking ? (layers.paths?.at(-1)?.at(-1) ?? world.start) : this.cursor;
    svg.setAttribute("aria-activedescendant", `${svg.id}-${place}`);
    mode.after?.(svg);
  }

  press(cell) {
    this.svg.focus({ preventScroll: true });
    this.last = this.cursor = cell;
    this.mode.press?.(cell);
  }

  // A mouse or a pen draws. A finger draws from where the mode says, the end of a path; elsewhere it taps, or scrolls
  // the page.
  down(event) {
    const cell = cellAt(this.svg, this.getWorld(), event);
    if (event.button !== 0 || cell === null) return;
    if (event.pointerType === "touch" && !this.mode.isGrip?.(cell)) {
      this.tapped = { x: event.clientX, y: event.clientY };
      return;
    }
    event.preventDefault();
    this.svg.setPointerCapture(event.pointerId);
    this.isDown = true;
    this.press(cell);
  }

  move(event) {
    const cell = this.isDown ? cellAt(this.svg, this.getWorld(), event) : null;
    if (cell === null || cell === this.last) return;
    // A fast pointer skips cells.
    for (const passed of wayTo(this.getWorld(), this.last, cell)) this.mode.drag?.(passed);
    this.last = this.cursor = cell;
  }

  up(event) {
    const { tapped } = this;
    const isTap = tapped && Math.hypot(event.clientX - tapped.x, event.clientY - tapped.y) < 10;
    const cell = isTap ? cellAt(this.svg, this.getWorld(), event) : null;
    if (cell !== null) this.press(cell);
    if (this.isDown || cell !== null) this.mode.release?.(this.last);
    Object.assign(this, { isDown: false, tapped: null });
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { mode } = this,
      world = this.getWorld();
    if (mode.key?.(event)) event.preventDefault();
    else if (event.key in MOVES) {
      this.cursor = neighbour(world, this.cursor, MOVES[event.key]) ?? this.cursor;
      event.preventDefault();
      this.redraw();
    } else if ((event.key === " " || event.key === "Enter") && mode.act) {
      event.preventDefault();
      mode.act(this.cursor);
      tell(describe(this.getWorld(), this.cursor, mode.layers?.().avoided));
    }
  }
}
