/**
 * Gemma 2: every other layer sees a window, scores and logits have soft caps, blocks are normalised before and after.
 * GGUF files hold the weights of norms as factors, 1 added already.
 */

import type { GgufFile } from "../../formats/gguf.ts";
import type { ModelShape } from "../model_shape.ts";
import type { Architecture } from "./architecture.ts";
import { readDecoder } from "./decoder.ts";

/** What files that do not say so have, which are those of the first converters. */
const WINDOW = 4096, ATTENTION_SOFT_CAP = 50, LOGIT_SOFT_CAP = 30;

/** Layers of the 27B model, whose scores are scaled by width / heads where the others' are by the width of a head. */
const LAYERS_27B = 46;

/** @source Gemma Team, "Gemma 2" (2024), section 2 and table 1. */
export const gemma2: Architecture = {
  readShape(file: GgufFile): ModelShape {
    const shape = readDecoder(file, { pairing: "half", qk_norm: false });
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
