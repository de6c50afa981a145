// The page: its tabs, and the world that it opens with.

import { ask } from "./api.js";
import { byId, tell } from "./dom.js";
import { demonstrateMode, startDemonstrating } from "./demonstrating.js";
import { showPictures, startExporting } from "./exporting.js";
import { startLearner } from "./learner.js";
import { adopt, paintMode, startPainting } from "./painting.js";
import { startRounds } from "./rounds.js";
import { drawLegend, setMode } from "./stage.js";
import { kept, setLearner, setWorld } from "./state.js";
import { startTeaching, teachMode } from "./teaching.js";
import { startWalking, walkMode } from "./walking.js";
import { fromLink } from "./world.js";

const MODES = {
  paint: paintMode,
  learner: teachMode,
  teach: teachMode,
  rounds: teachMode,
  demonstrate: demonstrateMode,
  walk: walkMode,
  export: teachMode,
};
const tabs = [...document.querySelectorAll("[role=tab]")];

function open(tab) {
  for (const other of tabs) {
    const isOpen = other === tab;
    other.setAttribute("aria-selected", String(isOpen));
    other.tabIndex = isOpen ? 0 : -1;
    byId(other.getAttribute("aria-controls")).hidden = !isOpen;
  }
  setMode(MODES[tab.id.slice("tab-".length)]);
  if (tab.id === "tab-export") showPictures();
}

for (const tab of tabs) {
  tab.addEventListener("click", () => open(tab));
  tab.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = tabs[(tabs.indexOf(tab) + step + tabs.length) % tabs.length];
    next.focus();
    open(next);
  });
}

// The world of the link; or the one from last time; or the first of the paper.
async function openingWorld() {
  try {
    const text = fromLink(location.hash);
    if (text !== null) {
      await adopt(text, "the world of the link");
      return;
    }
  } catch (error) {
    tell(`The link holds no world: ${error.message}`);
  }
  const before = kept();
  try {
    if (before?.learner) setLearner(before.learner);
    if (before?.world) {
      setWorld(await ask("/api/world", before.world));
      return;
    }
  } catch {
    // What was kept is of another version; the page begins anew.
  }
  setWorld(await ask("/api/world/published/0/10"));
}

startPainting();
startLearner();
startTeaching();
startRounds();
startDemonstrating();
startWalking();
startExporting();
drawLegend();
open(tabs[0]);
addEventListener("hashchange", () => openingWorld());
openingWorld().then(
  () => {
    document.body.dataset.ready = "yes";
  },
  (error) => tell(error.message),
);
