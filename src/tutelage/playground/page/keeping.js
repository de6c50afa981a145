// Share and keep: a link with the whole scene, one HTML file that plays without a server, the world, the rounds, and the
// Python code that repeats a result.

import { askForFile, isRecording, recorded } from "./api.js";
import { copy, download, h, isAt, partsOf, refill, tell } from "./dom.js";
import { lessonOf, taught } from "./lessons.js";
import { draw, groundOf } from "./pictures.js";
import { awareTeacher, players } from "./players.js";
import { saveable, toPng } from "./saving.js";
import { asked, getScene, getWorld, onChange, pathTo, toLink, viewOf } from "./scene.js";

const isLoopback = /^(localhost|127\.|\[::1\])/.test(location.hostname);
// The results that can be kept, by name, the newest last: {kind, request, rounds, ended, snippet} each.
const results = new Map();
let parts = null;

const json = (data) => new Blob([`${JSON.stringify(data, null, 1)}\n`], { type: "application/json" });
const chosen = () => results.get(parts.result.value) ?? null;

export function keepResult(name, result) {
  results.delete(name);
  results.set(name, result);
  if (isAt("keep")) drawResults();
}

async function attempt({ currentTarget: button }, action) {
  parts.alert.textContent = "";
  button.disabled = true;
  try {
    await action();
  } catch (error) {
    parts.alert.textContent = error.message;
  }
  button.disabled = false;
}

async function savePage() {
  // What the file opens with is computed first, if a reload or an old answer has lost it.
  for (const teacher of new Set([...getScene().teachers, awareTeacher(getScene().learner.model)])) {
    await taught(lessonOf(asked(), teacher), () => {}).catch((error) => {
      if (error.isGone) throw error;
    });
  }
  const whole = await (await askForFile("/whole.html")).text();
  const place = ["keep", "learn"].includes(getScene().place) ? "compare" : getScene().place;
  const answers = { ...recorded(), "/api/players ": players };
  const kept = JSON.stringify({ scene: { ...getScene(), place, secrets: [] }, answers }).replaceAll("<", "\\u003c");
  const text = whole.replace("tutelageRecording = null", () => `tutelageRecording = ${kept}`);
  download("tutelage-scene.html", new Blob([text], { type: "text/html" }));
  tell("Saved: open the file in any browser.");
}

const OBSTACLES = {
  answer: "Paths that you drew are no rounds of a teacher. Save them as JSON.",
  adapt: "Your own walks are no rounds of a learner model. Save them as JSON.",
  rounds: "These rounds ended early. Save them as JSON.",
  teach: "",
};

// Why a file cannot be saved; empty if it can.
function obstacle(result) {
  if (isRecording) return "This page is a recording: the file needs `tutelage serve`.";
  return result ? OBSTACLES[result.kind] : "Teach something first.";
}

function drawResults() {
  const names = [...results.keys()].reverse();
  const { value } = parts.result;
  const option = (name) => h("option", { value: name, selected: name === value }, name);
  refill(parts.result, names.length ? names.map(option) : h("option", { value: "" }, "nothing yet"));
  drawChosen();
}

function drawChosen() {
  const result = chosen();
  const reason = obstacle(result);
  parts.json.disabled = !result;
  parts.npz.disabled = reason !== "";
  parts.why.textContent = reason;
  parts.copySnippet.disabled = parts.saveSnippet.disabled = !result?.snippet;
  const none = result ? `There is no program for rounds that ended early: ${result.ended}` : "Teach something first.";
  parts.snippet.textContent = result?.snippet ?? none;
}

async function drawLink() {
  if (isAt("keep") && !isRecording) parts.link.value = await toLink();
}

export function openKeeping() {
  drawLink();
  drawResults();
}

// The world as a stand-alone picture.
function picture() {
  const view = viewOf(asked());
  const legend = () => "Hatched: what the learner avoids. Ring: the start.";
  return saveable((svg) => draw(svg, groundOf({ world: getWorld() }), { avoided: view.avoided }), "The world", legend);
}

export function startKeeping() {
  parts = partsOf("panel-keep", {
    copyLink: () => copy(parts.link.value, parts.link),
    export: (event) => attempt(event, savePage),
    svg: () => download("world.svg", picture()),
    png: async () => download("world.png", await toPng(picture())),
    world: () => download("world.json", json(getWorld())),
    result: drawChosen,
    json: () => {
      const { kind, request, rounds, ended } = chosen();
      download("transcript.json", json({ kind, request, rounds, ended }));
    },
    npz: (event) =>
      attempt(event, async () => {
        const { request } = chosen();
        download("transcript.npz", await askForFile(pathTo("transcript", request), request));
      }),
    copySnippet: () => copy(parts.snippet.textContent, parts.snippet),
    saveSnippet: () => download("lesson.py", new Blob([chosen().snippet], { type: "text/x-python" })),
  });
  parts.loopback.hidden = !isLoopback;
  parts.export.disabled = isRecording;
  onChange(drawLink);
  drawResults();
}
