// A domain, a world, a scene, a story or rounds from a file: dropped on the page, chosen, or given to `tutelage serve`.

import { ask } from "./api.js";
import { byId, complain, fromBase64, h, refill, s, tell, toBase64 } from "./dom.js";
import { onLook } from "./look.js";
import { drawMap, placesOf } from "./map.js";
import { showFilm } from "./rounds.js";
import { asked, getScene, onChange, setBrought, setLearner, setWorld, viewOf } from "./scene.js";
import { setStory } from "./telling.js";

const LARGEST = 2 * 1024 * 1024;
const LARGEST_QUICK = 400;
let go = null,
  adopt = null;

async function bringDomain(name, file) {
  const about = await ask("/api/domain", { file });
  const avoided = about.preference_names.map(() => true);
  // The lesson for a learner that never breaks its rules is planned faster.
  if (about.n_states > LARGEST_QUICK) setLearner({ model: "hard" });
  setBrought({
    name,
    file,
    about,
    weights: about.true_weights ?? about.reward_names.map(() => 0),
    isWeighed: Boolean(about.true_weights),
    isAvoided: avoided,
    allowances: avoided.map(() => 0),
  });
  tell(`Opened ${name}: ${about.n_states} states.`);
  go("compare");
}

// An .npz file is a domain, or a transcript of the scene that is open.
async function bringArchive(name, bytes) {
  const file = toBase64(bytes);
  try {
    await bringDomain(name, file);
  } catch (error) {
    if (!error.message.includes("tutelage transcript")) throw error;
    const scene = asked();
    const { rounds, ended } = await ask("/api/domain/transcript/read", { file, scene });
    await go("rounds");
    showFilm({ ...scene, teacher: getScene().adaptive, max_rounds: rounds.length }, rounds, ended);
    tell(`Opened ${name}: ${rounds.length} rounds.`);
  }
}

async function bringText(name, text) {
  let found;
  try {
    found = JSON.parse(text);
  } catch {
    throw new Error("it is neither JSON nor an .npz file");
  }
  if (found?.steps) {
    await ask("/api/world", found.world);
    setStory(found);
    await go("compare");
    go("story-0");
  } else if (Array.isArray(found?.rounds) && found.request) {
    const { request, rounds, ended } = found;
    if (!request.world) throw new Error("these rounds belong to a domain; bring its .npz file and their .npz file");
    setWorld(await ask("/api/world", request.world));
    if (rounds[0]?.visits) {
      await go("rounds");
      showFilm({ max_rounds: rounds.length, teacher: getScene().adaptive, ...request }, rounds, ended);
    } else go("compare");
  } else if (found?.learner && found?.teachers) {
    await adopt(found);
    go(found.place ?? "compare");
  } else {
    setWorld(await ask("/api/world", text));
    go("compare");
  }
  tell(`Opened ${name}.`);
}

export async function bring(name, blob) {
  try {
    if (blob.size > LARGEST) throw new Error(`it has ${blob.size} bytes; the page takes at most ${LARGEST}`);
    const bytes = new Uint8Array(await blob.arrayBuffer());
    const isArchive = bytes[0] === 0x50 && bytes[1] === 0x4b;
    if (isArchive) await bringArchive(name, bytes);
    else await bringText(name, new TextDecoder().decode(bytes));
  } catch (error) {
    complain(`${name} cannot be used: ${error.message}`);
  }
}

// The file that the server was started with.
export async function bringFirst() {
  const { name, file } = await ask("/api/opened");
  if (name) await bring(name, new Blob([fromBase64(file)]));
  return name !== null;
}

// The file does not say what is good in its domain, so the person does.
function question(brought) {
  const values = [
    [1, "+ good"],
    [0, "0 neither"],
    [-1, "− bad"],
  ];
  const chosen = [...brought.weights];
  const row = (name, k) =>
    h(
      "fieldset",
      { class: "segmented" },
      h("legend", {}, name),
      values.map(([value, text]) =>
        h(
          "label",
          {},
          h("input", {
            type: "radio",
            name: `worth-${k}`,
            checked: value === chosen[k],
            "aria-label": `${name}: ${text}`,
            onchange: () => {
              chosen[k] = value;
            },
          }),
          h("span", {}, text),
        ),
      ),
    );
  const teach = () => setBrought({ ...getScene().brought, weights: chosen, isWeighed: true });
  return h(
    "div",
    { class: "inside", id: "worth" },
    h("p", { class: "verdict" }, "What is good here, and what is bad?"),
    brought.about.reward_names.map(row),
    h("button", { type: "button", class: "main", onclick: teach }, "Teach with this"),
  );
}

// Above the controls: what is open, and how to open something else.
function draw() {
  const { brought } = getScene();
  const input = h("input", {
    type: "file",
    id: "file",
    accept: ".json,.npz,application/json",
    "aria-label": "Open a file",
  });
  input.addEventListener("change", () => {
    const [file] = input.files;
    if (file) bring(file.name, file);
  });
  const opener = h(
    "label",
    { class: "file", title: "Drop a file anywhere: a domain (.npz), a world, rounds or a story (.json)" },
    "Open a file",
    input,
  );
  if (!brought) {
    const { world } = getScene();
    const name = world.generator
      ? `World ${world.generator}:${world.seed}:${world.size}`
      : `Your world, ${world.size} × ${world.size}`;
    refill(byId("ground"), h("div", { class: "ground-head" }, h("h2", { id: "world-name" }, name), opener));
    return;
  }
  const { about, name } = brought;
  const starts = about.state_names
    ? `, from ${about.starts
        .slice(0, 3)
        .map((state) => about.state_names[state])
        .join(", ")}`
    : "";
  const picture = placesOf(about) ? s("svg", { class: "picture", role: "img", "aria-label": `Map of ${name}` }) : null;
  if (picture) drawMap(picture, { about, avoided: viewOf(asked()).avoided });
  refill(
    byId("ground"),
    h("div", { class: "ground-head" }, h("h2", { id: "world-name" }, name), opener),
    h(
      "p",
      { class: "hint" },
      `${about.n_states} states, ${about.n_choices} choices${starts}. ${picture ? "" : "It has no coordinates, so bars stand for maps."}`,
    ),
    picture,
    brought.isWeighed ? null : question(brought),
    h("button", { type: "button", onclick: () => setBrought(null) }, "Return to the painted world"),
  );
}

export function startBringing(page) {
  ({ go, adopt } = page);
  addEventListener("dragover", (event) => {
    event.preventDefault();
    document.body.classList.add("dropping");
  });
  addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) document.body.classList.remove("dropping");
  });
  addEventListener("drop", (event) => {
    event.preventDefault();
    document.body.classList.remove("dropping");
    const [file] = event.dataTransfer.files;
    if (file) bring(file.name, file);
  });
  onChange((what) => {
    if (what === "world" || what === "learner") draw();
  });
  onLook(draw);
  draw();
}
