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

/** Buffers for up to `rows` rows, freed with their allocator. `saved`: every layer keeps its own, for a backward pass. */
export class Activations {
  readonly layers: LayerActivations[];
  /** The residual stream before each layer, and behind the last; two in turn where nothing is saved. */
  readonly hidden_states: Tensor[];

  constructor(
    readonly allocator: Allocator,
    readonly shape: ModelShape,
    readonly options: { rows: number; saved: boolean; padded_rank: number; component: string },
  ) {
    const { rows, saved } = options;
    const count = saved ? shape.layers.length + 1 : 2;
    this.hidden_states = Array.from({ length: count }, () => this.#create(rows, shape.width));
    // Where nothing is saved all layers write into one, which has what any of them needs.
    const any = {
      qk_norm: shape.layers.some(({ qk_norm }) => qk_norm),
      norms_after: shape.layers.some(({ norms_after }) => norms_after),
    };
    this.layers = (saved ? shape.layers : [any]).map((norms) => this.#createLayer(norms));
  }

  layer(index: number): LayerActivations {
    return this.layers[this.options.saved ? index : 0]!;
  }

  /** The residual stream before layer `index`. */
  before(index: number): Tensor {
    return this.hidden_states[this.options.saved ? index : index % 2]!;
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
