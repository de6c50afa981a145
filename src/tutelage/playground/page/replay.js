// Figures that walk over a grid, one step after the other. With reduced motion they stand at the end of their walk.

import { isStill } from "./look.js";
import { middle } from "./world.js";

const STEP = 260;

export class Replay {
  // onFrame(places): called with the place of each figure, and with the share of the walk that is done.
  constructor(onFrame) {
    this.onFrame = onFrame;
    this.frame = null;
  }

  stop() {
    cancelAnimationFrame(this.frame);
    this.frame = null;
  }

  // Walk along the cells of a grid, then call onEnd.
  start(walk, size, { onEnd = () => {} } = {}) {
    this.stop();
    const last = walk.length - 1;
    if (isStill() || last < 1) {
      this.onFrame(middle(walk[last], size), 1);
      onEnd();
      return;
    }
    const began = performance.now();
    const tick = (now) => {
      const time = Math.max(0, Math.min(last, (now - began) / STEP));
      const k = Math.min(last - 1, Math.floor(time));
      const [from, to] = [middle(walk[k], size), middle(walk[k + 1], size)];
      this.onFrame(
        [0, 1].map((axis) => from[axis] + (to[axis] - from[axis]) * (time - k)),
        time / last,
      );
      if (time < last) this.frame = requestAnimationFrame(tick);
      else {
        this.frame = null;
        onEnd();
      }
    };
    this.frame = requestAnimationFrame(tick);
  }
}
