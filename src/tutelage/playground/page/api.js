// Requests to the server. A refusal becomes an Error with the server's message.

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

export const ask = async (path, body, signal) => (await send(path, body, signal)).json();
export const askForFile = async (path, body) => (await send(path, body)).blob();

// Read server-sent events: onEvent(name, data) for each.
export async function stream(path, body, onEvent, signal) {
  const response = await send(path, body, signal);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read().catch((error) => {
      throw gone(error);
    });
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const [event, data] = block.split("\n");
      const name = event.slice("event: ".length);
      const found = JSON.parse(data.slice("data: ".length));
      if (name === "refused") throw new Error(found.detail);
      onEvent(name, found);
    }
  }
}
