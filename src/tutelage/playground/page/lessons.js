// Lessons from the server: the rounds of a teacher, and the most that any lesson can get from the learner.

import { stream } from "./api.js";
import { reaches, shown } from "./dom.js";
import { awareTeacher, isAdaptive } from "./players.js";
import { pathTo } from "./scene.js";

// Rewards below this are rounding errors.
const NOTHING = 1e-6;

// The request for a teacher's lesson; an adaptive teacher may take many rounds.
export const lessonOf = (asked, teacher, max_rounds = isAdaptive(teacher) ? 60 : 1) => ({
  ...asked,
  teacher,
  max_rounds,
});

// All rounds of a teacher, each passed to onRound as it comes. A round may come again with a tighter bound; `note` says
// why it does not.
export async function taught(request, onRound, signal) {
  const rounds = [];
  let ending = null,
    note = null;
  await stream(
    pathTo("teach", request),
    request,
    (name, data) => {
      if (name === "end") ending = data;
      else if (name === "unbounded") note = data.detail;
      else {
        rounds[data.number - 1] = data;
        onRound(rounds, data);
      }
    },
    signal,
  );
  return { kind: "teach", request, rounds, ended: ending.ended, snippet: ending.snippet, note };
}

export const awareRequest = (asked) => lessonOf(asked, awareTeacher(asked.learner.model));

// The most that any lesson can get, as the aware teacher certifies it: {bound, isReached}; null while it searches.
// isReached: its own lesson gets as much, so that the bound is what is possible, and not only above it.
const isCertified = (aware) => Boolean(aware) && aware.bound !== null && aware.is_bounded !== false;
export const mostOf = (aware) =>
  isCertified(aware) ? { bound: aware.bound, isReached: reaches(aware.reward, aware.bound) } : null;

// A share of the most; null where it is not known, and where nothing is to be gained: a share of a cost says nothing.
export const shareOf = (reward, most) => (reward !== null && most && most.bound > NOTHING ? reward / most.bound : null);

// What a reward is compared with: " of 4.37 possible", " of at most 4.49", or, of costs, "; no lesson gets more than −68.10".
export function besides(reward, { bound, isReached }) {
  if (bound > NOTHING) return isReached ? ` of ${shown(bound)} possible` : ` of at most ${shown(bound)}`;
  if (Math.max(Math.abs(reward), Math.abs(bound)) < 0.005) return ": no lesson earns anything here";
  return `; no lesson gets more than ${shown(bound)}`;
}

// Runs one task at a time, the newest last: a task that waits is replaced by a newer one. The running one is stopped
// once it has shown its answer (`release`) or takes long; before that, stopping it would cost a process its start.
export class Latest {
  constructor({ pause = 60, patience = 1500 } = {}) {
    Object.assign(this, { pause, patience, running: null, waiting: null, timer: null });
  }

  // task(signal, release): a promise. It begins after a short pause without another task.
  run(task) {
    this.waiting = task;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.next(), this.pause);
  }

  next() {
    clearTimeout(this.timer);
    if (!this.waiting) return;
    if (this.running) {
      const age = performance.now() - this.running.began;
      if (!this.running.isReleased && age < this.patience) {
        this.timer = setTimeout(() => this.next(), this.patience - age);
        return;
      }
      this.running.control.abort();
    }
    const task = this.waiting;
    const mine = { control: new AbortController(), began: performance.now(), isReleased: false };
    [this.waiting, this.running] = [null, mine];
    task(mine.control.signal, () => {
      mine.isReleased = true;
      if (this.waiting && this.running === mine) this.next();
    }).finally(() => {
      if (this.running !== mine) return;
      this.running = null;
      this.next();
    });
  }

  stop() {
    clearTimeout(this.timer);
    this.waiting = null;
    this.running?.control.abort();
    this.running = null;
  }
}
