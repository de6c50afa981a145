// The second tab: the learner's preferences and model.

import { byId, h, numberOf } from "./dom.js";
import { players } from "./players.js";
import { allPreferences, getLearner, getWorld, onChange, presetFlags, presetName, setLearner } from "./state.js";
import { redraw } from "./stage.js";

const PRESETS = Object.keys(players.presets);

function showLearner() {
  const learner = getLearner(),
    name = presetName();
  for (const preset of PRESETS) byId(`preset-${preset}`).checked = preset === name;
  allPreferences().forEach((_, k) => {
    byId(`avoids-${k}`).checked = learner.isAvoided[k];
    byId(`allowance-${k}`).value = learner.allowances[k];
    byId(`allowance-${k}`).disabled = !learner.isAvoided[k];
  });
  document.querySelector(`input[name=model][value=${learner.model}]`).checked = true;
  const { options } = players.learner_models[learner.model];
  for (const [id, key] of [
    ["mismatch", "mismatch_penalty"],
    ["violation", "violation_penalty"],
  ]) {
    byId(`${id}-field`).hidden = !(key in options);
    byId(id).value = learner[key];
    byId(`${id}-shown`).textContent = learner[key];
  }
  redraw();
}

const replaced = (list, k, value) => list.map((old, j) => (j === k ? value : old));

export function startLearner() {
  byId("presets").append(
    ...PRESETS.map((name) =>
      h(
        "label",
        { title: players.presets[name].about },
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
    ...allPreferences().map(({ name }, k) => {
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
  byId("models").append(
    ...Object.entries(players.learner_models).map(([model, { label, about }]) =>
      h(
        "label",
        { class: "choice" },
        h("input", { type: "radio", name: "model", value: model, onchange: () => setLearner({ model }) }),
        ` ${label}: ${about}`,
      ),
    ),
  );
  byId("mismatch").addEventListener("input", (event) => setLearner({ mismatch_penalty: Number(event.target.value) }));
  byId("violation").addEventListener("input", (event) => setLearner({ violation_penalty: Number(event.target.value) }));
  onChange((what) => {
    if (what === "learner") showLearner();
    if (what === "world") byId("all-visits").textContent = Math.round(1 / (1 - getWorld().discount));
  });
  showLearner();
}
