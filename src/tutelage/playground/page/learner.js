// The second tab: the learner's preferences and model.

import { byId, h, numberOf } from "./dom.js";
import { allPreferences, getLearner, getWorld, onChange, presetFlags, presetName, setLearner } from "./state.js";
import { redraw } from "./stage.js";
import { PRESETS, preferenceName } from "./world.js";

const ABOUT = {
  L1: "avoids nothing",
  L2: "green within 1",
  L3: "green within 2, yellow",
  L4: "green within 2, yellow within 1",
  L5: "green and yellow within 2",
};

function showLearner() {
  const learner = getLearner(),
    name = presetName();
  for (const preset of Object.keys(PRESETS)) byId(`preset-${preset}`).checked = preset === name;
  allPreferences().forEach((_, k) => {
    byId(`avoids-${k}`).checked = learner.isAvoided[k];
    byId(`allowance-${k}`).value = learner.allowances[k];
    byId(`allowance-${k}`).disabled = !learner.isAvoided[k];
  });
  document.querySelector(`input[name=model][value=${learner.model}]`).checked = true;
  byId("penalties").hidden = learner.model === "hard";
  for (const [id, key] of [
    ["mismatch", "mismatch_penalty"],
    ["violation", "violation_penalty"],
  ]) {
    byId(id).value = learner[key];
    byId(`${id}-shown`).textContent = learner[key];
  }
  redraw();
}

const replaced = (list, k, value) => list.map((old, j) => (j === k ? value : old));

export function startLearner() {
  byId("presets").append(
    ...Object.keys(PRESETS).map((name) =>
      h(
        "label",
        { title: ABOUT[name] },
        h("input", {
          type: "radio",
          name: "preset",
          id: `preset-${name}`,
          onchange: () => setLearner({ isAvoided: presetFlags(name) }),
        }),
        name,
      ),
    ),
  );
  byId("preferences").tBodies[0].append(
    ...allPreferences().map(({ colour, distance }, k) => {
      const name = preferenceName(colour, distance);
      const avoids = h("input", {
        type: "checkbox",
        id: `avoids-${k}`,
        onchange: (event) => setLearner({ isAvoided: replaced(getLearner().isAvoided, k, event.target.checked) }),
      });
      const allowance = h("input", {
        type: "number",
        id: `allowance-${k}`,
        min: 0,
        max: 10000,
        step: 0.5,
        "aria-label": `Allowance for ${name}`,
        onchange: (event) => {
          const value = numberOf(event.target);
          if (value === null) showLearner();
          else setLearner({ allowances: replaced(getLearner().allowances, k, value) });
        },
      });
      return h("tr", {}, h("td", {}, h("label", {}, avoids, name)), h("td", {}, allowance));
    }),
  );
  byId("set-allowances").addEventListener("click", () => {
    const value = numberOf(byId("every-allowance"));
    if (value !== null) setLearner({ allowances: allPreferences().map(() => value) });
  });
  for (const radio of document.querySelectorAll("input[name=model]")) {
    radio.addEventListener("change", () => setLearner({ model: radio.value }));
  }
  byId("mismatch").addEventListener("input", (event) => setLearner({ mismatch_penalty: Number(event.target.value) }));
  byId("violation").addEventListener("input", (event) => setLearner({ violation_penalty: Number(event.target.value) }));
  onChange((what) => {
    if (what === "learner") showLearner();
    if (what === "world") byId("all-visits").textContent = Math.round(1 / (1 - getWorld().discount));
  });
  showLearner();
}
