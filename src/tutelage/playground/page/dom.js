// Elements, in a line each.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export const h = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
export const s = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
// Other children instead of those it has; what is null is left out.
export function refill(element, ...children) {
  element.replaceChildren(...children.filter((child) => child !== null && child !== undefined));
}

export const byId = (id) => document.getElementById(id);

// For numbers that a person reads.
export function shown(number, digits = 3) {
  if (number === null || number === undefined) return "–";
  return (Math.abs(number) < 0.5 * 10 ** -digits ? 0 : number).toFixed(digits).replace("-", "−");
}

export function plural(count, thing) {
  return `${count} ${thing}${count === 1 ? "" : "s"}`;
}

export function tell(sentence) {
  byId("status").textContent = sentence;
  clearTimeout(tell.timer);
  tell.timer = setTimeout(() => {
    byId("status").textContent = "";
  }, 5000);
}

export function download(name, blob) {
  const link = h("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// Where the page may not write to the clipboard, the text is selected for the person to copy.
export async function copy(text, element) {
  try {
    await navigator.clipboard.writeText(text);
    tell("Copied.");
  } catch {
    const range = document.createRange();
    range.selectNodeContents(element);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    if (element.select) element.select();
    tell("Selected: copy it with Ctrl+C.");
  }
}
