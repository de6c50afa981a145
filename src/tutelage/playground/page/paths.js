// Paths drawn on the grid by dragging, tapping or with the keys; each begins at the start.

import { getWorld } from "./state.js";
import { complain } from "./dom.js";
import { MOVES, neighbour, wayTo } from "./world.js";

const LONGEST = 1000;

// The paths of one tab; the last one is being drawn. onChange: called after every change.
export class Paths {
  constructor(onChange, { most = 50 } = {}) {
    this.onChange = onChange;
    this.most = most;
    this.all = [];
  }

  get current() {
    return this.all.at(-1);
  }

  clear() {
    this.all = [];
    this.onChange();
  }

  remove(number) {
    this.all = this.all.filter((_, k) => k !== number);
    this.onChange();
  }

  begin() {
    if (this.current?.length === 1) return;
    if (this.all.length >= this.most && this.most > 1) {
      complain(`At most ${this.most} paths are possible.`);
      return;
    }
    if (this.most === 1) this.all = [];
    this.all = [...this.all, [getWorld().start]];
    this.onChange();
  }

  undoStep() {
    if (!this.current) return;
    const shorter = this.current.slice(0, -1);
    this.all = shorter.length ? [...this.all.slice(0, -1), shorter] : this.all.slice(0, -1);
    this.onChange();
  }

  add(...cells) {
    if (!this.current) this.begin();
    this.all = [...this.all.slice(0, -1), [...this.current, ...cells].slice(0, LONGEST)];
    this.onChange();
  }

  // Extend the path to a cell.
  reach(cell) {
    const world = getWorld();
    const way = wayTo(world, this.current?.at(-1) ?? world.start, cell);
    if (way.length || !this.current) this.add(...way);
  }

  // The mode for the stage. Pressing on the start begins a new path, where several are allowed.
  get mode() {
    return {
      isWalking: true,
      press: (cell) => {
        if (cell === getWorld().start && (this.current?.length ?? 0) > 1) this.begin();
        else this.reach(cell);
      },
      drag: (cell) => this.reach(cell),
      key: (event) => this.key(event),
    };
  }

  key(event) {
    const world = getWorld(),
      at = this.current?.at(-1) ?? world.start;
    if (event.key in MOVES) {
      const next = neighbour(world, at, MOVES[event.key]);
      if (next !== null) this.add(next);
    } else if (event.key === " ") this.add(at);
    else if (event.key === "Backspace") this.undoStep();
    else if (event.key === "Enter") this.begin();
    else return false;
    return true;
  }
}
