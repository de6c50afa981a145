// The teachers, learner models and preferences that the server knows, loaded before the page starts.

import { ask } from "./api.js";
import { complain } from "./dom.js";

export const players = await ask("/api/players").catch((error) => {
  complain(error.message);
  throw error;
});
