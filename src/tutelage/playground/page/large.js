// A picture in a dialog, large, with its title, its legend and its scale; it can be saved as SVG or PNG.

import { byId, download, h, refill } from "./dom.js";
import { TITLES, drawPanel, legendOf, panelFigure } from "./panels.js";
import { saveable, toPng } from "./saving.js";

export function showLarge(kind, card) {
  const options = { ...card.options, about: card.title };
  const title = `${TITLES[kind]}: ${card.title}`;
  byId("large-title").textContent = title;
  refill(byId("large-picture"), panelFigure(kind, options));
  const draw = (svg) => drawPanel(svg, kind, options);
  const legend = () => legendOf(kind, options).textContent;
  const name = title.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-");
  refill(
    byId("large-tools"),
    h(
      "button",
      { type: "button", onclick: () => download(`${name}.svg`, saveable(draw, title, legend)) },
      "Save as SVG",
    ),
    h(
      "button",
      { type: "button", onclick: async () => download(`${name}.png`, await toPng(saveable(draw, title, legend))) },
      "Save as PNG",
    ),
  );
  byId("large").showModal();
}
