// The first tab: paint a world, load one, share it.

import { ask } from "./api.js";
import { byId, complain, copy, h, numberOf, tell } from "./dom.js";
import { icon } from "./grid.js";
import { canRedo, canUndo, getWorld, avoidedPreferences, onChange, paintWorld, redo, setWorld, undo } from "./state.js";
import { redraw } from "./stage.js";
import { COLOURS, OBJECTS, avoidedCells, changed, emptyWorld, holder, painted, resized, toLink } from "./world.js";

const BRUSHES = [...OBJECTS, ...COLOURS, "start", "erase"];
const KEYS = { s: "star", p: "plus", d: "dot", g: "green", y: "yellow", t: "start", e: "erase" };

const brush = () => document.querySelector("input[name=brush]:checked").value;

// A stroke that starts on the brush's own mark erases.
let before = null,
  isErasing = false;

function begin(cell) {
  before = getWorld();
  isErasing = [holder(before.objects, cell), holder(before.distractors, cell)].includes(brush());
  apply(cell);
}

function apply(cell) {
  paintWorld(painted(getWorld(), brush(), cell, isErasing), before);
}

export const paintMode = {
  hint: "Paint by dragging, or with the arrow keys and the space bar; the keys s p d g y t e choose a brush.",
  layers: () => ({ avoided: avoidedCells(getWorld(), avoidedPreferences()) }),
  press: begin,
  drag: apply,
  act: begin,
  key: (event) => {
    const chosen = KEYS[event.key.toLowerCase()];
    if (!chosen) return false;
    byId(`brush-${chosen}`).checked = true;
    tell(`Brush: ${chosen}`);
    return true;
  },
};

// Load a world from a JSON text, which the server checks.
export async function adopt(text, from) {
  setWorld(await ask("/api/world", text));
  tell(`Loaded ${from}.`);
}

async function attempt(action) {
  try {
    await action();
  } catch (error) {
    complain(error.message);
  }
}

function showWorld() {
  const world = getWorld();
  byId("undo").disabled = !canUndo();
  byId("redo").disabled = !canRedo();
  byId("world-name").textContent = world.generator
    ? `World ${world.generator}:${world.seed}:${world.size}`
    : `Your own world, ${world.size}×${world.size}`;
  byId("size").value = world.size;
  OBJECTS.forEach((kind, k) => {
    byId(`weight-${kind}`).value = world.weights[k];
  });
  byId("discount").value = world.discount;
  byId("end-probability").value = world.end_probability;
  byId("link").value = toLink(world);
  redraw();
}

function wireNumbers() {
  const fields = [...OBJECTS.map((kind) => `weight-${kind}`), "discount", "end-probability"];
  for (const id of fields) {
    byId(id).addEventListener("change", () => {
      const numbers = fields.map((name) => numberOf(byId(name)));
      if (numbers.includes(null)) return;
      const [star, plus, dot, discount, end_probability] = numbers;
      setWorld(changed(getWorld(), { weights: [star, plus, dot], discount, end_probability }));
    });
  }
}

export function startPainting() {
  byId("brushes").append(
    ...BRUSHES.map((name, k) =>
      h(
        "label",
        {},
        h("input", { type: "radio", name: "brush", id: `brush-${name}`, value: name, checked: k === 0 }),
        icon(name),
        name,
      ),
    ),
  );
  byId("undo").addEventListener("click", undo);
  byId("redo").addEventListener("click", redo);
  document.addEventListener("keydown", (event) => {
    if (
      !(event.ctrlKey || event.metaKey) ||
      event.target.matches("input:not([type=radio], [type=range], [type=checkbox])")
    )
      return;
    const key = event.key.toLowerCase();
    if (key !== "z" && key !== "y") return;
    event.preventDefault();
    if (key === "z" && !event.shiftKey) undo();
    else redo();
  });
  byId("load-published").addEventListener("click", () =>
    attempt(async () => {
      const seed = numberOf(byId("seed")),
        size = numberOf(byId("published-size"));
      if (seed === null || size === null) return;
      setWorld(await ask(`/api/world/${byId("generator").value}/${seed}/${size}`));
      tell("Loaded.");
    }),
  );
  byId("resize").addEventListener("click", () => {
    const size = numberOf(byId("size"));
    if (size !== null) setWorld(resized(getWorld(), size));
  });
  byId("clear").addEventListener("click", () => setWorld(emptyWorld(getWorld().size)));
  byId("file").addEventListener("change", (event) =>
    attempt(async () => {
      const [file] = event.target.files;
      if (!file) return;
      event.target.value = "";
      await adopt(await file.text(), file.name);
    }),
  );
  byId("copy-link").addEventListener("click", () => copy(byId("link").value, byId("link")));
  wireNumbers();
  onChange((what) => {
    if (what === "world") showWorld();
  });
}
