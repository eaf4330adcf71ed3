/** A transformer as plain data: all that the forward and backward passes know of its architecture. */

import { GGUF_NAMES, LORA_TARGETS, type LoraTarget } from "../../core/lora_targets.ts";
import type { Activation } from "../../kernels/gated_activation/gated_activation.ts";
import type { RopePairing } from "../../kernels/rope/rope.ts";

/** Rotary position embedding (RoPE) of queries and keys. */
export interface Rotation {
  /** Pair i of position p turns by p · base^(−2i / D), divided by the pair's factor. */
  base: number;
  pairing: RopePairing;
  /** The name of the tensor with D/2 divisors of the frequencies; null without one. */
  factors: string | null;
}

/** The properties of one layer. */
export interface LayerShape {
  /** Null for a layer without position embedding. */
  rotation: Rotation | null;
  /** Whether each head of the queries and keys is normalised. */
  qk_norm: boolean;
  /** The projections that have a bias. */
  biases: readonly LoraTarget[];
  /** A row at position p sees the keys at positions p − window + 1 to p; null: at positions 0 to p. */
  window: number | null;
  /** A score s becomes `cap · tanh(s / cap)` before the softmax; null: no cap. */
  attention_soft_cap: number | null;
  /** The activation function of the gate in the feed-forward block. */
  activation: Activation;
  /** Whether the outputs of attention and feed-forward are normalised before they are added to the hidden states. */
  norms_after: boolean;
}

/** A decoder with grouped-query attention and gated feed-forward blocks. Comments give the letter of each axis. */
export interface ModelShape {
  /** `general.architecture`. */
  architecture: string;
  /** C: the width of the hidden states. */
  width: number;
  /** H: the query heads. */
  heads: number;
  /** K: the key/value heads. */
  kv_heads: number;
  /** D: the width of a head. */
  head_width: number;
  /** F: the width of the feed-forward block. */
  feed_forward: number;
  /** V: the number of token ids. */
  vocabulary: number;
  norm_eps: number;
  /** The factor of q · k before the softmax. */
  attention_scale: number;
  /** The factor of the token embeddings. */
  embedding_scale: number;
  /** A logit z becomes `cap · tanh(z / cap)`; null: no cap. */
  logit_soft_cap: number | null;
  /** The context length that the model was trained for, in tokens. */
  context_length: number;
  /** Whether the output matrix is the embedding matrix. */
  tied: boolean;
  /**
   * Whether GGUF files have the rows of the query and key projections in another order than Hugging Face's files: the
   * numbers that RoPE rotates together are adjacent in a head of the one and half a head apart in the other.
   */
  qk_permuted: boolean;
  layers: readonly LayerShape[];
}

/** The tensors outside of the layers, with their names in GGUF files. A file has no `output` if the model is tied. */
export const MODEL_TENSORS = {
  embedding: "token_embd.weight",
  output_norm: "output_norm.weight",
  output: "output.weight",
  /** Divisors of the RoPE frequencies, one tensor for all layers. Llama 3.1 extends its context with it. */
  rope_factors: "rope_freqs.weight",
} as const;

/** All norms that a layer may have, with their names in GGUF files. */
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

/** The names of all tensors of the model in GGUF files, with their row-major shapes. */
export function tensorShapes(shape: ModelShape): Map<string, number[]> {
  const { width, head_width, vocabulary } = shape;
  const out = new Map<string, number[]>([
    [MODEL_TENSORS.embedding, [vocabulary, width]],
    [MODEL_TENSORS.output_norm, [width]],
  ]);
  if (!shape.tied) out.set(MODEL_TENSORS.output, [vocabulary, width]);
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

/** The widths of the output and the input of a projection. */
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
