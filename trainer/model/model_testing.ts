/** Shapes that the tests of this room share. */

import type { LayerShape, ModelShape } from "./model_shape.ts";

/** The shape of a Qwen3 layer. */
export const TEST_LAYER: LayerShape = {
  rotation: { base: 10_000, pairing: "half", factors: null },
  qk_norm: true,
  biases: [],
  window: null,
  attention_soft_cap: null,
  activation: "silu",
  norms_after: false,
};

/** The shape of a small Qwen3 model. `sizes` replaces the defaults. */
export function testShape(layers: number, sizes: Partial<ModelShape>): ModelShape {
  const shape = {
    ...{ architecture: "qwen3" as const, width: 32, heads: 4, kv_heads: 2, head_width: 8, feed_forward: 48 },
    ...{ vocabulary: 24, norm_eps: Math.fround(1e-6), context_length: 64, tied: false, qk_permuted: false },
    layers: Array.from({ length: layers }, () => TEST_LAYER),
    ...sizes,
  };
  return {
    ...{ attention_scale: 1 / Math.sqrt(shape.head_width), embedding_scale: 1, logit_soft_cap: null },
    ...shape,
  };
}
