// Something that takes a while: the button says so, another cancels it, and what goes wrong is told in place.

import { byId } from "./dom.js";

// Runs action(signal) unless one is running; a cancelled action ends without a word.
export function work({ button, cancel, alert }, action) {
  const label = button.textContent;
  const control = new AbortController();
  const began = performance.now();
  const clock = setInterval(() => {
    button.textContent = `${label}… ${((performance.now() - began) / 1000).toFixed(0)} s`;
  }, 1000);
  const stop = () => control.abort();
  button.disabled = true;
  byId(alert).textContent = "";
  if (cancel) {
    byId(cancel).hidden = false;
    byId(cancel).addEventListener("click", stop);
  }
  return action(control.signal)
    .catch((error) => {
      if (error.name !== "AbortError") byId(alert).textContent = error.message;
    })
    .finally(() => {
      clearInterval(clock);
      button.textContent = label;
      button.disabled = false;
      if (!cancel) return;
      byId(cancel).hidden = true;
      byId(cancel).removeEventListener("click", stop);
    });
}
