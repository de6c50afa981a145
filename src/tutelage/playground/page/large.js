// A picture in a dialog, large, with its title, its legend and its scale; it can be saved as SVG or PNG.

import { byId, download, h, refill } from "./dom.js";
import { TITLES, drawPanel, legendOf, panelFigure } from "./panels.js";
import { saveable, toPng } from "./saving.js";

export function showLarge(kind, card) {
  const options = { ...card.options, about: card.title };
  const title = `${TITLES[kind]}: ${card.title}`;
  const name = title.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-");
  const file = () =>
    saveable(
      (svg) => drawPanel(svg, kind, options),
      title,
      () => legendOf(kind, options).textContent,
    );
  byId("large-title").textContent = title;
  refill(byId("large-picture"), panelFigure(kind, options));
  refill(
    byId("large-tools"),
    h("button", { onclick: () => download(`${name}.svg`, file()) }, "Save as SVG"),
    h("button", { onclick: async () => download(`${name}.png`, await toPng(file())) }, "Save as PNG"),
  );
  byId("large").showModal();
}
