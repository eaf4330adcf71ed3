/** Qwen3, dense. Each head of the queries and keys is normalised. */

import type { Architecture } from "./architecture.ts";
import { readDecoder } from "./decoder.ts";

export const qwen3: Architecture = {
  readShape: (file) => readDecoder(file, { pairing: "half", qk_norm: true, qk_permuted: false }),
};
