// The last tab: export the world, the rounds, the pictures on the page, and the Python code that repeats a result.

import { askForFile } from "./api.js";
import { byId, copy, download, h } from "./dom.js";
import { getWorld, onChange, results } from "./state.js";
import { work } from "./work.js";

const PNG_WIDTH = 900;

const chosen = () => results.get(byId("result").value) ?? null;
const json = (data) => new Blob([`${JSON.stringify(data, null, 1)}\n`], { type: "application/json" });

function showResults() {
  const names = [...results.keys()].reverse();
  byId("result").replaceChildren(
    ...(names.length
      ? names.map((name) => h("option", { value: name }, name))
      : [h("option", { value: "" }, "no result yet")]),
  );
  showChosen();
}

function showChosen() {
  const result = chosen();
  byId("save-json").disabled = !result;
  byId("save-npz").disabled = result?.kind !== "teach";
  for (const id of ["copy-snippet", "save-snippet"]) byId(id).disabled = !result?.snippet;
  byId("snippet").textContent =
    result?.snippet ??
    (result
      ? `There is no snippet for an incomplete run; this one ended early: ${result.ended}`
      : "Teach something first.");
}

// Every picture on the page that is not empty, in all tabs.
export function showPictures() {
  const drawn = [
    ["world", byId("grid")],
    ...[...document.querySelectorAll("svg[data-picture]")].map((svg) => [svg.dataset.picture, svg]),
  ];
  byId("pictures").replaceChildren(
    ...drawn
      .filter(([, svg]) => svg.childNodes.length && !svg.closest("[hidden]:not([role=tabpanel])"))
      .map(([name, svg]) =>
        h(
          "li",
          {},
          `${name} `,
          h(
            "button",
            {
              type: "button",
              "aria-label": `${name} as SVG`,
              onclick: () => download(`${fileName(name)}.svg`, asSvg(svg)),
            },
            "SVG",
          ),
          " ",
          h(
            "button",
            {
              type: "button",
              "aria-label": `${name} as PNG`,
              onclick: async () => download(`${fileName(name)}.png`, await asPng(svg)),
            },
            "PNG",
          ),
        ),
      ),
  );
}

const fileName = (name) => name.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-");

// A stand-alone copy: with a size, and without the attributes that only this page needs.
function asSvg(svg) {
  const copied = svg.cloneNode(true);
  const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
  copied.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copied.setAttribute("width", PNG_WIDTH);
  copied.setAttribute("height", Math.round((PNG_WIDTH * height) / width));
  copied.setAttribute("font-family", "sans-serif");
  for (const name of ["role", "tabindex", "aria-activedescendant"]) copied.removeAttribute(name);
  return new Blob([new XMLSerializer().serializeToString(copied)], { type: "image/svg+xml" });
}

async function asPng(svg) {
  const address = URL.createObjectURL(asSvg(svg));
  const image = new Image();
  image.src = address;
  await image.decode();
  const canvas = h("canvas", { width: image.width, height: image.height });
  const context = canvas.getContext("2d");
  context.fillStyle = "#fff";
  context.fillRect(0, 0, image.width, image.height);
  context.drawImage(image, 0, 0);
  URL.revokeObjectURL(address);
  return new Promise((resolve) => {
    canvas.toBlob(resolve, "image/png");
  });
}

export function startExporting() {
  byId("save-world").addEventListener("click", () => download("world.json", json(getWorld())));
  byId("save-json").addEventListener("click", () => {
    const { request, rounds, ended } = chosen();
    download("transcript.json", json({ request, rounds, ended }));
  });
  byId("save-npz").addEventListener("click", (event) =>
    work({ button: event.currentTarget, alert: "export-alert" }, async () => {
      download("transcript.npz", await askForFile("/api/transcript", chosen().request));
    }),
  );
  byId("result").addEventListener("change", showChosen);
  byId("copy-snippet").addEventListener("click", () => copy(byId("snippet").textContent, byId("snippet")));
  byId("save-snippet").addEventListener("click", () =>
    download("lesson.py", new Blob([chosen().snippet], { type: "text/x-python" })),
  );
  onChange((what) => {
    if (what === "results") showResults();
  });
  showResults();
}
