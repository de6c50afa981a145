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
export const recordedPlaces = RECORDING?.places ?? null;
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

const silence = () =>
  Object.assign(new Error("The server does not answer. Is `tutelage serve` still running?"), { isGone: true });
const gone = (error) => (error.name === "AbortError" ? error : silence());

// The server sends its players at once, whatever its workers do. If it does not, twice, nothing else will come.
const PATIENCE = 4000;
async function isSilent() {
  for (let attempt = 0; attempt < 2; attempt++) {
    const isThere = await fetch("/api/players", { signal: AbortSignal.timeout(PATIENCE) }).then(
      () => true,
      () => false,
    );
    if (isThere) return false;
  }
  return true;
}

// The result of work that waits for the server; an error if the server falls silent. stop(): ends the work then.
function whileThere(work, stop = () => {}) {
  return new Promise((resolve, reject) => {
    const timer = setInterval(async () => {
      if (!(await isSilent())) return;
      reject(silence());
      stop();
    }, PATIENCE);
    work.then(resolve, reject).finally(() => clearInterval(timer));
  });
}

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
  const answer = await whileThere(send(path, body, signal).then((response) => response.json()));
  remember(key, answer);
  return answer;
}

export const askForFile = (path, body) => whileThere(send(path, body).then((response) => response.blob()));

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
  shared.ended = whileThere(read(path, body, onEvent, shared.control.signal), () => shared.control.abort())
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
