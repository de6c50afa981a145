// Requests to the server, and the answers so far. An exported page has no server: it answers from its recording.
// A refusal becomes an Error with the server's message.

const RECORDING = globalThis.tutelageRecording ?? null;
export const isRecording = RECORDING !== null;

const MOST_ANSWERS = 80;
// Key of a request -> its answer, or the list of its events; the newest last.
const answers = new Map(Object.entries(RECORDING?.answers ?? {}));

const keyOf = (path, body) =>
  `${path} ${body === undefined ? "" : typeof body === "string" ? body : JSON.stringify(body)}`;

function remember(key, answer) {
  answers.delete(key);
  answers.set(key, answer);
  for (const old of answers.keys()) {
    if (answers.size <= MOST_ANSWERS) break;
    answers.delete(old);
  }
}

export const recorded = () => Object.fromEntries(answers);
export const keptScene = () => RECORDING?.scene ?? null;

function missing() {
  return new Error("This page is a recording and cannot compute this. Run `tutelage serve` to play with it.");
}

async function refusal(response) {
  try {
    return new Error((await response.json()).detail);
  } catch {
    return new Error(`The server answered ${response.status}.`);
  }
}

const gone = (error) =>
  error.name === "AbortError" ? error : new Error("The server does not answer. Is `tutelage serve` still running?");

async function send(path, body, signal) {
  if (isRecording) throw missing();
  let response;
  try {
    const request =
      body === undefined
        ? {}
        : {
            method: "POST",
            headers: { "Content-Type": "application/json" },
            body: typeof body === "string" ? body : JSON.stringify(body),
          };
    response = await fetch(path, { ...request, signal });
  } catch (error) {
    throw gone(error);
  }
  if (!response.ok) throw await refusal(response);
  return response;
}

export async function ask(path, body, signal) {
  const key = keyOf(path, body);
  if (answers.has(key)) return answers.get(key);
  const answer = await (await send(path, body, signal)).json();
  remember(key, answer);
  return answer;
}

export const askForFile = async (path, body) => (await send(path, body)).blob();

// Streams that are being read: key -> {events, listeners, control, ended}.
const running = new Map();

// Server-sent events: onEvent(name, data) for each. A stream that was read to its end is not requested again, and two
// readers of the same stream share one request, which is stopped when both have left.
export async function stream(path, body, onEvent, signal) {
  const key = keyOf(path, body);
  if (answers.has(key)) {
    for (const [name, data] of answers.get(key)) onEvent(name, data);
    return;
  }
  if (!running.has(key)) running.set(key, begin(path, body, key));
  const shared = running.get(key);
  for (const [name, data] of shared.events) onEvent(name, data);
  shared.listeners.add(onEvent);
  const leave = () => {
    shared.listeners.delete(onEvent);
    if (shared.listeners.size) return;
    if (running.get(key) === shared) running.delete(key);
    shared.control.abort();
  };
  signal?.addEventListener("abort", leave);
  const left = new Promise((_, reject) => {
    signal?.addEventListener("abort", () => reject(new DOMException("stopped", "AbortError")));
  });
  await Promise.race([shared.ended, left]);
}

function begin(path, body, key) {
  const shared = { events: [], listeners: new Set(), control: new AbortController() };
  const onEvent = (name, data) => {
    shared.events.push([name, data]);
    for (const listener of shared.listeners) listener(name, data);
  };
  shared.ended = read(path, body, onEvent, shared.control.signal)
    .then(() => remember(key, shared.events))
    .finally(() => {
      if (running.get(key) === shared) running.delete(key);
    });
  shared.ended.catch(() => {});
  return shared;
}

async function read(path, body, onEvent, signal) {
  const response = await send(path, body, signal);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "",
    last = null;
  for (;;) {
    const { value, done } = await reader.read().catch((error) => {
      throw gone(error);
    });
    if (done) break;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const [event, data] = block.split("\n");
      last = event.slice("event: ".length);
      const found = JSON.parse(data.slice("data: ".length));
      if (last === "refused") throw new Error(found.detail);
      onEvent(last, found);
    }
  }
  if (last !== "end") throw new Error("The server stopped before the end.");
}
