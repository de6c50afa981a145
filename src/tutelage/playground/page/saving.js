// Pictures as files: with their title, their legend and their scale, in light colours.

import { h, s } from "./dom.js";
import { inLight } from "./look.js";

const WIDTH = 900,
  MARGIN = 24,
  HEAD = 64,
  FOOT = 44;

// A stand-alone SVG. draw(svg): draws the picture; title, legend(): texts above and below it.
export function saveable(draw, title, legend) {
  const inner = s("svg");
  const text = inLight(() => {
    draw(inner);
    return legend?.() ?? "";
  });
  inner.querySelector(".crowd")?.remove();
  const [, , width, height] = inner.getAttribute("viewBox").split(" ").map(Number);
  const inside = WIDTH - 2 * MARGIN;
  const tall = Math.round((inside * height) / width);
  const total = HEAD + tall + FOOT;
  for (const name of ["role", "aria-label", "tabindex", "aria-activedescendant", "id", "class"])
    inner.removeAttribute(name);
  for (const [name, value] of Object.entries({ x: MARGIN, y: HEAD, width: inside, height: tall }))
    inner.setAttribute(name, value);
  const words = (y, size, content) => s("text", { x: MARGIN, y, "font-size": size, fill: "#23262d" }, content);
  const whole = s(
    "svg",
    { width: WIDTH, height: total, viewBox: `0 0 ${WIDTH} ${total}`, "font-family": "sans-serif" },
    s("title", {}, title),
    s("rect", { width: WIDTH, height: total, fill: "#ffffff" }),
    words(42, 26, title),
    inner,
    words(total - 16, 18, text),
  );
  whole.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  return new Blob([new XMLSerializer().serializeToString(whole)], { type: "image/svg+xml" });
}

export async function toPng(blob) {
  const address = URL.createObjectURL(blob);
  const image = new Image();
  image.src = address;
  await image.decode();
  const canvas = h("canvas", { width: image.width, height: image.height });
  canvas.getContext("2d").drawImage(image, 0, 0);
  URL.revokeObjectURL(address);
  return new Promise((resolve) => {
    canvas.toBlob(resolve, "image/png");
  });
}
