/** The buffers that a pass through the model writes. */

import { type Allocator, type Tensor, view } from "../../kernels/tensor.ts";
import { INPUT_GROUPS } from "./device_adapter.ts";
import type { LayerShape, ModelShape } from "./model_shape.ts";

/** What one layer writes in a forward pass and the backward pass reads; the rows are the first axis. */
export interface LayerActivations {
  /** `[N, C]`, normalised input of attention and feed-forward, and 1 / rms `[N]` of each. */
  attn_in: Tensor;
  attn_rstd: Tensor;
  ffn_in: Tensor;
  ffn_rstd: Tensor;
  /** Before normalisation: `[N, H·D]`, `[N, K·D]`; 1 / rms of each head. `q` and `k` again where there is no norm. */
  q_raw: Tensor;
  k_raw: Tensor;
  q_rstd: Tensor | null;
  k_rstd: Tensor | null;
  q: Tensor;
  k: Tensor;
  v: Tensor;
  /** Attention's output `[N, H·D]`, and the logarithm of its denominator `[N, H]`. */
  o: Tensor;
  lse: Tensor;
  /** The residual stream between attention and feed-forward `[N, C]`. */
  middle: Tensor;
  /** What attention and feed-forward put out `[N, C]`, and 1 / rms `[N]`; null where it is added as it is. */
  attn_out: Tensor | null;
  attn_out_rstd: Tensor | null;
  ffn_out: Tensor | null;
  ffn_out_rstd: Tensor | null;
  /** `[N, F]` */
  gate: Tensor;
  up: Tensor;
  h: Tensor;
  /** A·x of each input group, `[N, targets · padded rank]` at most. */
  lora_a: Tensor[];
}

/**
 * What a pass leaves for a backward pass: the activations of every layer; the hidden states between layers and the
 * activations of the last layer; or nothing.
 */
export type Kept = "activations" | "hidden_states" | "nothing";

/** Buffers for up to `rows` rows, freed with their allocator. */
export class Activations {
  readonly layers: LayerActivations[];
  /** The hidden states before each layer, and after the last; two in turn where nothing is kept. */
  readonly hidden_states: Tensor[];

  constructor(
    readonly allocator: Allocator,
    readonly shape: ModelShape,
    readonly options: { rows: number; kept: Kept; padded_rank: number; component: string },
  ) {
    const { rows, kept } = options;
    const count = kept === "nothing" ? 2 : shape.layers.length + 1;
    this.hidden_states = Array.from({ length: count }, () => this.#create(rows, shape.width));
    // Layers that share one set of buffers find in it what any of them needs.
    const any = {
      qk_norm: shape.layers.some(({ qk_norm }) => qk_norm),
      norms_after: shape.layers.some(({ norms_after }) => norms_after),
    };
    this.layers = (kept === "activations" ? shape.layers : [any]).map((norms) => this.#createLayer(norms));
  }

  layer(index: number): LayerActivations {
    return this.layers[this.options.kept === "activations" ? index : 0]!;
  }

  /** The hidden states before layer `index`. */
  before(index: number): Tensor {
    return this.hidden_states[this.options.kept === "nothing" ? index % 2 : index]!;
  }

  #create(...shape: number[]): Tensor {
    return this.allocator.create(this.options.component, shape);
  }

  #createLayer({ qk_norm, norms_after }: Pick<LayerShape, "qk_norm" | "norms_after">): LayerActivations {
    const { rows, padded_rank } = this.options;
    const { width, heads, kv_heads, head_width, feed_forward } = this.shape;
    const query = heads * head_width, key = kv_heads * head_width;
    const q = this.#create(rows, query), k = this.#create(rows, key);
    return {
      attn_in: this.#create(rows, width),
      attn_rstd: this.#create(rows),
      ffn_in: this.#create(rows, width),
      ffn_rstd: this.#create(rows),
      q_raw: qk_norm ? this.#create(rows, query) : q,
      k_raw: qk_norm ? this.#create(rows, key) : k,
      q_rstd: qk_norm ? this.#create(rows * heads) : null,
      k_rstd: qk_norm ? this.#create(rows * kv_heads) : null,
      q,
      k,
      v: this.#create(rows, key),
      o: this.#create(rows, query),
      lse: this.#create(rows, heads),
      middle: this.#create(rows, width),
      attn_out: norms_after ? this.#create(rows, width) : null,
      attn_out_rstd: norms_after ? this.#create(rows) : null,
      ffn_out: norms_after ? this.#create(rows, width) : null,
      ffn_out_rstd: norms_after ? this.#create(rows) : null,
      gate: this.#create(rows, feed_forward),
      up: this.#create(rows, feed_forward),
      h: this.#create(rows, feed_forward),
      lora_a: INPUT_GROUPS.map((group) => this.#create(rows, Math.max(4, group.length * padded_rank))),
    };
  }
}

/** The first rows of a tensor, under a shape whose first axis they are. */
export function firstRows(tensor: Tensor, ...shape: number[]): Tensor {
  return view(tensor, shape);
}
