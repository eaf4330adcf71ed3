/** The transformer in a model file as plain data: all that the forward and the backward pass know of an architecture. */

import type { BUILT_ARCHITECTURES } from "../../config/built.ts";
import { GGUF_NAMES, LORA_TARGETS, type LoraTarget } from "../../core/lora_targets.ts";
import type { Activation } from "../../kernels/gated_activation/gated_activation.ts";
import type { RopePairing } from "../../kernels/rope/rope.ts";

/** How queries and keys turn with their position. */
export interface Rotation {
  base: number;
  pairing: RopePairing;
  /** The tensor of D/2 divisors of the frequencies; null: there are none. */
  factors: string | null;
}

/** What one layer does. */
export interface LayerShape {
  /** Null: positions do not count. */
  rotation: Rotation | null;
  /** Queries and keys are normalised, head by head. */
  qk_norm: boolean;
  /** Projections that add a bias. */
  biases: readonly LoraTarget[];
  /** A row at position p sees the keys at positions above p − window; null: all up to its own. */
  window: number | null;
  /** A score s becomes `cap · tanh(s / cap)` before the softmax; null: it stays. */
  attention_soft_cap: number | null;
  /** The function of the gate in the feed-forward block. */
  activation: Activation;
  /** What attention and feed-forward put out is normalised before it is added to the residual stream. */
  norms_after: boolean;
}

/** A decoder with grouped-query attention and a gated feed-forward block: sizes in the axes' letters. */
export interface ModelShape {
  architecture: typeof BUILT_ARCHITECTURES[number];
  /** C */
  width: number;
  /** H */
  heads: number;
  /** K */
  kv_heads: number;
  /** D */
  head_width: number;
  /** F */
  feed_forward: number;
  /** V */
  vocabulary: number;
  norm_eps: number;
  /** The factor of q·k before the softmax. */
  attention_scale: number;
  /** The factor of a token's embedding. */
  embedding_scale: number;
  /** A logit z becomes `cap · tanh(z / cap)`; null: it stays. */
  logit_soft_cap: number | null;
  context_length: number;
  /** The output matrix is the embedding. */
  tied: boolean;
  layers: readonly LayerShape[];
}

/** The norms of a layer, with their names in GGUF files. */
export const NORM_NAMES = {
  attn_norm: "attn_norm",
  ffn_norm: "ffn_norm",
  q_norm: "attn_q_norm",
  k_norm: "attn_k_norm",
  attn_out_norm: "post_attention_norm",
  ffn_out_norm: "post_ffw_norm",
} as const;

export type LayerNorm = keyof typeof NORM_NAMES;

/** The norms that a layer has. */
export function layerNorms({ qk_norm, norms_after }: LayerShape): LayerNorm[] {
  return [
    ...["attn_norm", "ffn_norm"] as const,
    ...qk_norm ? ["q_norm", "k_norm"] as const : [],
    ...norms_after ? ["attn_out_norm", "ffn_out_norm"] as const : [],
  ];
}

/** The name of a layer's tensor in a GGUF file, such as `blk.0.attn_q.weight`. */
export function layerTensorName(layer: number, part: string, kind: "weight" | "bias" = "weight"): string {
  return `blk.${layer}.${part}.${kind}`;
}

/** Every tensor that the model needs, with its row-major shape. */
export function tensorShapes(shape: ModelShape): Map<string, number[]> {
  const { width, head_width, vocabulary } = shape;
  const out = new Map<string, number[]>([
    ["token_embd.weight", [vocabulary, width]],
    ["output_norm.weight", [width]],
  ]);
  if (!shape.tied) out.set("output.weight", [vocabulary, width]);
  for (const [i, layer] of shape.layers.entries()) {
    const { rotation, biases } = layer;
    for (const norm of layerNorms(layer)) {
      const length = norm === "q_norm" || norm === "k_norm" ? head_width : width;
      out.set(layerTensorName(i, NORM_NAMES[norm]), [length]);
    }
    for (const target of LORA_TARGETS) {
      const { out_width, in_width } = linearShape(shape, target);
      out.set(layerTensorName(i, GGUF_NAMES[target]), [out_width, in_width]);
      if (biases.includes(target)) out.set(layerTensorName(i, GGUF_NAMES[target], "bias"), [out_width]);
    }
    if (rotation?.factors) out.set(rotation.factors, [head_width / 2]);
  }
  return out;
}

/** Widths of a projection's output and input. */
export function linearShape(shape: ModelShape, target: LoraTarget): { out_width: number; in_width: number } {
  const { width, heads, kv_heads, head_width, feed_forward } = shape;
  const attention = heads * head_width, key_value = kv_heads * head_width;
  switch (target) {
    case "q_proj":
      return { out_width: attention, in_width: width };
    case "k_proj":
    case "v_proj":
      return { out_width: key_value, in_width: width };
    case "o_proj":
      return { out_width: width, in_width: attention };
    case "gate_proj":
    case "up_proj":
      return { out_width: feed_forward, in_width: width };
    case "down_proj":
      return { out_width: width, in_width: feed_forward };
  }
}
