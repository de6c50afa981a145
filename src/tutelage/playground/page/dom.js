// Short functions for elements and texts.

const SVG = "http://www.w3.org/2000/svg";

const present = (children) =>
  children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);

// what: "tag#id.class.class"; content: attributes, if the first is an object of them, then children.
function made(create, what, content) {
  const [head, ...classes] = what.split(".");
  const [tag, id] = head.split("#");
  const element = create(tag || "div");
  const attributes = content[0]?.constructor === Object ? content.shift() : {};
  const type = tag === "button" ? "button" : null;
  for (const [name, value] of Object.entries({ id, class: classes.join(" ") || null, type, ...attributes })) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...present(content));
  return element;
}

export const h = (what, ...content) => made((tag) => document.createElement(tag), what, content);
export const s = (what, ...content) => made((tag) => document.createElementNS(SVG, tag), what, content);
// Replace all children; null is left out.
export const refill = (element, ...children) => element.replaceChildren(...present(children));

// The elements with `data-part` in an element, by name. actions: what each does when it is clicked or changed.
export function partsOf(id, actions = {}) {
  const all = [...byId(id).querySelectorAll("[data-part]")];
  const parts = Object.fromEntries(all.map((part) => [part.dataset.part, part]));
  for (const [name, action] of Object.entries(actions))
    parts[name].addEventListener(parts[name].nodeName === "BUTTON" ? "click" : "change", action);
  return parts;
}

// rows: lists of texts or elements, the first of each a heading.
export const table = (head, rows, name = "") =>
  h(
    "div.scroll",
    { tabindex: 0, role: "region", "aria-label": head[0] },
    h(
      "table",
      { class: name },
      h(
        "thead",
        h(
          "tr",
          head.map((text) => h("th", { scope: "col" }, text)),
        ),
      ),
      h(
        "tbody",
        rows.map(([first, ...rest]) =>
          h(
            "tr",
            h("th", { scope: "row" }, first),
            rest.map((cell) => (cell instanceof Node && cell.nodeName === "TD" ? cell : h("td", cell))),
          ),
        ),
      ),
    ),
  );

// One of several values, as radio buttons side by side. options: [value, text] each.
export const segmented = (name, legend, options, chosen, onChoose) =>
  h(
    "fieldset.segmented",
    legend,
    options.map(([value, text, label = text]) =>
      h(
        "label",
        h("input", {
          type: "radio",
          name,
          value,
          checked: value === chosen,
          "aria-label": label,
          onchange: () => onChoose(value),
        }),
        h("span", text),
      ),
    ),
  );

// A box to tick, as a chip.
export const chip = (id, text, checked, onTick, label = null) =>
  h(
    "label.chip",
    h("input", {
      type: "checkbox",
      id,
      checked,
      "aria-label": label,
      onchange: (event) => onTick(event.target.checked),
    }),
    h("span", text),
  );

// Change the children of an element into others. Elements of the same kind stay, so that nothing is drawn anew, a touch
// keeps its target, and a picture may have parts that move by themselves.
export function repaint(element, children) {
  const fresh = present(children);
  const old = [...element.childNodes];
  fresh.forEach((child, k) => {
    if (!old[k]) element.append(child);
    else if (old[k].nodeType !== 1 || child.nodeType !== 1 || old[k].nodeName !== child.nodeName)
      old[k].replaceWith(child);
    else {
      for (const { name } of [...old[k].attributes]) if (!child.hasAttribute(name)) old[k].removeAttribute(name);
      for (const { name, value } of child.attributes)
        if (old[k].getAttribute(name) !== value) old[k].setAttribute(name, value);
      repaint(old[k], [...child.childNodes]);
    }
  });
  for (const extra of old.slice(fresh.length)) extra.remove();
}

export const byId = (id) => document.getElementById(id);
export const isAt = (place) => document.body.dataset.place === place;

// A number as text; below the accuracy of what is computed it reads 0.
export function shown(number, digits = 2) {
  if (number === null || number === undefined) return "–";
  const text = (Math.abs(number) < 0.5 * 10 ** -digits ? 0 : number).toFixed(digits);
  return (Number(text) === 0 ? "0" : text).replace("-", "−");
}

// As many digits as tell a number from another one, from two to eight: 0.000097 beside 0.
export function toldApart(number, other) {
  const apart = Math.abs(number - other);
  return shown(number, apart > 0 ? Math.max(2, Math.min(8, 1 - Math.floor(Math.log10(apart)))) : 2);
}

// The share from which on nothing is missing.
const WHOLE = 0.9995;
// Whether a lesson that gets this reward shows that the bound on all lessons can be reached.
export const reaches = (reward, bound) => bound - reward <= (1 - WHOLE) * Math.abs(bound);

// A share in per cent, never broken over two lines. 100 % is shown only where nothing is missing.
export function percent(share) {
  if (share === null) return "–";
  const isNearly = share >= 0.99 && share < WHOLE;
  return `${isNearly ? shown(Math.floor(1000 * share) / 10, 1) : shown(100 * share, 0)}\u00a0%`;
}

// A share of the most that is possible; where only a bound on that is known, a gain is a larger share than of the bound.
export function percentOf(share, { isReached }) {
  if (isReached || share >= WHOLE || Math.abs(share) < 0.005) return percent(share);
  return `${share > 0 ? "at least" : "at most"} ${percent(share)}`;
}

export const isTouched = () => matchMedia("(pointer: coarse)").matches;

export function plural(count, thing) {
  return `${count} ${thing}${count === 1 ? "" : "s"}`;
}

// Milliseconds that a message needs to be read.
const READ = 5000;
let saidAt = -Infinity;

// A short message; it goes after a while.
export function tell(sentence) {
  complain(sentence);
  tell.timer = setTimeout(() => complain(""), READ);
}

// An error stays until the next message, or until the person has read it and goes on.
export function complain(sentence) {
  clearTimeout(tell.timer);
  byId("status").textContent = sentence;
  saidAt = performance.now();
}
for (const goesOn of ["pointerdown", "keydown"])
  addEventListener(goesOn, () => performance.now() - saidAt > READ && complain(""), true);

// The number in a field. If it is outside its bounds: null, with a message, and the field shows the old number again.
export function numberOf(input, old) {
  const number = input.valueAsNumber;
  if (number >= Number(input.min) && number <= Number(input.max)) return number;
  const name = input.getAttribute("aria-label") ?? input.labels[0].firstChild.textContent.trim();
  if (old !== undefined) input.value = old;
  complain(`${name}: enter a number from ${input.min} to ${input.max}.`);
  return null;
}

export function download(name, blob) {
  const link = h("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// If the clipboard is not accessible, select the text instead.
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

// Bytes as text for a request or a link, and back.
export function toBase64(bytes) {
  let text = "";
  for (let k = 0; k < bytes.length; k += 0x8000) text += String.fromCharCode(...bytes.subarray(k, k + 0x8000));
  return btoa(text);
}
export const fromBase64 = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
