/** Powers of two with which the rows of a product's operands keep their numbers in f16. */

import { defineKernel } from "../kernel.ts";
import type { Recorder } from "../recorder.ts";
import { expectMultiple, expectShape } from "../shape.ts";
import type { Tensor } from "../tensor.ts";
import { constantsPart, wrappedGrid } from "../variant.ts";
import { takesMatrices } from "./matmul_layout.ts";
import rowScalesWgsl from "./row_scales.wgsl" with { type: "text" };

const THREADS = 64;

const rowScalesKernel = defineKernel({
  name: "row_scales",
  wgsl: [constantsPart({ threads: THREADS }), { file: "row_scales.wgsl", text: rowScalesWgsl }],
  params: { rows: "u32", vectors: "u32", u_vectors: "u32", lora_scale: "f32" },
  inputs: ["x", "u"],
  outputs: ["scales"],
});

/** The operands of {@link rowScales}. */
export interface RowScalesOperands {
  /** `[N, C] f32` */
  x: Tensor;
  /** The whole of a low-rank term's u, `[N, R] f32`, and its scale. */
  lora?: { u: Tensor; scale: number } | null | undefined;
  /** `[N] f32` */
  scales: Tensor;
}

/**
 * Records, for each row, the power of two that brings its largest number of x, and of u with its scale, between 2^14 and 2^15:
 * `row_scales` of `matmul`. Below the largest f16 are then 29 powers of two before numbers lose bits.
 *
 * @throws {ShapeError} When shapes do not belong together, or C or R is no multiple of 4.
 */
export function rowScales(recorder: Recorder, { x, lora, scales }: RowScalesOperands): void {
  const [rows, columns] = expectShape(x, "x", 2);
  expectShape(scales, "scales", [rows]);
  const rank = lora ? expectShape(lora.u, "u", 2)[1] : 0;
  if (lora) expectShape(lora.u, "u", [rows, rank]);
  expectMultiple(columns, 4, "columns");
  expectMultiple(rank, 4, "rank");
  recorder.dispatch(
    rowScalesKernel,
    { rows, vectors: columns / 4, u_vectors: rank / 4, lora_scale: lora?.scale ?? 0 },
    { x, u: lora?.u ?? recorder.empty, scales },
    wrappedGrid(rows),
  );
}

/**
 * How a product takes gradients, of which many are below the smallest f16: in f32; or on a device whose subgroups multiply
 * matrices, where products of the pass have operands in f16 (`compute`), in f16 with scales, which it records.
 *
 * @returns `row_scales` and `compute` of `matmul`.
 */
export function gradientOperands(
  recorder: Recorder,
  compute: "f32" | "f16",
  operands: RowScalesOperands,
): { row_scales: Tensor | undefined; compute: "f32" | "f16" } {
  if (!takesMatrices(recorder.gpu, compute)) return { row_scales: undefined, compute: "f32" };
  rowScales(recorder, operands);
  return { row_scales: operands.scales, compute: "f16" };
}
