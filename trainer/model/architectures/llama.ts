/**
 * Llama 1 to 3.2, Mistral and models like them. In Hugging Face's files RoPE rotates numbers half a head apart. The
 * converter to GGUF permutes the rows of queries and keys, so that it rotates adjacent ones.
 *
 * @source llama.cpp's convert_hf_to_gguf.py, `LlamaModel.permute`.
 */

import type { Architecture } from "./architecture.ts";
import { readDecoder } from "./decoder.ts";

export const llama: Architecture = {
  readShape: (file) => readDecoder(file, { pairing: "adjacent", qk_norm: false, qk_permuted: true }),
};
