/**
 * The products of a layer with few rows on a GPU: all projections of an input group in one dispatch, and what follows them
 * in another; on a software adapter what follows those of q, k and v. The bits are those of the operations one by one
 * (`transformer.ts`), which are used where this is not.
 */

import {
  fitsHeads,
  fitsTerms,
  fusedGate,
  fusedHeads,
  type FusedHeadsTensors,
  fusedRows,
  type FusedRowsTensors,
  type SegmentProduct,
} from "../../kernels/fused/fused.ts";
import { fusedHeadsLanes } from "../../kernels/fused/fused_heads_lanes.ts";
import type { Activation } from "../../kernels/gated_activation/gated_activation.ts";
import { fitsSegments, matmulSegments } from "../../kernels/matmul/matmul_segments.ts";
import type { Recorder } from "../../kernels/recorder.ts";
import type { Tensor } from "../../kernels/tensor.ts";
import { deviceForm } from "../../kernels/variant.ts";
import type { Weight } from "../../kernels/weights/weight.ts";
import type { Activations } from "./activations.ts";
import { type DeviceAdapter, INPUT_GROUPS } from "./device_adapter.ts";
import type { ModelWeights } from "./weights.ts";

/** What the products of a pass need of it. */
export interface ProductPass {
  model: { recorder: Recorder; weights: ModelWeights; compute: "f32" | "f16" };
  adapter: DeviceAdapter | null;
  rows: number;
  activations: Activations;
}

/** Where a pass writes its keys and values: what `kvPlaces` gave, and the pages of each layer. */
export interface PageWrites {
  places: Tensor;
  layer(index: number): { k_pages: Tensor; v_pages: Tensor };
  /** Records the writing of a layer's keys and values, `[N, K, D] f32`, which are not in its pages yet. */
  write(layer: number, tensors: { k: Tensor; v: Tensor }): void;
}

/**
 * Records the product of x with the weights of an input group, and with A of its targets; null, and nothing, where it does
 * not fit. A pass whose activations are kept for a backward pass takes it for none.
 */
function groupProduct(pass: ProductPass, layer: number, group: number, x: Tensor): SegmentProduct | null {
  const { model: { recorder, weights, compute }, adapter, rows } = pass;
  if (pass.activations.options.kept !== "nothing") return null;
  const targets = INPUT_GROUPS[group]!, place = adapter?.layout.lora_a[layer]?.[group];
  const terms = targets.map((target) => {
    const pair = adapter?.layout.pairs[layer]?.[target];
    return pair ? { column: pair.column, matrix: adapter!.params.view(pair.b) } : null;
  });
  const segments: Weight[] = targets.map((target) => weights.layers[layer]!.linears[target]);
  if (place) segments.push({ type: "f32", values: adapter!.params.view(place), shape: place.shape });
  if (!fitsTerms(terms) || !fitsSegments(recorder.gpu, segments, { rows })) return null;
  const product = matmulSegments(recorder, { x, weights: segments }, { compute });
  return { product, terms, scale: adapter?.scale ?? 0, compute };
}

/** What queries, keys and values of a layer are computed with besides their matrices, and where they go. */
export interface HeadTensors {
  /** `[N, H, D] f32` */
  q: Tensor;
  /** Undefined for a pass that has no pages. */
  pages: PageWrites | undefined;
  rotation: FusedHeadsTensors["rotation"];
  norm_eps: number;
}

/** The tensors of the fused kernels; null where they do not fit. */
function headsOf(pass: ProductPass, layer: number, given: HeadTensors): FusedHeadsTensors | null {
  const { biases, q_norm, k_norm } = pass.model.weights.layers[layer]!, { q, pages, rotation } = given;
  const heads = [
    { bias: biases.q_proj ?? null, gamma: q_norm },
    { bias: biases.k_proj ?? null, gamma: k_norm },
    { bias: biases.v_proj ?? null, gamma: null },
  ] as const;
  if (!pages || !fitsHeads(q.shape[2]!, { heads, rotation })) return null;
  return { heads, rotation, places: pages.places, q, ...pages.layer(layer) };
}

/**
 * Records queries, and keys and values in their pages, from the normalised input x; false, and nothing, where it does not
 * fit.
 */
export function fusedProjections(
  pass: ProductPass,
  layer: number,
  { x, ...given }: HeadTensors & { x: Tensor },
): boolean {
  const tensors = headsOf(pass, layer, given), product = tensors && groupProduct(pass, layer, 0, x);
  if (!tensors || !product) return false;
  fusedHeads(pass.model.recorder, product, tensors, given.norm_eps);
  return true;
}

/** Whether {@link finishHeads} does what follows the projections. */
export function finishesHeads(pass: ProductPass, layer: number, given: HeadTensors): boolean {
  return deviceForm(pass.model.recorder.gpu) === "lanes" && headsOf(pass, layer, given) !== null;
}

/**
 * Records, on a software adapter, what follows the projections of q, k and v without their biases: q in place, if there are
 * queries, and keys and values into their pages. k and v are `[N, K, D] f32`.
 */
export function finishHeads(
  pass: ProductPass,
  layer: number,
  { k, v, ...given }: HeadTensors & { k: Tensor; v: Tensor },
  options: { has_queries: boolean },
): void {
  fusedHeadsLanes(pass.model.recorder, { ...headsOf(pass, layer, given)!, k, v }, given.norm_eps, options);
}

/** Records h = activation(gate_proj(x)) · up_proj(x); false, and nothing, where it does not fit. */
export function fusedFeedForward(
  pass: ProductPass,
  layer: number,
  { x, h, activation }: { x: Tensor; h: Tensor; activation: Activation },
): boolean {
  const { biases } = pass.model.weights.layers[layer]!;
  if (biases.gate_proj || biases.up_proj) return false;
  const product = groupProduct(pass, layer, 2, x);
  if (product) fusedGate(pass.model.recorder, product, h, activation);
  return product !== null;
}

/**
 * Records y = residual + W · x, and the norm of y if one is given, for a projection that is an input group of its own;
 * false, and nothing, where it does not fit.
 */
export function fusedOutput(
  pass: ProductPass,
  layer: number,
  target: "o_proj" | "down_proj",
  { x, ...tensors }: { x: Tensor } & Omit<FusedRowsTensors, "bias">,
): boolean {
  const product = groupProduct(pass, layer, target === "o_proj" ? 1 : 3, x);
  const bias = pass.model.weights.layers[layer]!.biases[target];
  if (product) fusedRows(pass.model.recorder, product, { ...tensors, bias });
  return product !== null;
}
