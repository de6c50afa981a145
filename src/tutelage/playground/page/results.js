// The results that can be kept, by name, the newest last: {kind, request, rounds, ended, snippet} each.

export const results = new Map();
const listeners = new Set();

export function keepResult(name, result) {
  results.delete(name);
  results.set(name, result);
  for (const listener of listeners) listener();
}

export function onResult(listener) {
  listeners.add(listener);
}
