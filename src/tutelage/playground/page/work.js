// Something that takes a while: the button says so, another cancels it, and what goes wrong is told in place.

import { byId, tell } from "./dom.js";

// Runs action(signal), unless it runs already. The button stays where the keyboard is; a cancelled action ends without a
// word, and any other with `done`.
export async function work({ button, cancel, alert, done }, action) {
  if (button.ariaDisabled === "true") return;
  const label = button.textContent;
  const control = new AbortController();
  const began = performance.now();
  const clock = setInterval(() => {
    button.textContent = `${label}… ${((performance.now() - began) / 1000).toFixed(0)} s`;
  }, 1000);
  const stop = () => control.abort();
  button.ariaDisabled = "true";
  byId(alert).textContent = "";
  if (cancel) {
    byId(cancel).hidden = false;
    byId(cancel).addEventListener("click", stop);
  }
  try {
    await action(control.signal);
    if (done && !control.signal.aborted) tell(done);
  } catch (error) {
    if (error.name !== "AbortError") byId(alert).textContent = error.message;
  }
  clearInterval(clock);
  button.textContent = label;
  button.ariaDisabled = null;
  if (!cancel) return;
  if (document.activeElement === byId(cancel)) button.focus();
  byId(cancel).hidden = true;
  byId(cancel).removeEventListener("click", stop);
}
