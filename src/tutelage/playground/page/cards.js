// One teacher and its lesson as a card: who teaches, the reward as a bar, the three pictures, and the figures behind them.

import { h, refill, shown } from "./dom.js";
import { drawMeter, panelFigure } from "./panels.js";
import { OBJECTS } from "./world.js";

const STATES = { exceeded: "✗ broken", binds: "● kept, and it matters", reached: "○ used up", free: "– no effect" };
const KINDS = ["shown", "believed", "done"];

// A card keeps its elements from one answer to the next, so that the old pictures stay until the new ones are there.
export class Card {
  // actions: buttons at the right of the title; onLarge(kind): called when a picture is to be shown large.
  constructor({ id, title, note, actions = [], onLarge }) {
    this.meter = h("div", { class: "meter" });
    this.pictures = h("div", { class: "pictures" });
    this.problem = h("p", { class: "alert", role: "alert" });
    this.details = h("details", {}, h("summary", {}, "The figures behind it"), h("div", { class: "inside" }));
    this.heading = h("h3", {}, title);
    this.note = h("p", { class: "hint note" }, note);
    this.onLarge = onLarge;
    this.title = title;
    this.isOpenDrawn = false;
    this.element = h(
      "article",
      { class: "card", "data-teacher": id, "aria-label": title },
      h("div", { class: "card-head" }, h("div", {}, this.heading, this.note), this.meter, ...actions),
      this.problem,
      this.pictures,
      this.details,
    );
    this.details.addEventListener("toggle", () => this.drawDetails());
    this.setReward(null, null);
  }

  // The old answer stays, faded, until the new one is there.
  wait() {
    this.element.classList.add("waiting");
    this.element.setAttribute("aria-busy", "true");
  }

  settle() {
    this.element.classList.remove("waiting");
    this.element.removeAttribute("aria-busy");
  }

  clear() {
    this.fail("");
  }

  fail(sentence) {
    this.settle();
    this.round = null;
    this.problem.textContent = sentence;
    this.pictures.replaceChildren();
    this.details.hidden = true;
    this.setReward(null, null);
  }

  setReward(reward, most) {
    this.share = drawMeter(this.meter, { reward, most, label: `Reward: ${this.title}` });
  }

  // options: view, round, scales, layer, drawn, most; rounds: how many were taught; note: a remark on the bound.
  show(options) {
    const { round, most, rounds = 1, note } = options;
    this.settle();
    this.options = options;
    this.round = round;
    this.problem.textContent = "";
    this.details.hidden = false;
    this.setReward(round.reward, most);
    const figures = KINDS.map((kind) => {
      const figure = panelFigure(kind, { ...options, about: this.title });
      const large = h("button", {
        type: "button",
        class: "enlarge",
        "aria-label": `Enlarge: ${figure.firstChild.textContent}, ${this.title}`,
        title: "Enlarge",
        onclick: () => this.onLarge?.(kind, this),
      });
      figure.append(large);
      return figure;
    });
    refill(this.pictures, figures);
    const many = rounds > 1 ? `after ${rounds} rounds. ` : "";
    if (many || note) this.note.textContent = `${many}${note ?? ""}`;
    this.drawDetails();
  }

  drawDetails() {
    if (!this.details.open || !this.round) return;
    refill(
      this.details.lastChild,
      counts(this.options),
      preferenceTable(this.round),
      haunts(this.options),
      proof(this.round),
    );
  }
}

function counts({ view, round }) {
  const names = view.about?.reward_names ?? OBJECTS;
  const row = (name, k) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, name),
      h("td", {}, shown(round.lesson[k])),
      h("td", {}, shown(round.response[k])),
    );
  return table(["Expected count", "shown", "done"], names.map(row));
}

function preferenceTable(round) {
  if (!round.preferences.length) return h("p", { class: "hint" }, "The learner avoids nothing.");
  const row = ({ name, allowance, visits, state, price }) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, name),
      h("td", {}, shown(allowance, 1)),
      h("td", {}, shown(visits)),
      h("td", { class: state }, STATES[state] + (price > 0.005 ? `, price ${shown(price)}` : "")),
    );
  return table(["It avoids", "allowed", "visits", "outcome"], round.preferences.map(row), "binding");
}

// Where the learner is most, by the names of the states.
function haunts({ view, round }) {
  if (!view.about) return null;
  const named = (state) => view.about.state_names?.[state] ?? `state ${state}`;
  const states = [...round.visits.keys()].sort((a, b) => round.visits[b] - round.visits[a]).slice(0, 5);
  const texts = states.map((state) => `${named(state)} (${shown(round.visits[state])})`);
  return h("p", { class: "hint" }, `Most visits: ${texts.join(", ")}`);
}

const proof = (round) => h("pre", { tabindex: 0, "aria-label": "Explanation" }, round.explanation);

export const table = (head, rows, name = "") =>
  h(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": head[0] },
    h(
      "table",
      { class: name },
      h("thead", {}, h("tr", {}, ...head.map((text) => h("th", { scope: "col" }, text)))),
      h("tbody", {}, rows),
    ),
  );
