/** Llama 1 to 3.2, Mistral and their kind: GGUF files hold queries and keys in the order of adjacent pairs. */

import type { Architecture } from "./architecture.ts";
import { readDecoder } from "./decoder.ts";

export const llama: Architecture = {
  readShape: (file) => readDecoder(file, { pairing: "adjacent", qk_norm: false }),
};
