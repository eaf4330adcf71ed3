/** Products of the same rows with two weights in one dispatch, on software adapters: a dispatch has a price of its own there. */

import type { Gpu } from "../device.ts";
import type { Activation } from "../gated_activation/gated_activation.ts";
import type { Recorder } from "../recorder.ts";
import { expectMultiple, expectShape, ShapeError } from "../shape.ts";
import type { Tensor } from "../tensor.ts";
import { deviceForm } from "../variant.ts";
import { expectWeight, type Weight, weightOperands, type WeightPart } from "../weights/weight.ts";
import { WEIGHT_TYPES } from "../weights/table.ts";
import { expectLanes, expectLora, expectNorm, grid, type LoraTerm, type RowNorm } from "./matmul.ts";
import { hasRest, matmulKernel, ofSecond, readsHalves } from "./matmul_kernel.ts";
import { chooseLayout, type MatmulLayout } from "./matmul_layout.ts";
import { readsPairs } from "./matmul_text.ts";

/**
 * The operands x, u, and the matrices of both terms. With two planes of both weights all that is read through textures are 8,
 * as many as a software adapter must have.
 */
const X_AND_TERMS = 4;

/** Two weights `[columns, depth]`, each with its low-rank term. */
export interface TwinWeights {
  weights: readonly [Weight, Weight];
  /** The second one's columns of u are those after the first one's. */
  terms?: readonly [LoraTerm, LoraTerm] | undefined;
}

/** The tensors of {@link matmulTwin}. */
export interface TwinOperands extends TwinWeights {
  /** `[N, depth] f32` */
  x: Tensor;
  /** Only where `takesNorm`. */
  norm?: RowNorm | undefined;
  /** `[N, columns] f32`: a y for each weight; or h = activation(y_0) · y_1. */
  out: readonly [Tensor, Tensor] | { h: Tensor; activation: Activation };
}

export interface TwinOptions {
  compute: "f32" | "f16";
  /** Overrides the layout that the device would get, for tests. */
  layout?: MatmulLayout;
}

/**
 * Whether a device takes the product with two weights in one dispatch: a software adapter, for weights of one type and
 * shape in a part each, and with a term for both or for none, whose columns of u are adjacent.
 *
 * @param outputs How many tensors it writes, because a device binds only so many.
 */
export function fitsTwin(
  gpu: Pick<Gpu, "facts">,
  { weights, terms, outputs }: {
    weights: TwinWeights["weights"];
    terms: readonly (LoraTerm | null)[];
    outputs: 1 | 2;
  },
): boolean {
  const planes = WEIGHT_TYPES[weights[0].type].planes.length;
  const bound = 2 * planes + X_AND_TERMS + outputs;
  const can_bind = bound <= gpu.facts.limits.maxStorageBuffersPerShaderStage!;
  return deviceForm(gpu) === "lanes" && can_bind && areTwins(weights, terms);
}

function areTwins([first, second]: TwinWeights["weights"], [a, b]: readonly (LoraTerm | null)[]): boolean {
  if (first.type !== second.type || "parts" in first || "parts" in second) return false;
  if (first.shape[0] !== second.shape[0] || first.shape[1] !== second.shape[1]) return false;
  if (!a || !b) return !a && !b;
  const { buffer, offset_bytes } = a.u, rank = a.matrix.shape[1]!;
  return buffer === b.u.buffer && offset_bytes === b.u.offset_bytes && a.scale === b.scale &&
    a.u_is_a === b.u_is_a &&
    b.column === a.column + rank && b.matrix.shape[1] === rank;
}

/**
 * Records `y_i = x · W_iᵀ`, plus the low-rank terms, for both weights; or the gated product of the two. The bits are those of
 * `matmul` and `gatedActivation`. Only for what {@link fitsTwin}.
 *
 * @throws {ShapeError} When shapes do not belong together, or the depth or the columns are no multiple of 4.
 */
export function matmulTwin(
  recorder: Recorder,
  { x, norm, weights, terms, out }: TwinOperands,
  { compute, layout: given }: TwinOptions,
): void {
  const { gpu } = recorder, [first, second] = weights as readonly [WeightPart, WeightPart];
  if (!areTwins(weights, terms ?? [])) {
    throw new ShapeError(
      "Cannot use two weights together: expected one type and shape, each in one part, and adjacent low-rank terms",
    );
  }
  const [rows, depth] = expectShape(x, "x", 2), [columns] = expectWeight(first, "first weight");
  expectWeight(second, "second weight");
  expectShape(first, "first weight", [columns, depth]);
  expectMultiple(depth, 4, "depth");
  expectMultiple(columns, 4, "columns");
  const outputs = "h" in out ? { y: out.h } : { y: out[0], [ofSecond("y")]: out[1] };
  for (const [name, tensor] of Object.entries(outputs)) expectShape(tensor, name, [rows, columns]);
  const size = { rows, columns, depth };
  const ranks = (terms ?? []).map((term) => expectLora(term, { orientation: "nt", ...size }));
  const kind = { weight: first.type, orientation: "nt", compute } as const;
  const layout = given ?? chooseLayout(gpu, size, { reads_pairs: readsPairs(kind) });
  expectLanes(layout, "nt");
  if (norm) expectNorm(norm, { layout, orientation: "nt", depth });
  const [rank = 0] = ranks, term = terms?.[0], nothing = { addend: 0, continued: 0 };
  recorder.dispatch(
    matmulKernel(kind, layout, {
      is_scaled: false,
      a_rank: term?.u_is_a ? rank : 0,
      ...{ has_lora: rank > 0, addend: 0, continued: false, twin: "h" in out ? out.activation : "both" },
      reads_halves: readsHalves(gpu, layout, first),
      ...{ has_rest: hasRest(layout, depth), norm_eps: norm?.eps ?? null },
    }),
    {
      ...{ ...size, rank, x_stride: depth, x_column: 0, y_stride: columns, y_column: 0, ...nothing },
      ...{ u_stride: term?.u.shape[1] ?? 0, u_column: term?.column ?? 0, lora_scale: term?.scale ?? 0 },
      ...{ chunk_tiles: 0, walked: 1 },
    },
    {
      ...weightOperands(first),
      ...Object.fromEntries(
        Object.entries(weightOperands(second)).map(([name, tensor]) => [ofSecond(name), tensor]),
      ),
      ...{ x, u: term?.u ?? recorder.empty, ...(norm && { gamma: norm.gamma }) },
      ...{ lora: term?.matrix ?? recorder.empty, [ofSecond("lora")]: terms?.[1].matrix ?? recorder.empty },
      ...outputs,
    },
    grid(layout, rows, columns),
  );
}
