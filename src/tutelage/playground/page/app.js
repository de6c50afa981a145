// The page: its places, their addresses and the first scene. The back button goes back to the last place.

import { ask, isRecording, recordedPlaces } from "./api.js";
import { closeChallenges, openChallenges, startChallenges } from "./challenges.js";
import { openCompare, startCompare } from "./compare.js";
import { startControls } from "./controls.js";
import { byId, complain, tell } from "./dom.js";
import { bringFirst, startBringing } from "./grounds.js";
import { openKeeping, startKeeping } from "./keeping.js";
import { learnMode, openLearning, startLearning } from "./learning.js";
import { isDark, setTheme } from "./look.js";
import { paintMode, startPainting } from "./painting.js";
import { openRounds, pause, startRounds } from "./rounds.js";
import { adoptScene, fromLink, getScene, keptBefore, onChange, setPart } from "./scene.js";
import { redraw, setMode } from "./stage.js";
import { openTeaching, startTeaching, teachMode } from "./teaching.js";
import { closeStory, openStory, startStory } from "./story.js";

const PLACES = {
  story: { open: openStory, close: closeStory },
  play: { open: openChallenges, close: closeChallenges },
  compare: { open: openCompare, mode: paintMode },
  rounds: { open: openRounds, close: pause, mode: paintMode },
  teach: { open: openTeaching, mode: teachMode },
  learn: { open: openLearning, close: redraw, mode: learnMode },
  keep: { open: openKeeping, mode: paintMode },
};
// A recording may have only some of the places.
for (const tab of document.querySelectorAll("[role=tab]")) {
  if (recordedPlaces && !recordedPlaces.includes(tab.id.slice("tab-".length))) tab.remove();
}
const tabs = [...document.querySelectorAll("[role=tab]")];
let place = null;

// A place is "compare", or "story-2" for the third step of the story.
function open(next) {
  const [name, step] = next.split("-");
  const known = name in PLACES && byId(`tab-${name}`) ? name : "story";
  const before = place?.split("-")[0];
  document.body.dataset.place = known;
  if (before && before !== known) PLACES[before].close?.();
  if (known !== "keep") setPart({ place: next });
  place = next;
  for (const tab of tabs) {
    const isOpen = tab.id === `tab-${known}`;
    tab.setAttribute("aria-selected", String(isOpen));
    tab.tabIndex = isOpen ? 0 : -1;
    byId(tab.getAttribute("aria-controls")).hidden = !isOpen;
  }
  byId("bench").hidden = !PLACES[known].mode;
  byId("strip").hidden = known !== "compare" && known !== "teach";
  if (PLACES[known].mode) setMode(PLACES[known].mode);
  PLACES[known].open(known === "story" ? Number(step ?? 0) || 0 : getScene().place);
}

export function go(next) {
  if (next === place) return;
  const isNewPage = next.split("-")[0] !== place.split("-")[0];
  history.pushState(null, "", `#${next}`);
  open(next);
  if (isNewPage) scrollTo(0, 0);
}

function wireTabs() {
  tabs.forEach((tab, k) => {
    tab.addEventListener("click", () => go(tab.id === "tab-story" ? "story-0" : tab.id.slice("tab-".length)));
    tab.addEventListener("keydown", (event) => {
      const to = { ArrowRight: k + 1, ArrowLeft: k - 1, Home: 0, End: tabs.length - 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      const next = tabs[(to + tabs.length) % tabs.length];
      next.focus();
      next.click();
    });
  });
}

// A scene from a link or a file. The server checks its world or its domain before anything of it is used.
export async function adopt(scene) {
  if (scene.brought) await ask("/api/domain", { file: scene.brought.file });
  else if (scene.world && !isRecording) await ask("/api/world", scene.world);
  adoptScene(scene);
}

// The place in the address. A scene in it is adopted and taken out of the address, so that a reload keeps later changes.
async function arrive() {
  const { hash } = location;
  if (!hash.startsWith("#scene=")) {
    open(hash.slice(1) || (isRecording && getScene().place) || "story-0");
    return;
  }
  history.replaceState(null, "", location.pathname);
  try {
    const scene = await fromLink(hash);
    await adopt(scene).catch((error) => {
      throw new Error(`The link contains no valid scene: ${error.message}`);
    });
    history.replaceState(null, "", `#${scene.place ?? "compare"}`);
    open(scene.place ?? "compare");
    tell("This is the scene of the link.");
  } catch (error) {
    open("story-0");
    complain(error.message);
  }
}

async function start() {
  const before = keptBefore();
  if (before) adoptScene(before);
  startPainting();
  startControls();
  startStory(go);
  startChallenges();
  startCompare();
  startRounds();
  startTeaching();
  startLearning();
  startKeeping();
  startBringing({ go, adopt });
  wireTabs();
  byId("theme").addEventListener("click", () => setTheme(isDark() ? "light" : "dark"));
  byId("about-open").addEventListener("click", () => byId("about").showModal());
  document.body.classList.toggle("recording", isRecording);
  onChange(() => document.body.classList.toggle("brought", Boolean(getScene().brought)));
  const isFresh = !before && !location.hash;
  await arrive();
  if (isFresh && !isRecording) await bringFirst();
  addEventListener("popstate", arrive);
}

start().then(
  () => {
    document.body.dataset.ready = "yes";
  },
  (error) => complain(error.message),
);
