/**
 * The backward pass. It computes gradients of the adapter's matrices only, because the base weights are frozen.
 * Its products have f32 operands, because most gradients are below the smallest f16; but those with the base weights have
 * scaled rows in f16 where subgroups multiply matrices (`gradientOperands`).
 */

import { LORA_TARGETS, type LoraTarget } from "../../core/lora_targets.ts";
import { attentionBackward } from "../../kernels/attention/attention.ts";
import { gatedActivationBackward } from "../../kernels/gated_activation/gated_activation.ts";
import { loraGradient, loraGradientPartials } from "../../kernels/lora_gradient/lora_gradient.ts";
import { matmul } from "../../kernels/matmul/matmul.ts";
import { gradientOperands } from "../../kernels/matmul/row_scales.ts";
import { rmsNormBackward } from "../../kernels/rms_norm/rms_norm.ts";
import { type Allocator, type Tensor, view } from "../../kernels/tensor.ts";
import type { KernelForm } from "../../kernels/variant.ts";
import type { Weight } from "../../kernels/weights/weight.ts";
import { firstRows, viewLayer } from "./activations.ts";
import type { DeviceAdapter } from "./device_adapter.ts";
import { groupOf, loraAOutput } from "./linear.ts";
import { linearShape, type ModelShape } from "./model_shape.ts";
import { attentionRules, type ForwardPass, recomputeLayer, rotate } from "./transformer.ts";

/** A recorded forward pass over packed rows, with the buffers for its gradients. */
export interface BackwardPass extends ForwardPass {
  adapter: DeviceAdapter;
  /** `[N, 4] u32`, see packRows. */
  packed_rows: Tensor;
  gradients: Gradients;
}

/** The buffers of the backward pass for up to `rows` rows. All layers share them. The allocator frees them. */
export class Gradients {
  readonly tensors: Record<GradientName, Tensor>;
  /** Partial sums of the gradients of the LoRA matrices. */
  readonly partials: Tensor;

  constructor(
    allocator: Allocator,
    shape: ModelShape,
    readonly options: { rows: number; padded_rank: number; form: KernelForm },
  ) {
    const { rows, padded_rank } = options;
    const { width, heads, kv_heads, head_width, feed_forward } = shape;
    const query = heads * head_width, key = kv_heads * head_width;
    const widths: Record<GradientName, number> = {
      hidden_states: width,
      normed: width,
      h: feed_forward,
      gate: feed_forward,
      up: feed_forward,
      o: query,
      delta: heads,
      q: query,
      k: key,
      v: key,
      q_raw: query,
      k_raw: key,
      d_u: Math.max(4, padded_rank),
      row_scales: 1,
    };
    this.tensors = Object.fromEntries(
      Object.entries(widths).map(([name, size]) => [name, allocator.create("activations", [rows, size])]),
    ) as Record<GradientName, Tensor>;
    this.partials = allocator.create("activations", [Math.max(4, largestPartials(shape, options))]);
  }
}

function largestPartials(
  shape: ModelShape,
  { rows, padded_rank, form }: Gradients["options"],
): number {
  const widths = LORA_TARGETS.flatMap((target) => Object.values(linearShape(shape, target)));
  return Math.max(
    ...widths.map((columns) => loraGradientPartials({ rows, columns, rank: padded_rank }, form)),
  );
}

type GradientName =
  | "hidden_states"
  | "normed"
  | "h"
  | "gate"
  | "up"
  | "o"
  | "delta"
  | "q"
  | "k"
  | "v"
  | "q_raw"
  | "k_raw"
  | "d_u"
  | "row_scales";

/**
 * Records the backward pass and adds to the gradient of the adapter. Before it, `gradients.hidden_states` holds
 * ∂L/∂hidden_states after the last layer; the pass overwrites it.
 */
export function backward(pass: BackwardPass): void {
  const last = pass.model.shape.layers.length - 1, { kept } = pass.activations.options;
  for (let layer = last; layer >= 0; layer--) {
    // The last layer's activations are still there from the forward pass.
    if (kept === "hidden_states" && layer < last) recomputeLayer(pass, layer);
    feedForwardBackward(pass, layer);
    attentionBlockBackward(pass, layer);
    if (pass.submits_layers) pass.model.recorder.submitToGpu();
  }
}

function feedForwardBackward(pass: BackwardPass, layer: number): void {
  const { recorder, weights, shape } = pass.model;
  const a = viewLayer(pass.activations, layer, pass.rows), d = cut(pass);
  const w = weights.layers[layer]!, gate = { gate: a.gate, up: a.up, d_h: d.h, d_gate: d.gate, d_up: d.up };
  const d_y = outputBackward(pass, { out: a.ffn_out, gamma: w.ffn_out_norm, rstd: a.ffn_out_rstd });
  linearBackward(pass, layer, "down_proj", { x: a.h, d_y, d_x: d.h });
  gatedActivationBackward(recorder, gate, shape.layers[layer]!.activation);
  linearBackward(pass, layer, "gate_proj", { x: a.ffn_in, d_y: d.gate, d_x: d.normed });
  linearBackward(pass, layer, "up_proj", { x: a.ffn_in, d_y: d.up, d_x: d.normed, accumulate: true });
  const x = firstRows(a.middle, pass.rows, shape.width);
  rmsNormBackward(recorder, { x, gamma: w.ffn_norm, rstd: a.ffn_rstd, d_y: d.normed, d_x: d.hidden_states }, {
    accumulate: true,
  });
}

/** The gradient of a block's output: that of the hidden states, or after the backward pass of its norm if it has one. */
function outputBackward(
  pass: BackwardPass,
  { out, gamma, rstd }: { out: Tensor | null; gamma: Tensor | null; rstd: Tensor | null },
): Tensor {
  const { hidden_states, normed } = cut(pass);
  if (!gamma) return hidden_states;
  // The buffer `normed` is unused until the backward pass reaches the block's input projections.
  const tensors = { x: out!, gamma, rstd: rstd!, d_y: hidden_states, d_x: normed };
  rmsNormBackward(pass.model.recorder, tensors, { accumulate: false });
  return normed;
}

function attentionBlockBackward(pass: BackwardPass, layer: number): void {
  const { model: { recorder, weights, shape }, rows } = pass;
  const { heads, kv_heads, head_width, width } = shape;
  const a = viewLayer(pass.activations, layer, rows), d = cut(pass), w = weights.layers[layer]!;
  const d_y = outputBackward(pass, { out: a.attn_out, gamma: w.attn_out_norm, rstd: a.attn_out_rstd });
  linearBackward(pass, layer, "o_proj", { x: a.o, d_y, d_x: d.o });
  const q = (tensor: Tensor) => firstRows(tensor, rows, heads, head_width);
  const kv = (tensor: Tensor) => firstRows(tensor, rows, kv_heads, head_width);
  attentionBackward(recorder, {
    ...{ q: q(a.q), k: kv(a.k), v: kv(a.v), o: q(a.o), lse: a.lse, rows: pass.packed_rows },
    ...{ d_o: q(d.o), delta: d.delta, d_q: q(d.q), d_k: kv(d.k), d_v: kv(d.v) },
  }, attentionRules(shape, layer));
  for (
    const [d_rotated, d_raw, raw, gamma, rstd, count] of [
      [d.q, d.q_raw, a.q_raw, w.q_norm, a.q_rstd, heads],
      [d.k, d.k_raw, a.k_raw, w.k_norm, a.k_rstd, kv_heads],
    ] as const
  ) {
    rotate(pass, layer, { x: firstRows(d_rotated, rows, count, head_width), inverse: true });
    if (!gamma) continue;
    const by_head = (tensor: Tensor) => firstRows(tensor, rows * count, head_width);
    const tensors = { x: by_head(raw), gamma, rstd: rstd!, d_y: by_head(d_rotated), d_x: by_head(d_raw) };
    rmsNormBackward(recorder, tensors, { accumulate: false });
  }
  // Before the first layer is only the embedding, which is frozen and needs no gradient.
  const d_x = layer === 0 ? null : d.normed;
  const d_q = w.q_norm ? d.q_raw : d.q, d_k = w.k_norm ? d.k_raw : d.k;
  linearBackward(pass, layer, "q_proj", { x: a.attn_in, d_y: d_q, d_x });
  linearBackward(pass, layer, "k_proj", { x: a.attn_in, d_y: d_k, d_x, accumulate: true });
  linearBackward(pass, layer, "v_proj", { x: a.attn_in, d_y: d.v, d_x, accumulate: true });
  if (d_x === null) return;
  const x = firstRows(pass.activations.before(layer), rows, width);
  const tensors = { x, gamma: w.attn_norm, rstd: a.attn_rstd, d_y: d_x, d_x: d.hidden_states };
  rmsNormBackward(recorder, tensors, { accumulate: true });
}

/**
 * The gradients of y = x · Wᵀ + s · u · Bᵀ, where s = alpha / rank and u = x · Aᵀ:
 * `d_u = d_y · B`, `d_x (+)= d_y · W + s · d_u · A`, `dA += s · d_uᵀ · x`, `dB += s · d_yᵀ · u`.
 */
function linearBackward(
  pass: BackwardPass,
  layer: number,
  target: LoraTarget,
  { x, d_y, d_x, accumulate = false }: { x: Tensor; d_y: Tensor; d_x: Tensor | null; accumulate?: boolean },
): void {
  const { model: { recorder, weights }, adapter, rows } = pass;
  const pair = adapter.layout.pairs[layer]![target];
  const rank = adapter.layout.padded_rank, { gradient } = adapter.training, alpha = adapter.scale;
  const d_u = firstRows(pass.gradients.tensors.d_u, rows, rank);
  if (pair) {
    const b: Weight = { type: "f32", values: adapter.params.view(pair.b), shape: pair.b.shape };
    matmul(recorder, "nn", { x: d_y, weight: b, y: d_u }, { compute: "f32" });
  }
  if (d_x) {
    const lora = pair && { u: d_u, column: 0, matrix: adapter.params.view(pair.a), scale: alpha };
    const weight = weights.layers[layer]!.linears[target];
    const scales = view(pass.gradients.tensors.row_scales, [rows]);
    const taken = gradientOperands(recorder, pass.model.compute, { x: d_y, lora, scales });
    const { row_scales, compute } = taken;
    matmul(recorder, "nn", { x: d_y, weight, y: d_x, lora, row_scales }, { compute, accumulate });
  }
  if (!pair) return;
  const u = loraAOutput(pass, layer, groupOf(target))!, { partials } = pass.gradients;
  const d_b = gradient.view(pair.b), d_a = gradient.view(pair.a);
  loraGradient(recorder, { p: d_y, q: u, out: d_b, partials }, {
    order: "column_rank",
    alpha,
    q_offset: pair.column,
  });
  loraGradient(recorder, { p: x, q: d_u, out: d_a, partials }, { order: "rank_column", alpha });
}

/** Views of the gradient buffers with the rows of the pass. */
function cut({ gradients, rows }: BackwardPass): Record<GradientName, Tensor> {
  return Object.fromEntries(
    Object.entries(gradients.tensors).map((
      [name, tensor],
    ) => [name, firstRows(tensor, rows, tensor.shape[1]!)]),
  ) as Record<GradientName, Tensor>;
}
