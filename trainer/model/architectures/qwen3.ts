/** Qwen3, dense: queries and keys are normalised. */

import type { Architecture } from "./architecture.ts";
import { readDecoder } from "./decoder.ts";

export const qwen3: Architecture = {
  readShape: (file) => readDecoder(file, { pairing: "half", qk_norm: true }),
};
