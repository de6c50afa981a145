// The colours of pictures. Each has one meaning: orange is shown, violet is believed, blue is done, red is avoided.

const LIGHT = {
  name: "light",
  cell: "#ffffff",
  line: "#e3dfd6",
  ink: "#23262d",
  halo: "#ffffff",
  soft: "#6b6f78",
  shown: "#d4600f",
  done: "#1668b3",
  good: "#5b33a8",
  bad: "#b3261e",
  avoided: "#f0e4e0",
  hatch: "#b56a5c",
  green: "#4c9a62",
  yellow: "#efcf45",
  reach: "#e7e3da",
};
const DARK = {
  name: "dark",
  cell: "#1d222b",
  line: "#343b47",
  ink: "#eef0f3",
  halo: "#14171d",
  soft: "#a3abb8",
  shown: "#ff9a4d",
  done: "#6db6ff",
  good: "#b79aff",
  bad: "#ff7a6e",
  avoided: "#33272a",
  hatch: "#a8625a",
  green: "#4fa568",
  yellow: "#d9bb3c",
  reach: "#2a303b",
};

const system = matchMedia("(prefers-color-scheme: dark)");
const motion = matchMedia("(prefers-reduced-motion: reduce)");
const listeners = new Set();

export const isDark = () => (document.documentElement.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
export const isStill = () => motion.matches;

// The colours on the page; those of a saved picture are always the light ones.
let isSaving = false;
export const look = () => (isDark() && !isSaving ? DARK : LIGHT);

export function inLight(draw) {
  isSaving = true;
  try {
    return draw();
  } finally {
    isSaving = false;
  }
}

export function onLook(listener) {
  listeners.add(listener);
}

export function setTheme(name) {
  document.documentElement.dataset.theme = name;
  for (const listener of listeners) listener();
}

system.addEventListener("change", () => listeners.forEach((listener) => listener()));
motion.addEventListener("change", () => listeners.forEach((listener) => listener()));

const channels = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));

// The colour between two others, at a share of the way.
export function mix(from, to, share) {
  const [a, b] = [channels(from), channels(to)];
  const hex = a.map((x, k) =>
    Math.round(x + (b[k] - x) * share)
      .toString(16)
      .padStart(2, "0"),
  );
  return `#${hex.join("")}`;
}

// A square-root scale: small values are visible beside large ones, and none is saturated.
const rootShare = (value, most) => (most > 0 ? Math.sqrt(Math.min(1, Math.abs(value) / most)) : 0);
export const beliefColour = (value, most) =>
  mix(look().cell, value < 0 ? look().bad : look().good, 0.92 * rootShare(value, most));
export const visitColour = (value, most) => mix(look().cell, look().done, 0.8 * rootShare(value, most));
