/** Qwen2 and Qwen2.5, dense. Queries, keys and values have biases. */

import type { Architecture } from "./architecture.ts";
import { readDecoder } from "./decoder.ts";

export const qwen2: Architecture = {
  readShape: (file) => readDecoder(file, { pairing: "half", qk_norm: false, qk_permuted: false }),
};
