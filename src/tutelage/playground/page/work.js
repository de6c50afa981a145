// Long actions: the button shows the elapsed time, another button cancels, and errors are shown beside them.

import { byId, tell } from "./dom.js";

// Run action(signal), unless it is running. The button keeps the focus. `done`: the message after an action that was not
// cancelled.
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
