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
  complain(sentence);
  tell.timer = setTimeout(() => complain(""), 5000);
}

// What went wrong stays until there is something else to tell.
export function complain(sentence) {
  clearTimeout(tell.timer);
  byId("status").textContent = sentence;
}

// The number in a field, or null and a complaint where it is none within its bounds. The field's step is for its arrows.
export function numberOf(input) {
  const number = input.valueAsNumber;
  if (number >= Number(input.min) && number <= Number(input.max)) return number;
  const name = input.ariaLabel ?? input.labels[0].firstChild.textContent.trim();
  complain(`${name}: a number from ${input.min} to ${input.max} is needed.`);
  return null;
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
