/** The buffers that a forward pass writes. */

import type { Recorder } from "../../kernels/recorder.ts";
import { packHalves, unpackHalves } from "../../kernels/rows/rows.ts";
import { type Allocator, type DType, type Tensor, view } from "../../kernels/tensor.ts";
import { INPUT_GROUPS } from "./device_adapter.ts";
import type { LayerShape, ModelShape } from "./model_shape.ts";

/** The tensors that one layer writes in the forward pass and the backward pass reads. The first axis is the row. */
export interface LayerActivations {
  /** The normalised inputs of attention and feed-forward `[N, C]`, and the 1 / rms of each row `[N]`. */
  attn_in: Tensor;
  attn_rstd: Tensor;
  ffn_in: Tensor;
  ffn_rstd: Tensor;
  /**
   * Queries `[N, H·D]` and keys `[N, K·D]` before their norm, and the 1 / rms of each head. Without a norm `q_raw` is
   * `q` and `k_raw` is `k`.
   */
  q_raw: Tensor;
  k_raw: Tensor;
  q_rstd: Tensor | null;
  k_rstd: Tensor | null;
  /** Normalised and rotated queries `[N, H·D]`, normalised and rotated keys `[N, K·D]`, and values `[N, K·D]`. */
  q: Tensor;
  k: Tensor;
  v: Tensor;
  /** The output of attention `[N, H·D]`, and the logsumexp of its scores `[N, H]`. */
  o: Tensor;
  lse: Tensor;
  /** The hidden states between attention and feed-forward, `[N, C]`. */
  middle: Tensor;
  /** The outputs of both blocks before their norm `[N, C]`, and the 1 / rms of each row `[N]`; null without a norm. */
  attn_out: Tensor | null;
  attn_out_rstd: Tensor | null;
  ffn_out: Tensor | null;
  ffn_out_rstd: Tensor | null;
  /** `[N, F]`: h = activation(gate) · up. */
  gate: Tensor;
  up: Tensor;
  h: Tensor;
  /** x · Aᵀ of each input group, at most `[N, targets · padded rank]`. */
  lora_a: Tensor[];
}

/**
 * What a forward pass keeps. `activations`: those of every layer. `hidden_states`: those between layers, and the
 * activations of the last layer. `nothing`: there is no backward pass.
 */
type KeptActivations = "activations" | "hidden_states" | "nothing";

/** The sizes of buffers, and what they keep. */
export interface ActivationsOptions {
  rows: number;
  kept: KeptActivations;
  /** The type of kept `hidden_states`; f32 where left out. */
  stream?: "f32" | "f16";
  padded_rank: number;
  component: string;
}

/** Buffers for up to `rows` rows, freed with their allocator. */
export class Activations {
  readonly layers: LayerActivations[];
  /** The hidden states before each layer and after the last, or two buffers that alternate. */
  readonly hidden_states: Tensor[];
  /** The hidden states before each layer but the last in half precision, where the buffers alternate and they are kept. */
  readonly halves: Tensor[] = [];

  constructor(
    readonly allocator: Allocator,
    readonly shape: ModelShape,
    readonly options: ActivationsOptions,
  ) {
    const { rows, kept, stream } = options, layers = shape.layers.length;
    const in_halves = kept === "hidden_states" && stream === "f16";
    const count = kept === "nothing" || in_halves ? 2 : layers + 1;
    this.hidden_states = Array.from({ length: count }, () => this.#create(rows, shape.width));
    for (let i = 0; in_halves && i < layers - 1; i++) {
      this.halves.push(this.#createOf("f16", rows, shape.width));
    }
    // A set of buffers that all layers share has every buffer that any of them needs.
    const any = {
      qk_norm: shape.layers.some(({ qk_norm }) => qk_norm),
      norms_after: shape.layers.some(({ norms_after }) => norms_after),
    };
    this.layers = (kept === "activations" ? shape.layers : [any]).map((norms) => this.#createLayer(norms));
  }

  /** The activations of a layer. Layers share them unless all activations are kept. */
  layer(index: number): LayerActivations {
    return this.layers[this.options.kept === "activations" ? index : 0]!;
  }

  /** The hidden states before layer `index`; after the last layer for an index that is the number of layers. */
  before(index: number): Tensor {
    return this.hidden_states[index % this.hidden_states.length]!;
  }

  /** Records the copy in half precision of the hidden states before a layer, if it is kept. */
  keepHalves(recorder: Recorder, layer: number, rows: number): void {
    const tensors = this.#ofLayer(layer, rows);
    if (tensors) packHalves(recorder, tensors);
  }

  /** Records the return of what {@link keepHalves} kept. */
  restoreHalves(recorder: Recorder, layer: number, rows: number): void {
    const tensors = this.#ofLayer(layer, rows);
    if (tensors) unpackHalves(recorder, tensors);
  }

  #ofLayer(layer: number, rows: number): { x: Tensor; halves: Tensor } | null {
    const halves = this.halves[layer], { width } = this.shape;
    if (!halves) return null;
    return { x: firstRows(this.before(layer), rows, width), halves: firstRows(halves, rows, width) };
  }

  #create(...shape: number[]): Tensor {
    return this.#createOf("f32", ...shape);
  }

  #createOf(dtype: DType, ...shape: number[]): Tensor {
    return this.allocator.create(this.options.component, shape, dtype);
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

/** The start of a tensor, as a view of this shape. */
export function firstRows(tensor: Tensor, ...shape: number[]): Tensor {
  return view(tensor, shape);
}

/** Views of a layer's activations with the rows of the pass; `lora_a` is returned as it is. */
export function viewLayer(activations: Activations, layer: number, rows: number): LayerActivations {
  const { lora_a, ...tensors } = activations.layer(layer);
  const capacity = activations.options.rows;
  const cut = Object.fromEntries(
    Object.entries(tensors).map(([name, tensor]) => {
      if (tensor === null) return [name, null];
      const [first, ...rest] = tensor.shape as [number, ...number[]];
      return [name, firstRows(tensor, first / capacity * rows, ...rest)];
    }),
  );
  return { ...cut, lora_a } as unknown as LayerActivations;
}
