/** Root mean square normalisation by row, forward and backward. Formulas stand in the shaders. */

import { defineKernel, type Operands } from "../kernel.ts";
import type { Recorder } from "../recorder.ts";
import { ceilDiv, expectShape } from "../shape.ts";
import type { Tensor } from "../tensor.ts";
import {
  constantsPart,
  itemPart,
  type ItemSize,
  itemSize,
  kernelFamily,
  rowThreads,
  type RowVariant,
  rowVariant,
  wrappedGrid,
} from "../variant.ts";
import backwardWgsl from "./rms_norm_backward.wgsl" with { type: "text" };
import backwardWorkgroupWgsl from "./rms_norm_backward_workgroup.wgsl" with { type: "text" };
import forwardWgsl from "./rms_norm_forward.wgsl" with { type: "text" };
import forwardWorkgroupWgsl from "./rms_norm_forward_workgroup.wgsl" with { type: "text" };

/** Threads of a workgroup in which each thread owns a row. */
const ROWS_PER_GROUP = 32;

const forwardKernel = kernelFamily((variant: RowVariant, size: ItemSize, threads: number) =>
  defineKernel({
    name: `rms_norm_forward_${variant}`,
    wgsl: [constantsPart({ threads }), itemPart(size), {
      file: variant === "thread" ? "rms_norm_forward.wgsl" : "rms_norm_forward_workgroup.wgsl",
      text: variant === "thread" ? forwardWgsl : forwardWorkgroupWgsl,
    }],
    params: { rows: "u32", items: "u32", width: "u32", eps: "f32", addend: "u32" },
    inputs: ["x", "gamma", "residual"],
    outputs: ["y", "rstd"],
  })
);

const backwardKernel = kernelFamily((variant: RowVariant, size: ItemSize, threads: number) =>
  defineKernel({
    name: `rms_norm_backward_${variant}`,
    wgsl: [constantsPart({ threads }), itemPart(size), {
      file: variant === "thread" ? "rms_norm_backward.wgsl" : "rms_norm_backward_workgroup.wgsl",
      text: variant === "thread" ? backwardWgsl : backwardWorkgroupWgsl,
    }],
    params: { rows: "u32", items: "u32", width: "u32", accumulate: "u32" },
    inputs: ["x", "gamma", "rstd", "d_y"],
    outputs: ["d_x"],
  })
);

function layout(rows: number, width: number, variant: RowVariant) {
  const size = itemSize(width), items = width / size;
  return variant === "thread"
    ? { size, items, threads: ROWS_PER_GROUP, grid: [ceilDiv(rows, ROWS_PER_GROUP)] as const }
    : { size, items, threads: rowThreads(items), grid: wrappedGrid(rows) };
}

/**
 * Records `y = x · rstd · gamma`, plus the residual where there is one, with `rstd = 1 / sqrt(mean(x²) + eps)` for every row; per head, a row is a head.
 *
 * @param tensors x, y `[N, C] f32`; gamma `[C] f32`; rstd `[N] f32`, which the backward pass needs; residual
 * `[N, C] f32`, another buffer than y.
 * @param eps Added to the mean square, above 0.
 * @throws {ShapeError} When the shapes do not belong together; it names the tensor and both shapes.
 * @source Zhang, Sennrich, "Root Mean Square Layer Normalization" (2019), equation 4.
 */
export function rmsNorm(
  recorder: Recorder,
  tensors: Omit<Operands<ReturnType<typeof forwardKernel>>, "residual"> & { residual?: Tensor | undefined },
  eps: number,
  variant: RowVariant = rowVariant(recorder),
): void {
  const [rows, width] = expectShape(tensors.x, "x", 2);
  expectShape(tensors.y, "y", [rows, width]);
  expectShape(tensors.gamma, "gamma", [width]);
  expectShape(tensors.rstd, "rstd", [rows]);
  const { residual } = tensors;
  if (residual) expectShape(residual, "residual", [rows, width]);
  const { size, items, threads, grid } = layout(rows, width, variant);
  const params = { rows, items, width, eps, addend: residual ? 1 : 0 };
  const operands = { ...tensors, residual: residual ?? recorder.empty };
  recorder.dispatch(forwardKernel(variant, size, threads), params, operands, grid);
}

/**
 * Records the gradient of {@link rmsNorm} with respect to its input; `d_x` is overwritten, or added to for a
 * residual stream.
 *
 * @param tensors x, d_y, d_x `[N, C] f32`; gamma `[C] f32`; rstd `[N] f32` of the forward pass.
 * @throws {ShapeError} When the shapes do not belong together.
 */
export function rmsNormBackward(
  recorder: Recorder,
  tensors: Operands<ReturnType<typeof backwardKernel>>,
  { accumulate }: { accumulate: boolean },
  variant: RowVariant = rowVariant(recorder),
): void {
  const [rows, width] = expectShape(tensors.x, "x", 2);
  for (const name of ["d_y", "d_x"] as const) expectShape(tensors[name], name, [rows, width]);
  expectShape(tensors.gamma, "gamma", [width]);
  expectShape(tensors.rstd, "rstd", [rows]);
  const { size, items, threads, grid } = layout(rows, width, variant);
  const params = { rows, items, width, accumulate: accumulate ? 1 : 0 };
  recorder.dispatch(backwardKernel(variant, size, threads), params, tensors, grid);
}
