// A domain, a world, a scene, a story or rounds from a file: dropped on the page, chosen, or given to `tutelage serve`.

import { ask } from "./api.js";
import { byId, complain, fromBase64, h, refill, s, segmented, tell, toBase64 } from "./dom.js";
import { onLook } from "./look.js";
import { nameOnHover } from "./panels.js";
import { draw as drawGround, groundOf } from "./pictures.js";
import { showFilm } from "./rounds.js";
import { asked, getScene, onChange, setBrought, setLearner, setWorld, viewOf } from "./scene.js";
import { setStory } from "./story.js";
import { storyOf } from "./telling.js";

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
    setStory(storyOf(found));
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

async function bring(name, blob) {
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
function question({ weights, about }) {
  const values = Object.entries({ "+ good": 1, "0 neither": 0, "− bad": -1 });
  const chosen = [...weights];
  const row = (name, k) => {
    const options = values.map(([text, value]) => [value, text, `${name}: ${text}`]);
    return segmented(`worth-${k}`, h("legend", name), options, chosen[k], (value) => (chosen[k] = value));
  };
  const missing = h("p.alert", { role: "alert" });
  const onclick = () => {
    if (chosen.some((value) => value !== 0)) setBrought({ ...getScene().brought, weights: chosen, isWeighed: true });
    else
      missing.textContent = "Call at least one of them good or bad: where nothing counts, there is nothing to teach.";
  };
  const sentence = h("p.verdict", "What is good here, and what is bad?");
  const rows = about.reward_names.map(row);
  return h("div#worth.inside", sentence, rows, missing, h("button.main", { onclick }, "Teach with this"));
}

// What is open, and how to open something else.
function head(name) {
  const onchange = ({ target }) => target.files[0] && bring(target.files[0].name, target.files[0]);
  const input = h("input#file", {
    type: "file",
    accept: ".json,.npz,application/json",
    "aria-label": "Open a file",
    onchange,
  });
  const title = "Drop a file anywhere: a domain (.npz), a world, rounds or a story (.json)";
  return h("div.ground-head", h("h2#world-name", name), h("label.file", { title }, "Open a file", input));
}

function draw() {
  const { brought, world } = getScene();
  if (!brought) {
    const { generator, seed, size } = world;
    refill(byId("ground"), head(generator ? `World ${generator}:${seed}:${size}` : `Your world, ${size} × ${size}`));
    return;
  }
  const { about, name } = brought;
  const names = about.starts.slice(0, 3).map((state) => about.state_names?.[state]);
  const starts = about.state_names ? `, from ${names.join(", ")}` : "";
  const view = viewOf(asked());
  const ground = groundOf(view);
  const picture = ground ? s("svg.picture.free", { role: "img", "aria-label": `Map of ${name}` }) : null;
  if (ground) {
    drawGround(picture, ground, view);
    nameOnHover(picture, picture, ground);
  }
  refill(
    byId("ground"),
    head(name),
    h(
      "p.hint",
      `${about.n_states} states, ${about.n_choices} choices${starts}. `,
      ground ? null : "It has no coordinates, so bars stand for maps.",
    ),
    picture,
    brought.isWeighed ? null : question(brought),
    h("button", { onclick: () => setBrought(null) }, "Return to the painted world"),
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
