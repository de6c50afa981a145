// One teacher and its lesson as a card: who teaches, the reward as a bar, the three pictures, and the figures behind them.

import { h, refill, shown, table, toldApart } from "./dom.js";
import { showLarge } from "./large.js";
import { drawMeter, panelFigure } from "./panels.js";
import { OBJECTS } from "./world.js";

const STATES = { exceeded: "✗ broken", binds: "● kept, and it matters", reached: "○ used up", free: "– no effect" };
// Smaller prices are rounding errors.
const ROUNDED_OFF = 1e-6;
const KINDS = ["shown", "believed", "done"];

// A card keeps its elements from one answer to the next, so that the old pictures stay until the new ones are there.
export class Card {
  // action: a button at the right of the title.
  constructor({ id, title, note, action = null }) {
    this.meter = h("div.meter");
    this.pictures = h("div.pictures");
    this.problem = h("p.alert", { role: "alert" });
    this.details = h(
      "details",
      { ontoggle: () => this.drawDetails() },
      h("summary", "The figures behind it"),
      h("div.inside"),
    );
    this.note = h("p.hint.note", note);
    this.title = title;
    this.element = h(
      "article.card",
      { "data-teacher": id, "aria-label": title },
      h("div.card-head", h("div", h("h3", title), this.note), this.meter, action),
      this.problem,
      this.pictures,
      this.details,
    );
    this.setReward(null, null);
  }

  // The old answer stays, faded, until the new one is there.
  wait(isWaiting = true) {
    this.element.classList.toggle("waiting", isWaiting);
    this.element.setAttribute("aria-busy", String(isWaiting));
  }

  fail(sentence) {
    this.wait(false);
    this.round = null;
    this.problem.textContent = sentence;
    this.pictures.replaceChildren();
    this.details.hidden = true;
    this.setReward(null, null);
  }

  setReward(reward, most, least) {
    this.share = drawMeter(this.meter, { reward, most, least, label: `Reward: ${this.title}` });
  }

  // options: view, round, scales, layer, drawn; most, least: the scale of the bar; rounds: how many were taught; note: a
  // remark on the bound.
  show(options) {
    const { round, most, least, rounds = 1, note } = options;
    this.wait(false);
    Object.assign(this, { options, round });
    this.problem.textContent = "";
    this.details.hidden = false;
    this.setReward(round.reward, most, least);
    const figures = KINDS.map((kind) => {
      const figure = panelFigure(kind, { ...options, about: this.title });
      const label = `Enlarge: ${figure.firstChild.textContent}, ${this.title}`;
      const onclick = () => showLarge(kind, this);
      figure.append(h("button.enlarge", { "aria-label": label, title: "Enlarge", onclick }));
      return figure;
    });
    refill(this.pictures, figures);
    const many = rounds > 1 ? `after ${rounds} rounds. ` : "";
    if (many || note) this.note.textContent = `${many}${note ?? ""}`;
    this.drawDetails();
  }

  drawDetails() {
    if (!this.details.open || !this.round) return;
    const { view, round } = this.options;
    refill(
      this.details.lastChild,
      counts(view, round),
      preferences(round),
      haunts(view, round),
      h("pre", { tabindex: 0, "aria-label": "Explanation" }, round.explanation),
    );
  }
}

function counts(view, { lesson, response }) {
  const row = (name, k) => [name, shown(lesson[k]), shown(response[k])];
  return table(["Expected count", "shown", "done"], (view.about?.reward_names ?? OBJECTS).map(row));
}

function preferences(round) {
  if (!round.preferences.length) return h("p.hint", "The learner avoids nothing.");
  const outcome = ({ state, price }) => STATES[state] + (price > ROUNDED_OFF ? `, price ${toldApart(price, 0)}` : "");
  // What is more than allowed is seen to be more.
  const visits = ({ state, visits: done, allowance }) =>
    state === "exceeded" ? toldApart(done, allowance) : shown(done);
  const row = (one) => [one.name, shown(one.allowance, 1), visits(one), h("td", { class: one.state }, outcome(one))];
  return table(["It avoids", "allowed", "visits", "outcome"], round.preferences.map(row), "binding");
}

// Where the learner is most, by the names of the states.
function haunts({ about }, { visits }) {
  if (!about) return null;
  const states = [...visits.keys()].sort((a, b) => visits[b] - visits[a]).slice(0, 5);
  const text = (state) => `${about.state_names?.[state] ?? `state ${state}`} (${shown(visits[state])})`;
  return h("p.hint", `Most visits: ${states.map(text).join(", ")}`);
}
