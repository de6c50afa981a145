// A crowd that walks over a picture: one disc per walk, all pictures in step. A disc fades when its walk ends.

import { s } from "./dom.js";
import { isStill, look } from "./look.js";

const STEP = 340;
const REST = 3;
const LONGEST = 30;
const SPREAD = 0.2;

// Picture -> {discs, paths, place, length}.
const crowds = new Map();
let frame = null;
const began = performance.now();

// Give a picture a crowd. paths: lists of states; place(state): its middle.
export function setCrowd(svg, { paths, place, colour }) {
  svg.querySelector(".crowd")?.remove();
  crowds.delete(svg);
  const walks = paths.filter((path) => path.length);
  if (!walks.length || isStill()) return;
  // Walks that only stay at their end need not be watched to the end.
  const lasting = walks.map((path) => path.findLastIndex((state, k) => k === 0 || state !== path[k - 1]));
  const length = Math.min(LONGEST, Math.max(...lasting) + 8);
  const discs = walks.map(() => s("circle", { r: 0.17, fill: colour, stroke: look().halo, "stroke-width": 0.05 }));
  svg.append(s("g", { class: "crowd", "aria-hidden": "true" }, ...discs));
  crowds.set(svg, { discs, walks, place, length });
  frame ??= requestAnimationFrame(tick);
}

const ease = (x) => (x < 0.5 ? 2 * x * x : 1 - 2 * (1 - x) * (1 - x));

function tick(now) {
  for (const [svg, crowd] of crowds) {
    if (!svg.isConnected) crowds.delete(svg);
    else if (svg.checkVisibility?.() ?? true) move(crowd, (now - began) / STEP);
  }
  frame = crowds.size ? requestAnimationFrame(tick) : null;
}

function move({ discs, walks, place, length }, time) {
  const now = time % (length + REST);
  walks.forEach((path, k) => {
    const at = Math.min(now, length);
    const step = Math.min(Math.floor(at), path.length - 1);
    const [x, y] = place(path[step]);
    const [nextX, nextY] = place(path[Math.min(step + 1, path.length - 1)]);
    const share = step === path.length - 1 ? 0 : ease(Math.min(1, (at - step) * 1.25));
    // The discs of one cell lie beside each other, on a spiral.
    const [angle, radius] = [k * 2.4, SPREAD * Math.sqrt(k / walks.length)];
    const ended = Math.max(0, at - (path.length - 1) - 0.4);
    const leaving = Math.max(0, now - length - 1);
    discs[k].setAttribute("cx", (x + (nextX - x) * share + radius * Math.cos(angle)).toFixed(3));
    discs[k].setAttribute("cy", (y + (nextY - y) * share + radius * Math.sin(angle)).toFixed(3));
    discs[k].setAttribute("opacity", Math.max(0, 1 - ended - leaving).toFixed(2));
  });
}
