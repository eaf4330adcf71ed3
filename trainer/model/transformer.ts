/** Records the forward pass: the embedding, then layers of attention and feed-forward. */

import type { AttentionRules } from "../../kernels/attention/visibility.ts";
import { embedding } from "../../kernels/embedding/embedding.ts";
import { gatedActivation } from "../../kernels/gated_activation/gated_activation.ts";
import type { MatmulOperands } from "../../kernels/matmul/matmul.ts";
import type { Recorder } from "../../kernels/recorder.ts";
import { rmsNorm } from "../../kernels/rms_norm/rms_norm.ts";
import { rope, type RopePairing } from "../../kernels/rope/rope.ts";
import type { Tensor } from "../../kernels/tensor.ts";
import { type Activations, firstRows, type LayerActivations, viewLayer } from "./activations.ts";
import type { DeviceAdapter } from "./device_adapter.ts";
import {
  finishesHeads,
  finishHeads,
  fusedFeedForward,
  fusedOutput,
  fusedProjections,
  type HeadTensors,
  type PageWrites,
} from "./fused_layer.ts";
import { applyLoraA, groupOf, linear, normalizesInput, twinLinear } from "./linear.ts";
import type { ModelShape } from "./model_shape.ts";
import type { ModelWeights } from "./weights.ts";

/** cos and sin by position, `[T, D/2]` each, and which numbers of a head form a pair. */
export interface RotationTable {
  cosines: Tensor;
  sines: Tensor;
  pairing: RopePairing;
}

/** A model that is ready to run. */
export interface Model {
  recorder: Recorder;
  shape: ModelShape;
  weights: ModelWeights;
  /** By layer; null for a layer without position embedding. Layers with equal rotations share a table. */
  rotations: readonly (RotationTable | null)[];
  /** T: the tables have positions 0 to T − 1. */
  positions: number;
  /** The type of matmul operands in the forward pass. */
  compute: "f32" | "f16";
}

/** The rotated queries and keys of a layer, its values, and the output `o` to write; `[N, heads, D]` each. */
export interface AttentionTensors {
  q: Tensor;
  k: Tensor;
  v: Tensor;
  o: Tensor;
  /** The logsumexp of the scores, `[N, H]`, which the backward pass reads. */
  lse: Tensor;
  rules: AttentionRules;
}

/** The input of a pass over N rows. The caller decides how rows attend to each other or to a cache. */
export interface ForwardPass {
  model: Model;
  adapter: DeviceAdapter | null;
  rows: number;
  /** `[N] u32` each. */
  ids: Tensor;
  positions: Tensor;
  activations: Activations;
  /** For a pass that writes keys and values to pages; where it can, as it computes them. */
  pages?: PageWrites | undefined;
  /** Whether a GPU is given each layer when it is recorded: a pass over many rows may take seconds. */
  submits_layers?: boolean;
  /** Records the attention of a layer: it reads q, and k and v or the pages, and writes o. */
  attend(layer: number, tensors: AttentionTensors): void;
}

/** A pass over layers alone. */
type LayerPass = Omit<ForwardPass, "ids">;

/** Records the pass and returns the hidden states after the last layer, `[N, C]`. */
export function forward(pass: ForwardPass): Tensor {
  return firstLayers(pass, pass.model.shape.layers.length).x;
}

/**
 * Records a pass over pages of which nobody reads hidden states after the last layer: of that layer only keys and values.
 *
 * @returns The hidden states before the last layer, `[N, C]`, for {@link lastLayer}.
 */
export function forwardToLastLayer(pass: ForwardPass): Tensor {
  const last = pass.model.shape.layers.length - 1, { x, is_normed } = firstLayers(pass, last);
  const a = viewLayer(pass.activations, last, pass.rows);
  const input = normedInput(pass, last, { group: 0, x, is_normed, normed: a.attn_in, rstd: a.attn_rstd });
  projectHeads(pass, last, a, { ...headTensors(pass, last, a), ...input, has_queries: false });
  return x;
}

/**
 * Records the last layer of a pass whose rows have come through the others.
 *
 * @param x The hidden states before it, `[N, C]`; no buffer of the activations.
 * @returns Those after it, `[N, C]`.
 */
export function lastLayer(pass: LayerPass, x: Tensor): Tensor {
  return runLayer(pass, pass.model.shape.layers.length - 1, { x, is_normed: false }).x;
}

/** What a layer reads: the hidden states before it, and whether its `attn_in` is there already. */
interface LayerInput {
  x: Tensor;
  is_normed: boolean;
}

/** Records the embedding and layers 0 to `count` − 1. @returns The input of the next one. */
function firstLayers(pass: ForwardPass, count: number): LayerInput {
  const { model, rows, activations, ids } = pass, { width, embedding_scale } = model.shape;
  const x = firstRows(activations.before(0), rows, width);
  embedding(model.recorder, { ids, table: model.weights.embedding, x }, embedding_scale);
  let input: LayerInput = { x, is_normed: false };
  for (let layer = 0; layer < count; layer++) {
    activations.keepHalves(model.recorder, layer, rows);
    input = runLayer(pass, layer, input);
    if (pass.submits_layers) model.recorder.submitToGpu();
  }
  return input;
}

function runLayer(pass: LayerPass, layer: number, input: LayerInput): LayerInput {
  const { model, rows, activations } = pass, is_ffn_normed = attentionBlock(pass, layer, input);
  feedForwardInner(pass, layer, is_ffn_normed);
  const is_normed = feedForwardOutput(pass, layer);
  return { x: firstRows(activations.before(layer + 1), rows, model.shape.width), is_normed };
}

/**
 * Records a layer's activations again, from the hidden states before it. It runs the kernels of the forward pass in the
 * same order, so it computes the same bits, unless the hidden states were kept in half precision.
 */
export function recomputeLayer(pass: ForwardPass, layer: number): void {
  const { activations, model, rows } = pass;
  activations.restoreHalves(model.recorder, layer, rows);
  const x = firstRows(activations.before(layer), rows, model.shape.width);
  attentionBlock(pass, layer, { x, is_normed: false });
  feedForwardInner(pass, layer, false);
  // The output is an activation only if it has a norm. Otherwise it is in the hidden states, which were kept, and the
  // backward pass needs only what its adapter reads.
  if (model.weights.layers[layer]!.ffn_out_norm) feedForwardOutput(pass, layer);
  else applyLoraA(pass, layer, groupOf("down_proj"), viewLayer(activations, layer, rows).h);
}

/**
 * middle = x + o_proj(attention(norm(x))), or x + norm(o_proj(…)) with an output norm.
 *
 * @returns Whether `ffn_in` is there already.
 */
function attentionBlock(pass: LayerPass, layer: number, { x, is_normed }: LayerInput): boolean {
  const { model: { shape, weights }, rows, activations } = pass;
  const w = weights.layers[layer]!, a = viewLayer(activations, layer, rows);
  const input = normedInput(pass, layer, { group: 0, x, is_normed, normed: a.attn_in, rstd: a.attn_rstd });
  const tensors = { ...headTensors(pass, layer, a), ...input };
  if (input.norm || !fusedProjections(pass, layer, tensors)) projectHeads(pass, layer, a, tensors);
  pass.attend(layer, {
    q: tensors.q,
    ...keysAndValues(pass, a),
    o: firstRows(a.o, rows, shape.heads, shape.head_width),
    lse: a.lse,
    rules: attentionRules(shape, layer),
  });
  const after = { gamma: w.attn_out_norm, out: a.attn_out, rstd: a.attn_out_rstd };
  const next = { gamma: w.ffn_norm, normed: a.ffn_in };
  return addOutput(pass, layer, "o_proj", { x: a.o, y: a.middle, residual: x, next, ...after });
}

/** What products multiply: an input that is normalised already, or one that they normalise themselves. */
type ProductInput = Pick<MatmulOperands, "x" | "norm">;

/**
 * The input of the products of a group, 0 or 2, of a layer. Records its norm, unless it is there already or the products do it.
 *
 * @param input.normed Where the norm is written, or lies.
 */
function normedInput(
  pass: LayerPass,
  layer: number,
  { group, x, is_normed, normed, rstd }: LayerInput & { group: 0 | 2; normed: Tensor; rstd: Tensor },
): ProductInput {
  const { recorder, weights, shape: { norm_eps: eps } } = pass.model, w = weights.layers[layer]!;
  const gamma = group === 0 ? w.attn_norm : w.ffn_norm;
  if (is_normed) return { x: normed };
  if (normalizesInput(pass, layer, group)) return { x, norm: { gamma, eps } };
  rmsNorm(recorder, { x, gamma, y: normed, rstd }, eps);
  return { x: normed };
}

function headTensors({ model, rows, pages }: LayerPass, layer: number, a: LayerActivations): HeadTensors {
  const { shape: { heads, head_width, norm_eps }, rotations } = model;
  return { q: firstRows(a.q, rows, heads, head_width), pages, rotation: rotations[layer] ?? null, norm_eps };
}

/** Views of a layer's keys and values by head, `[N, K, D]`. */
function keysAndValues({ model, rows }: LayerPass, a: LayerActivations): { k: Tensor; v: Tensor } {
  const { kv_heads, head_width } = model.shape;
  const by_head = (tensor: Tensor) => firstRows(tensor, rows, kv_heads, head_width);
  return { k: by_head(a.k), v: by_head(a.v) };
}

/**
 * Records q, if it is wanted, k and v from the input, with their norms and rotations. k and v of a pass with pages
 * are in these at the end.
 */
function projectHeads(
  pass: LayerPass,
  layer: number,
  a: LayerActivations,
  { x, norm, has_queries = true, ...tensors }: HeadTensors & ProductInput & { has_queries?: boolean },
): void {
  const { model: { recorder, shape, weights }, rows } = pass, w = weights.layers[layer]!;
  const { heads, kv_heads, head_width, norm_eps } = shape, input = { x, norm };
  applyLoraA(pass, layer, 0, x);
  if (finishesHeads(pass, layer, tensors)) {
    if (has_queries) linear(pass, layer, "q_proj", { ...input, y: a.q, has_bias: false });
    if (!twinLinear(pass, layer, ["k_proj", "v_proj"], { ...input, out: [a.k, a.v] })) {
      linear(pass, layer, "k_proj", { ...input, y: a.k, has_bias: false });
      linear(pass, layer, "v_proj", { ...input, y: a.v, has_bias: false });
    }
    return finishHeads(pass, layer, { ...tensors, ...keysAndValues(pass, a) }, { has_queries });
  }
  if (has_queries) linear(pass, layer, "q_proj", { ...input, y: w.q_norm ? a.q_raw : a.q });
  linear(pass, layer, "k_proj", { ...input, y: w.k_norm ? a.k_raw : a.k });
  linear(pass, layer, "v_proj", { ...input, y: a.v });
  for (
    const [from, to, gamma, rstd, count] of [
      ...has_queries ? [[a.q_raw, a.q, w.q_norm, a.q_rstd, heads] as const] : [],
      [a.k_raw, a.k, w.k_norm, a.k_rstd, kv_heads],
    ] as const
  ) {
    if (gamma) {
      const by_head = [rows * count, head_width];
      const tensors = { x: firstRows(from, ...by_head), gamma, y: firstRows(to, ...by_head), rstd: rstd! };
      rmsNorm(recorder, tensors, norm_eps);
    }
    rotate(pass, layer, { x: firstRows(to, rows, count, head_width), inverse: false });
  }
  pass.pages?.write(layer, keysAndValues(pass, a));
}

/** How a layer computes scores from queries and keys, and which keys its rows see. */
export function attentionRules(shape: ModelShape, layer: number): AttentionRules {
  const { window, attention_soft_cap: soft_cap } = shape.layers[layer]!;
  return { scale: shape.attention_scale, window, soft_cap };
}

/** Records RoPE of every head in place, or its inverse. Records nothing for a layer without position embedding. */
export function rotate(
  { model: { recorder, rotations }, positions }: Pick<ForwardPass, "model" | "positions">,
  layer: number,
  { x, inverse }: { x: Tensor; inverse: boolean },
): void {
  const rotation = rotations[layer];
  if (!rotation) return;
  const { cosines, sines, pairing } = rotation;
  rope(recorder, { x, positions, cosines, sines }, { inverse, pairing });
}

/** h = activation(gate_proj(n)) · up_proj(n), where n = norm(middle). @param is_normed Whether n is there already. */
function feedForwardInner(pass: LayerPass, layer: number, is_normed: boolean): void {
  const { model: { recorder, shape, weights } } = pass, { activation } = shape.layers[layer]!;
  const w = weights.layers[layer]!, a = viewLayer(pass.activations, layer, pass.rows);
  const { x, norm } = normedInput(pass, layer, {
    ...{ group: 2, x: a.middle, is_normed },
    ...{ normed: a.ffn_in, rstd: a.ffn_rstd },
  });
  if (!norm && fusedFeedForward(pass, layer, { x, h: a.h, activation })) return;
  applyLoraA(pass, layer, 2, x);
  const has_biases = w.biases.gate_proj || w.biases.up_proj, out = { h: a.h, activation };
  if (!has_biases && twinLinear(pass, layer, ["gate_proj", "up_proj"], { x, norm, out })) return;
  linear(pass, layer, "gate_proj", { x, norm, y: a.gate });
  linear(pass, layer, "up_proj", { x, norm, y: a.up });
  gatedActivation(recorder, { gate: a.gate, up: a.up, h: a.h }, activation);
}

/**
 * x' = middle + down_proj(h), or middle + norm(down_proj(h)) with an output norm.
 *
 * @returns Whether `attn_in` of the next layer is there.
 */
function feedForwardOutput(pass: LayerPass, layer: number): boolean {
  const { model: { shape, weights }, rows, activations } = pass;
  const w = weights.layers[layer]!,
    a = viewLayer(activations, layer, rows),
    later = weights.layers[layer + 1];
  const y = firstRows(activations.before(layer + 1), rows, shape.width);
  const after = { gamma: w.ffn_out_norm, out: a.ffn_out, rstd: a.ffn_out_rstd };
  const next_in = later ? activations.layer(layer + 1).attn_in : a.attn_in;
  const next = { gamma: later?.attn_norm ?? null, normed: firstRows(next_in, rows, shape.width) };
  return addOutput(pass, layer, "down_proj", { x: a.h, y, residual: a.middle, next, ...after });
}

/**
 * y = residual + f(x), where f is the projection, or residual + norm(f(x)) with an output norm.
 *
 * @param next The norm that reads y, which some forms compute at once; no gamma: none does.
 * @returns Whether it was.
 */
function addOutput(
  pass: LayerPass,
  layer: number,
  target: "o_proj" | "down_proj",
  { x, y, residual, next, gamma, out, rstd }: {
    x: Tensor;
    y: Tensor;
    residual: Tensor;
    next: { gamma: Tensor | null; normed: Tensor };
    gamma: Tensor | null;
    out: Tensor | null;
    rstd: Tensor | null;
  },
): boolean {
  const { recorder, shape: { norm_eps } } = pass.model;
  const norm = { ...next, eps: norm_eps };
  if (!gamma && fusedOutput(pass, layer, target, { x, y, residual, norm })) return next.gamma !== null;
  applyLoraA(pass, layer, groupOf(target), x);
  linear(pass, layer, target, gamma ? { x, y: out! } : { x, y, residual });
  if (gamma) rmsNorm(recorder, { x: out!, gamma, y, rstd: rstd!, residual }, norm_eps);
  return false;
}
