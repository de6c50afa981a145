// Share and keep: a link with the whole scene, one HTML file that plays without a server, the world, the rounds, and the
// Python code that repeats a result.

import { askForFile, isRecording, recorded } from "./api.js";
import { byId, copy, download, h, refill, tell } from "./dom.js";
import { drawGrid } from "./grid.js";
import { lessonOf, taught } from "./lessons.js";
import { awareTeacher, players } from "./players.js";
import { onResult, results } from "./results.js";
import { saveable, toPng } from "./saving.js";
import { asked, getScene, getWorld, onChange, pathTo, toLink, viewOf } from "./scene.js";

const isLoopback = /^(localhost|127\.|\[::1\])/.test(location.hostname);
const parts = {};
let isOpen = false;

const json = (data) => new Blob([`${JSON.stringify(data, null, 1)}\n`], { type: "application/json" });
const chosen = () => results.get(parts.result.value) ?? null;

async function attempt(button, action) {
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
  const recording = { scene: { ...getScene(), place, secrets: [] }, answers: { ...recorded(), "/api/players ": players } };
  const kept = JSON.stringify(recording).replaceAll("<", "\\u003c");
  const text = whole.replace("tutelageRecording = null", () => `tutelageRecording = ${kept}`);
  download("tutelage-scene.html", new Blob([text], { type: "text/html" }));
  tell("Saved: open the file in any browser.");
}

// Why a file cannot be saved; empty if it can.
function obstacle(result) {
  if (isRecording) return "This page is a recording: the file needs `tutelage serve`.";
  if (!result) return "Teach something first.";
  if (result.kind === "answer") return "Paths that you drew are no rounds of a teacher. Save them as JSON.";
  if (result.kind === "adapt") return "Your own walks are no rounds of a learner model. Save them as JSON.";
  if (result.kind !== "teach") return "These rounds ended early. Save them as JSON.";
  return "";
}

function drawResults() {
  const before = parts.result.value;
  const names = [...results.keys()].reverse();
  refill(
    parts.result,
    names.length ? names.map((name) => h("option", { value: name }, name)) : h("option", { value: "" }, "nothing yet"),
  );
  if (names.includes(before)) parts.result.value = before;
  drawChosen();
}

function drawChosen() {
  const result = chosen();
  const reason = obstacle(result);
  parts.json.disabled = !result;
  parts.npz.disabled = reason !== "";
  parts.why.textContent = reason;
  parts.copySnippet.disabled = parts.saveSnippet.disabled = !result?.snippet;
  parts.snippet.textContent =
    result?.snippet ??
    (result ? `There is no program for rounds that ended early: ${result.ended}` : "Teach something first.");
}

async function drawLink() {
  if (!isOpen || isRecording) return;
  parts.link.value = await toLink();
}

export function openKeeping() {
  isOpen = true;
  drawLink();
  drawResults();
}

export function startKeeping() {
  const button = (text, onclick, attributes = {}) => h("button", { type: "button", onclick, ...attributes }, text);
  parts.alert = h("p", { class: "alert", role: "alert" });
  parts.link = h("input", { type: "text", id: "link", readonly: true, "aria-label": "Link" });
  parts.result = h("select", { id: "result", "aria-label": "Which result", onchange: drawChosen });
  parts.json = button("Rounds as JSON", () => {
    const { kind, request, rounds, ended } = chosen();
    download("transcript.json", json({ kind, request, rounds, ended }));
  });
  parts.npz = button("Rounds for Python (.npz)", (event) =>
    attempt(event.currentTarget, async () => {
      const { request } = chosen();
      download("transcript.npz", await askForFile(pathTo("transcript", request), request));
    }),
  );
  parts.why = h("p", { class: "hint", id: "npz-why" });
  parts.npz.setAttribute("aria-describedby", "npz-why");
  parts.snippet = h("pre", { id: "snippet", tabindex: 0, "aria-label": "Python program" });
  parts.copySnippet = button("Copy", () => copy(parts.snippet.textContent, parts.snippet));
  parts.saveSnippet = button("Save as lesson.py", () =>
    download("lesson.py", new Blob([chosen().snippet], { type: "text/x-python" })),
  );
  const picture = () =>
    saveable(
      (svg) => drawGrid(svg, { world: getWorld(), avoided: viewOf(asked()).avoided }),
      "The world",
      () => "Hatched: what the learner avoids. Ring: the start.",
    );
  refill(
    byId("panel-keep"),
    parts.alert,
    h("h2", {}, "A link"),
    h(
      "p",
      { class: "hint" },
      "It contains the whole scene: the world, the learner, the teachers, your paths and the open page. Your secret is not in it.",
    ),
    isLoopback ? h("p", { class: "alert", id: "loopback" }, "This link works only on this computer. To send the scene, export it.") : null,
    h(
      "div",
      { class: "row" },
      parts.link,
      button("Copy the link", () => copy(parts.link.value, parts.link), { class: "main" }),
    ),
    h("h2", {}, "One HTML file"),
    h(
      "p",
      { class: "hint" },
      "The page with all that it has computed. It plays from disk or from any website, without a server.",
    ),
    button("Export as one HTML file", (event) => attempt(event.currentTarget, savePage), {
      class: "main",
      id: "export-html",
      disabled: isRecording,
    }),
    h("h2", {}, "Pictures"),
    h(
      "p",
      { class: "hint" },
      "Every picture can be enlarged and then saved as SVG or PNG, with its title, legend and scale. The world:",
    ),
    h(
      "div",
      { class: "row" },
      button("World as SVG", () => download("world.svg", picture())),
      button("World as PNG", async () => download("world.png", await toPng(picture()))),
      button("World as JSON", () => download("world.json", json(getWorld()))),
    ),
    h("h2", {}, "Rounds, and the program that repeats them"),
    h("div", { class: "row" }, parts.result, parts.json, parts.npz),
    parts.why,
    h("div", { class: "row" }, parts.copySnippet, parts.saveSnippet),
    parts.snippet,
  );
  onResult(() => isOpen && drawResults());
  onChange(() => drawLink());
  drawResults();
}
