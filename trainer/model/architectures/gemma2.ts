/**
 * Gemma 2. Every other layer has sliding-window attention. Scores and logits have soft caps. Each block has a norm
 * before and after it. The norm weights in GGUF files already include the added 1.
 */

import type { GgufFile } from "../../formats/gguf.ts";
import type { ModelShape } from "../model_shape.ts";
import type { Architecture } from "./architecture.ts";
import { readDecoder } from "./decoder.ts";

/** Defaults for files of the first converters, which lack these keys. */
const WINDOW = 4096, ATTENTION_SOFT_CAP = 50, LOGIT_SOFT_CAP = 30;

/** The layers of the 27B model. It scales scores by 1 / √(width / heads), the other sizes by 1 / √(head width). */
const LAYERS_27B = 46;

/** @source Gemma Team, "Gemma 2" (2024), section 2 and table 1. */
export const gemma2: Architecture = {
  readShape(file: GgufFile): ModelShape {
    const shape = readDecoder(file, { pairing: "half", qk_norm: false, qk_permuted: false });
    const { width, heads, head_width, layers } = shape;
    const window = file.getUint("gemma2.attention.sliding_window", WINDOW);
    const attention_soft_cap = file.getFloat("gemma2.attn_logit_softcapping", ATTENTION_SOFT_CAP);
    return {
      ...shape,
      attention_scale: 1 / Math.sqrt(layers.length === LAYERS_27B ? width / heads : head_width),
      embedding_scale: Math.sqrt(width),
      logit_soft_cap: file.getFloat("gemma2.final_logit_softcapping", LOGIT_SOFT_CAP),
      layers: layers.map((layer, i) => ({
        ...layer,
        window: i % 2 === 0 ? window : null,
        attention_soft_cap,
        activation: "gelu_tanh",
        norms_after: true,
      })),
    };
  },
};
