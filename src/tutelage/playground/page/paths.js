// Paths drawn on a grid by dragging, tapping or with the keys; each begins at the start.

import { complain } from "./dom.js";
import { getWorld } from "./scene.js";
import { MOVES, neighbour, wayTo } from "./world.js";

// The paths of one view; the last one is being drawn. get(), set(paths): where they are kept; world(): the grid;
// endsAt(cell): a path ends there, and going back along a path takes steps away.
export class Paths {
  constructor({ get, set, world = getWorld, most = 50, longest = 1000, endsAt = null }) {
    Object.assign(this, { get, set, world, most, longest, endsAt });
  }

  get all() {
    return this.get();
  }

  get current() {
    return this.all.at(-1);
  }

  get end() {
    return this.current?.at(-1) ?? this.world().start;
  }

  get isOver() {
    return (this.current?.length ?? 0) > 1 && Boolean(this.endsAt?.(this.end));
  }

  clear() {
    this.set([]);
  }

  remove(number) {
    this.set(this.all.filter((_, k) => k !== number));
  }

  begin() {
    if (this.current?.length === 1) return;
    if (this.all.length >= this.most && this.most > 2) {
      complain(`At most ${this.most} paths are possible.`);
      return;
    }
    this.set([...(this.all.length >= this.most ? [] : this.all), [this.world().start]]);
  }

  undoStep() {
    if (!this.current) return;
    const shorter = this.current.slice(0, -1);
    this.set(shorter.length > 1 ? [...this.all.slice(0, -1), shorter] : this.all.slice(0, -1));
  }

  add(...cells) {
    const before = this.current ? this.all.slice(0, -1) : [];
    let path = this.current ?? [this.world().start];
    for (const cell of cells) {
      if (this.endsAt && cell === path.at(-2)) path = path.slice(0, -1);
      else if (path.length <= this.longest && !(path.length > 1 && this.endsAt?.(path.at(-1)))) path = [...path, cell];
    }
    this.set([...before, path]);
  }

  // Extend the path to a cell.
  reach(cell) {
    const way = wayTo(this.world(), this.end, cell);
    if (way.length) this.add(...way);
  }

  // The mode for a board. Pressing on the start begins a new path; so does pressing anywhere after a path has ended.
  get mode() {
    return {
      isWalking: true,
      isGrip: (cell) => cell === this.end || (this.isOver && cell === this.world().start),
      press: (cell) => {
        if (this.isOver ? cell !== this.end : cell === this.world().start && (this.current?.length ?? 0) > 1)
          this.begin();
        if (!this.isOver) this.reach(cell);
      },
      drag: (cell) => this.reach(cell),
      key: (event) => this.key(event),
    };
  }

  key(event) {
    const { end } = this;
    if (event.key in MOVES) {
      const next = neighbour(this.world(), end, MOVES[event.key]);
      if (next !== null && this.isOver && next !== this.current.at(-2)) this.begin();
      else if (next !== null) this.add(next);
    } else if (event.key === " " && !this.endsAt) this.add(end);
    else if (event.key === "Backspace") this.undoStep();
    else if (event.key === "Enter") this.begin();
    else return false;
    return true;
  }
}
