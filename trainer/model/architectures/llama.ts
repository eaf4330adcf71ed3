/** Llama 1 to 3.2, Mistral and models like them. In GGUF files RoPE rotates adjacent pairs of their queries and keys. */

import type { Architecture } from "./architecture.ts";
import { readDecoder } from "./decoder.ts";

export const llama: Architecture = {
  readShape: (file) => readDecoder(file, { pairing: "adjacent", qk_norm: false }),
};
