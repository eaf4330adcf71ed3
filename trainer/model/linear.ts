/** A layer's products with their low-rank terms, one or two in a dispatch. What they are for is in `transformer.ts`. */

import type { LoraTarget } from "../../core/lora_targets.ts";
import { addBias } from "../../kernels/bias/bias.ts";
import {
  type LoraTerm,
  matmul,
  type MatmulOperands,
  takesA,
  takesNorm,
} from "../../kernels/matmul/matmul.ts";
import { fitsTwin, matmulTwin, type TwinOperands } from "../../kernels/matmul/matmul_twin.ts";
import type { Tensor } from "../../kernels/tensor.ts";
import type { Weight } from "../../kernels/weights/weight.ts";
import { firstRows } from "./activations.ts";
import { INPUT_GROUPS } from "./device_adapter.ts";
import type { ProductPass } from "./fused_layer.ts";

/** Records u = x · Aᵀ for all targets of an input group, unless their products compute it. */
export function applyLoraA(pass: ProductPass, layer: number, group: number, x: Tensor): void {
  const place = pass.adapter?.layout.lora_a[layer]?.[group];
  if (!place || multipliesA(pass, layer, group)) return;
  const u = loraAOutput(pass, layer, group)!;
  const weight: Weight = { type: "f32", values: pass.adapter!.params.view(place), shape: place.shape };
  matmul(pass.model.recorder, "nt", { x, weight, y: u }, { compute: pass.model.compute });
}

/** The buffer of x · Aᵀ of an input group, `[N, targets · padded rank]`; null for a group without targets. */
export function loraAOutput(
  pass: Pick<ProductPass, "adapter" | "activations" | "rows">,
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
export function linear(
  pass: ProductPass,
  layer: number,
  target: LoraTarget,
  { has_bias = true, ...operands }: Omit<MatmulOperands, "weight" | "lora"> & { has_bias?: boolean },
): void {
  const { recorder, compute } = pass.model;
  const { linears, biases } = pass.model.weights.layers[layer]!,
    weight = linears[target],
    bias = biases[target];
  const lora = loraTerm(pass, layer, target) ?? undefined;
  matmul(recorder, "nt", { ...operands, weight, lora }, { compute });
  if (bias && has_bias) addBias(recorder, { y: operands.y, bias });
}

/**
 * Records two projections of one input in one dispatch, with their low-rank terms and without biases; or their gated product.
 * False, and nothing, where it does not fit. A pass whose activations are kept for a backward pass takes it for none.
 */
export function twinLinear(
  pass: ProductPass,
  layer: number,
  [first, second]: readonly [LoraTarget, LoraTarget],
  operands: Omit<TwinOperands, "weights" | "terms">,
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
function loraTerm(pass: ProductPass, layer: number, target: LoraTarget): LoraTerm | null {
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
  { model, adapter, rows, activations }: ProductPass,
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

/**
 * Whether the products of an input group normalise their input themselves. A pass whose activations are kept for a backward pass
 * needs it normalised, and so does a product for x · Aᵀ.
 */
export function normalizesInput(pass: ProductPass, layer: number, group: number): boolean {
  const { model: { recorder, weights }, adapter, rows, activations } = pass, targets = INPUT_GROUPS[group]!;
  if (activations.options.kept !== "nothing") return false;
  if (adapter?.layout.lora_a[layer]?.[group] && !multipliesA(pass, layer, group)) return false;
  const { linears } = weights.layers[layer]!;
  return targets.every((target) => takesNorm(recorder.gpu, rows, linears[target]));
}
