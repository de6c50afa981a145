// The page: its tabs and its first world.

import { ask } from "./api.js";
import { byId, complain } from "./dom.js";
import { demonstrateMode, startDemonstrating } from "./demonstrating.js";
import { showPictures, startExporting } from "./exporting.js";
import { startLearner } from "./learner.js";
import { adopt, paintMode, startPainting } from "./painting.js";
import { startRounds } from "./rounds.js";
import { drawLegend, setMode } from "./stage.js";
import { adoptLearner, kept, setWorld } from "./state.js";
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

// Load the world of a link, if there is one, and remove it from the address, so that a reload keeps later changes.
async function adoptLink() {
  const { hash } = location;
  if (!hash.startsWith("#world=")) return false;
  history.replaceState(null, "", location.pathname);
  try {
    await adopt(fromLink(hash), "the world of the link");
    return true;
  } catch (error) {
    complain(`The link contains no valid world: ${error.message}`);
    return false;
  }
}

// The first world: of the link, or of the last visit, or the paper's first. The learner is the last visit's.
async function openingWorld() {
  const before = kept();
  adoptLearner(before?.learner);
  if (await adoptLink()) return;
  try {
    if (before?.world) {
      setWorld(await ask("/api/world", before.world));
      return;
    }
  } catch {
    // The stored world is of another version.
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
addEventListener("hashchange", adoptLink);
openingWorld().then(
  () => {
    document.body.dataset.ready = "yes";
  },
  (error) => complain(error.message),
);
