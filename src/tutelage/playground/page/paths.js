// Paths drawn on the grid by dragging, tapping or with the keys; each begins at the start.

import { complain } from "./dom.js";
import { getWorld } from "./scene.js";
import { MOVES, neighbour, wayTo } from "./world.js";

const LONGEST = 1000;

// The paths of one view; the last one is being drawn. get(), set(paths): where they are kept.
export class Paths {
  constructor({ get, set, most = 50 }) {
    Object.assign(this, { get, set, most });
  }

  get all() {
    return this.get();
  }

  get current() {
    return this.all.at(-1);
  }

  clear() {
    this.set([]);
  }

  remove(number) {
    this.set(this.all.filter((_, k) => k !== number));
  }

  begin() {
    if (this.current?.length === 1) return;
    if (this.all.length >= this.most && this.most > 1) {
      complain(`At most ${this.most} paths are possible.`);
      return;
    }
    this.set([...(this.most === 1 ? [] : this.all), [getWorld().start]]);
  }

  undoStep() {
    if (!this.current) return;
    const shorter = this.current.slice(0, -1);
    this.set(shorter.length > 1 ? [...this.all.slice(0, -1), shorter] : this.all.slice(0, -1));
  }

  add(...cells) {
    const before = this.current ? this.all.slice(0, -1) : [];
    this.set([...before, [...(this.current ?? [getWorld().start]), ...cells].slice(0, LONGEST)]);
  }

  // Extend the path to a cell.
  reach(cell) {
    const world = getWorld();
    const way = wayTo(world, this.current?.at(-1) ?? world.start, cell);
    if (way.length) this.add(...way);
  }

  // The mode for the stage. Pressing on the start begins a new path, where several are allowed.
  get mode() {
    return {
      isWalking: true,
      isGrip: (cell) => cell === (this.current?.at(-1) ?? getWorld().start),
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
