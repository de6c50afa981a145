// A story from a file. A step there has: sentence; pictures, of "world", "shown", "believed" and "done"; teacher, whose
// lesson they show; showsAvoided, whether the avoided cells are marked; number: {of, text}, where `of` is "lesson" (what
// the lesson itself would earn), "reward" (what the learner earns), "share" (of the most possible) or "avoided" (how many
// cells); choices, [{place, text}], which end the story.

import { complain, h, percentOf, refill, s, shown } from "./dom.js";
import { awareRequest, lessonOf, mostOf, shareOf, taught } from "./lessons.js";
import { TITLES, drawPanel, scalesOf } from "./panels.js";
import { draw, groundOf } from "./pictures.js";
import { viewOf } from "./scene.js";

// The story of a file; refused unless it has the form of one.
export function storyOf({ title, steps, world, learner }) {
  const isStep = (step) => typeof step.sentence === "string" && Array.isArray(step.pictures ?? []);
  if (!Array.isArray(steps) || !steps.length || !steps.every(isStep) || !world || !learner)
    throw new Error("A story needs a world, a learner and steps, each with a sentence and pictures.");
  const asked = { world, learner };
  return (stage) => ({
    title,
    world: () => world,
    stop: () => {},
    steps: steps.map((step) => stepOf(step, asked, stage)),
  });
}

function stepOf(given, asked, stage) {
  const found = { view: viewOf(asked), round: null, aware: null };
  const isReady = () => !given.teacher || found.round !== null;
  const step = {
    sentence: () => given.sentence,
    choices: given.choices,
    value: () => (given.number && isReady() ? { value: valueOf(given, found), text: given.number.text } : null),
    pictures: (element) => {
      element.classList.toggle("waiting", !isReady());
      if (isReady()) refill(element, picturesOf(given, found));
    },
    // The lesson, and the most that is possible; each is shown as soon as it is there.
    enter: async () => {
      const into = (key) => (rounds) => {
        found[key] = rounds.at(-1);
        if (stage.isAt(step)) stage.draw();
      };
      const isShare = given.number?.of === "share";
      await Promise.all([
        given.teacher ? taught(lessonOf(asked, given.teacher), into("round")) : null,
        isShare ? taught(awareRequest(asked), into("aware")) : null,
      ]).catch((error) => stage.isAt(step) && complain(error.message));
    },
  };
  return step;
}

function valueOf({ number }, { view, round, aware }) {
  if (number.of === "avoided") return String(view.avoided.filter(Boolean).length);
  if (number.of !== "share") return shown(number.of === "lesson" ? round.lesson_reward : round.reward, 1);
  const share = shareOf(round.reward, mostOf(aware));
  return share !== null ? percentOf(share, mostOf(aware)) : mostOf(aware) ? shown(round.reward) : "…";
}

function picturesOf(step, found) {
  const view = step.showsAvoided ? found.view : { ...found.view, avoided: null };
  return (step.pictures ?? []).map((kind) => {
    const title = step.captions?.[kind] ?? TITLES[kind] ?? "The world";
    const svg = s("svg.picture", { role: "img", "aria-label": title });
    if (kind === "world") draw(svg, groundOf(view), { avoided: view.avoided });
    else drawPanel(svg, kind, { view, round: found.round, scales: scalesOf([found.round]) });
    return h(`figure.panel.${kind}`, h("figcaption", title), svg);
  });
}
