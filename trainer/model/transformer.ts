/** Records the forward pass: the embedding, then layers of attention and feed-forward. */

import type { LoraTarget } from "../../core/lora_targets.ts";
import type { AttentionRules } from "../../kernels/attention/visibility.ts";
import { addBias } from "../../kernels/bias/bias.ts";
import { embedding } from "../../kernels/embedding/embedding.ts";
import { gatedActivation } from "../../kernels/gated_activation/gated_activation.ts";
import { type LoraTerm, matmul, type MatmulOperands, takesA } from "../../kernels/matmul/matmul.ts";
import { fitsTwin, matmulTwin, type TwinOperands } from "../../kernels/matmul/matmul_twin.ts";
import type { Recorder } from "../../kernels/recorder.ts";
import { rmsNorm } from "../../kernels/rms_norm/rms_norm.ts";
import { rope, type RopePairing } from "../../kernels/rope/rope.ts";
import type { Tensor } from "../../kernels/tensor.ts";
import type { Weight } from "../../kernels/weights/weight.ts";
import { type Activations, firstRows, type LayerActivations } from "./activations.ts";
import { type DeviceAdapter, INPUT_GROUPS } from "./device_adapter.ts";
import {
  finishesHeads,
  finishHeads,
  fusedFeedForward,
  fusedOutput,
  fusedProjections,
  type HeadTensors,
  type PageWrites,
} from "./fused_layer.ts";
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
  /** Whether k and v are in the pages of the pass already, and nowhere else. */
  in_pages: boolean;
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
  /** For a pass that writes keys and values to pages as it computes them where it can. */
  pages?: PageWrites | undefined;
  /** Records the attention of a layer: it reads q, k and v, and writes o. */
  attend(layer: number, tensors: AttentionTensors): void;
}

/** Records the pass and returns the hidden states after the last layer, `[N, C]`. */
export function forward(pass: ForwardPass): Tensor {
  const { model, rows, activations, ids } = pass;
  const { width, embedding_scale } = model.shape, layers = model.shape.layers.length;
  const x = firstRows(activations.before(0), rows, width);
  embedding(model.recorder, { ids, table: model.weights.embedding, x }, embedding_scale);
  let is_normed = false;
  for (let layer = 0; layer < layers; layer++) {
    activations.keepHalves(model.recorder, layer, rows);
    is_normed = attentionBlock(pass, layer, is_normed);
    feedForwardInner(pass, layer, is_normed);
    is_normed = feedForwardOutput(pass, layer);
  }
  return firstRows(activations.before(layers), rows, width);
}

/**
 * Records a layer's activations again, from the hidden states before it. It runs the kernels of the forward pass in the
 * same order, so it computes the same bits, unless the hidden states were kept in half precision.
 */
export function recomputeLayer(pass: ForwardPass, layer: number): void {
  pass.activations.restoreHalves(pass.model.recorder, layer, pass.rows);
  attentionBlock(pass, layer, false);
  feedForwardInner(pass, layer, false);
  // The output is an activation only if it has a norm. Otherwise it is in the hidden states, which were kept, and the
  // backward pass needs only what its adapter reads.
  if (pass.model.weights.layers[layer]!.ffn_out_norm) feedForwardOutput(pass, layer);
  else applyLoraA(pass, layer, groupOf("down_proj"), viewLayer(pass.activations, layer, pass.rows).h);
}

/**
 * middle = x + o_proj(attention(norm(x))), or x + norm(o_proj(…)) with an output norm.
 *
 * @param is_normed Whether `attn_in` is there already.
 * @returns Whether `ffn_in` is.
 */
function attentionBlock(pass: ForwardPass, layer: number, is_normed: boolean): boolean {
  const { model: { recorder, shape, weights, rotations }, rows, activations, pages } = pass;
  const { width, heads, kv_heads, head_width, norm_eps } = shape;
  const w = weights.layers[layer]!, a = viewLayer(activations, layer, rows);
  const x = firstRows(activations.before(layer), rows, width);
  if (!is_normed) rmsNorm(recorder, { x, gamma: w.attn_norm, y: a.attn_in, rstd: a.attn_rstd }, norm_eps);
  const q = firstRows(a.q, rows, heads, head_width), rotation = rotations[layer] ?? null;
  const tensors = { q, pages, rotation, norm_eps };
  const in_pages = fusedProjections(pass, layer, { x: a.attn_in, ...tensors }) ||
    projectHeads(pass, layer, a, tensors);
  pass.attend(layer, {
    q,
    k: firstRows(a.k, rows, kv_heads, head_width),
    v: firstRows(a.v, rows, kv_heads, head_width),
    o: firstRows(a.o, rows, heads, head_width),
    lse: a.lse,
    rules: attentionRules(shape, layer),
    in_pages,
  });
  const after = { gamma: w.attn_out_norm, out: a.attn_out, rstd: a.attn_out_rstd };
  const next = { gamma: w.ffn_norm, normed: a.ffn_in };
  return addOutput(pass, layer, "o_proj", { x: a.o, y: a.middle, residual: x, next, ...after });
}

/**
 * Records q, k and v from the normalised input, with their norms and rotations.
 *
 * @returns Whether k and v are in the pages instead.
 */
function projectHeads(
  pass: ForwardPass,
  layer: number,
  a: LayerActivations,
  tensors: HeadTensors,
): boolean {
  const { model: { recorder, shape, weights }, rows } = pass, w = weights.layers[layer]!;
  const { heads, kv_heads, head_width, norm_eps } = shape, x = a.attn_in;
  applyLoraA(pass, layer, 0, x);
  if (finishesHeads(pass, layer, tensors)) {
    linear(pass, layer, "q_proj", { x, y: a.q, has_bias: false });
    if (!twinLinear(pass, layer, ["k_proj", "v_proj"], { x, out: [a.k, a.v] })) {
      linear(pass, layer, "k_proj", { x, y: a.k, has_bias: false });
      linear(pass, layer, "v_proj", { x, y: a.v, has_bias: false });
    }
    const by_head = (tensor: Tensor) => firstRows(tensor, rows, kv_heads, head_width);
    finishHeads(pass, layer, { ...tensors, k: by_head(a.k), v: by_head(a.v) });
    return true;
  }
  linear(pass, layer, "q_proj", { x, y: w.q_norm ? a.q_raw : a.q });
  linear(pass, layer, "k_proj", { x, y: w.k_norm ? a.k_raw : a.k });
  linear(pass, layer, "v_proj", { x, y: a.v });
  for (
    const [from, to, gamma, rstd, count] of [
      [a.q_raw, a.q, w.q_norm, a.q_rstd, heads],
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
  return false;
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
function feedForwardInner(pass: ForwardPass, layer: number, is_normed: boolean): void {
  const { model: { recorder, shape, weights } } = pass, { activation } = shape.layers[layer]!;
  const w = weights.layers[layer]!, a = viewLayer(pass.activations, layer, pass.rows);
  const norm = { x: a.middle, gamma: w.ffn_norm, y: a.ffn_in, rstd: a.ffn_rstd };
  if (!is_normed) rmsNorm(recorder, norm, shape.norm_eps);
  if (fusedFeedForward(pass, layer, { x: a.ffn_in, h: a.h, activation })) return;
  applyLoraA(pass, layer, 2, a.ffn_in);
  const has_biases = w.biases.gate_proj || w.biases.up_proj,
    gated = { x: a.ffn_in, out: { h: a.h, activation } };
  if (!has_biases && twinLinear(pass, layer, ["gate_proj", "up_proj"], gated)) return;
  linear(pass, layer, "gate_proj", { x: a.ffn_in, y: a.gate });
  linear(pass, layer, "up_proj", { x: a.ffn_in, y: a.up });
  gatedActivation(recorder, { gate: a.gate, up: a.up, h: a.h }, activation);
}

/**
 * x' = middle + down_proj(h), or middle + norm(down_proj(h)) with an output norm.
 *
 * @returns Whether `attn_in` of the next layer is there.
 */
function feedForwardOutput(pass: ForwardPass, layer: number): boolean {
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
  pass: ForwardPass,
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

/** Records u = x · Aᵀ for all targets of an input group, unless their products compute it. */
function applyLoraA(pass: ForwardPass, layer: number, group: number, x: Tensor): void {
  const place = pass.adapter?.layout.lora_a[layer]?.[group];
  if (!place || multipliesA(pass, layer, group)) return;
  const u = loraAOutput(pass, layer, group)!;
  const weight: Weight = { type: "f32", values: pass.adapter!.params.view(place), shape: place.shape };
  matmul(pass.model.recorder, "nt", { x, weight, y: u }, { compute: pass.model.compute });
}

/** The buffer of x · Aᵀ of an input group, `[N, targets · padded rank]`; null for a group without targets. */
export function loraAOutput(
  pass: Pick<ForwardPass, "adapter" | "activations" | "rows">,
  layer: number,
  group: number,
): Tensor | null {
  const place = pass.adapter?.layout.lora_a[layer]?.[group];
  return place ? firstRows(pass.activations.layer(layer).lora_a[group]!, pass.rows, place.shape[0]) : null;
}

/** The index of a projection's group in {@link INPUT_GROUPS}. */
export function groupOf(target: LoraTarget): number {
  return INPUT_GROUPS.findIndex((group) => (group as readonly LoraTarget[]).includes(target));
}

/**
 * Records y = x · Wᵀ + (alpha / rank) · u · Bᵀ (+ residual) (+ bias).
 *
 * @param has_bias Absent: true where there is one.
 */
function linear(
  pass: ForwardPass,
  layer: number,
  target: LoraTarget,
  { x, y, residual, has_bias = true }: Pick<MatmulOperands, "x" | "y" | "residual"> & { has_bias?: boolean },
): void {
  const { recorder, compute } = pass.model;
  const { linears, biases } = pass.model.weights.layers[layer]!,
    weight = linears[target],
    bias = biases[target];
  const lora = loraTerm(pass, layer, target) ?? undefined;
  matmul(recorder, "nt", { x, weight, y, lora, residual }, { compute });
  if (bias && has_bias) addBias(recorder, { y, bias });
}

/**
 * Records two projections of one input in one dispatch, with their low-rank terms and without biases; or their gated product.
 * False, and nothing, where it does not fit. A pass whose activations are kept for a backward pass takes it for none.
 */
function twinLinear(
  pass: ForwardPass,
  layer: number,
  [first, second]: readonly [LoraTarget, LoraTarget],
  operands: Pick<TwinOperands, "x" | "out">,
): boolean {
  if (pass.activations.options.kept !== "nothing") return false;
  const { recorder, compute, weights } = pass.model, { linears } = weights.layers[layer]!;
  const pair = [linears[first], linears[second]] as const;
  const [a, b] = [loraTerm(pass, layer, first), loraTerm(pass, layer, second)];
  const outputs = "h" in operands.out ? 1 : 2;
  if (!fitsTwin(recorder.gpu, { weights: pair, terms: [a, b], outputs })) return false;
  matmulTwin(recorder, { ...operands, weights: pair, terms: a && b ? [a, b] : undefined }, { compute });
  return true;
}

/** The low-rank term of a projection; null for one that is no target. */
function loraTerm(pass: ForwardPass, layer: number, target: LoraTarget): LoraTerm | null {
  const { adapter } = pass, pair = adapter?.layout.pairs[layer]?.[target];
  if (!adapter || !pair) return null;
  const group = groupOf(target), place = adapter.layout.lora_a[layer]![group]!;
  const term = { column: pair.column, matrix: adapter.params.view(pair.b), scale: adapter.scale };
  return multipliesA(pass, layer, group)
    ? { ...term, u: adapter.params.view(place), u_is_a: true }
    : { ...term, u: loraAOutput(pass, layer, group)! };
}

/**
 * Whether the products of an input group multiply x with A. A pass whose activations are kept for a backward pass needs
 * x · Aᵀ.
 */
function multipliesA(
  { model, adapter, rows, activations }: ForwardPass,
  layer: number,
  group: number,
): boolean {
  if (!adapter || activations.options.kept !== "nothing") return false;
  const { padded_rank: rank, lora_a, pairs } = adapter.layout, [, depth] = lora_a[layer]![group]!.shape;
  const columns = INPUT_GROUPS[group]!.reduce((sum, target) => {
    return sum + (pairs[layer]![target]?.b.shape[0] ?? 0);
  }, 0);
  return takesA(model.recorder.gpu, { rows, columns, depth, rank });
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
