/** Root mean square normalisation by row, forward and backward. The formulas are in the shaders. */

import { defineKernel, type Operands, type WgslPart } from "../kernel.ts";
import type { Recorder } from "../recorder.ts";
import { ceilDiv, expectShape } from "../shape.ts";
import type { Tensor } from "../tensor.ts";
import {
  constantsPart,
  deviceForm,
  itemPart,
  type ItemSize,
  itemSize,
  kernelFamily,
  type KernelForm,
  wrappedGrid,
} from "../variant.ts";
import groupSumWgsl from "../shared/group_sum.wgsl" with { type: "text" };
import backwardLanesWgsl from "./rms_norm_backward_lanes.wgsl" with { type: "text" };
import backwardTilesWgsl from "./rms_norm_backward_tiles.wgsl" with { type: "text" };
import forwardLanesWgsl from "./rms_norm_forward_lanes.wgsl" with { type: "text" };
import forwardTilesWgsl from "./rms_norm_forward_tiles.wgsl" with { type: "text" };

/** The WGSL that defines `group_sum`. */
export function groupSumPart(): WgslPart {
  return { file: "shared/group_sum.wgsl", text: groupSumWgsl };
}

/**
 * Threads of a GPU's workgroup that normalises a row of so many items: the order of the sum follows from it. Most rows are
 * one item a thread.
 */
export function normThreads(items: number): number {
  return items <= 32 ? 32 : items <= 64 ? 64 : 256;
}

/** Threads of a workgroup in which each thread owns a row. */
const ROWS_PER_GROUP = 32;

const forwardKernel = kernelFamily((form: KernelForm, size: ItemSize, threads: number) =>
  defineKernel({
    name: `rms_norm_forward_${form}`,
    wgsl: [constantsPart({ threads }), itemPart(size), ...form === "tiles" ? [groupSumPart()] : [], {
      file: form === "lanes" ? "rms_norm_forward_lanes.wgsl" : "rms_norm_forward_tiles.wgsl",
      text: form === "lanes" ? forwardLanesWgsl : forwardTilesWgsl,
    }],
    params: { rows: "u32", items: "u32", width: "u32", eps: "f32", addend: "u32" },
    inputs: ["x", "gamma", "residual"],
    outputs: ["y", "rstd"],
    ...(form === "lanes" && { textures: { x: 2, gamma: "kept", residual: 1 } }),
  })
);

/** @param accumulates Part of the text for a software adapter, which would read d_x in a branch that is not taken. */
const backwardKernel = kernelFamily((form: KernelForm, size: ItemSize, threads: number, accumulates: 0 | 1) =>
  defineKernel({
    name: `rms_norm_backward_${form}`,
    wgsl: [
      constantsPart({ threads, ...(form === "lanes" && { ACCUMULATES: accumulates === 1 }) }),
      itemPart(size),
      {
        file: form === "lanes" ? "rms_norm_backward_lanes.wgsl" : "rms_norm_backward_tiles.wgsl",
        text: form === "lanes" ? backwardLanesWgsl : backwardTilesWgsl,
      },
    ],
    params: { rows: "u32", items: "u32", width: "u32", accumulate: "u32" },
    inputs: ["x", "gamma", "rstd", "d_y"],
    outputs: ["d_x"],
    ...(form === "lanes" && {
      textures: { x: 2, gamma: "kept", d_y: 2, ...(accumulates && { d_x: 1 }) },
    }),
  })
);

function layout(rows: number, width: number, form: KernelForm) {
  const size = itemSize(width), items = width / size;
  return form === "lanes"
    ? { size, items, threads: ROWS_PER_GROUP, grid: [ceilDiv(rows, ROWS_PER_GROUP)] as const }
    : { size, items, threads: normThreads(items), grid: wrappedGrid(rows) };
}

/**
 * Records `y = x · rstd · gamma`, plus the residual if any, with `rstd = 1 / sqrt(mean(x²) + eps)` for every row. For a
 * norm of heads, a row is a head.
 *
 * @param tensors x, y `[N, C] f32`; gamma `[C] f32`; rstd `[N] f32`, which the backward pass needs; residual `[N, C]
 * f32`, another buffer than y.
 * @param eps Added to the mean square, above 0.
 * @throws {ShapeError} When the shapes do not match; it names the tensor and both shapes.
 * @source Zhang, Sennrich, "Root Mean Square Layer Normalization" (2019), equation 4.
 */
export function rmsNorm(
  recorder: Recorder,
  tensors: Omit<Operands<ReturnType<typeof forwardKernel>>, "residual"> & { residual?: Tensor | undefined },
  eps: number,
  form: KernelForm = deviceForm(recorder.gpu),
): void {
  const [rows, width] = expectShape(tensors.x, "x", 2);
  expectShape(tensors.y, "y", [rows, width]);
  expectShape(tensors.gamma, "gamma", [width]);
  expectShape(tensors.rstd, "rstd", [rows]);
  const { residual } = tensors;
  if (residual) expectShape(residual, "residual", [rows, width]);
  const { size, items, threads, grid } = layout(rows, width, form);
  const params = { rows, items, width, eps, addend: residual ? 1 : 0 };
  const operands = { ...tensors, residual: residual ?? recorder.empty };
  recorder.dispatch(forwardKernel(form, size, threads), params, operands, grid);
}

/**
 * Records the gradient of {@link rmsNorm} with respect to its input. `d_x` is overwritten, or added to where a
 * residual connection adds gradients.
 *
 * @param tensors x, d_y, d_x `[N, C] f32`; gamma `[C] f32`; rstd `[N] f32` from the forward pass.
 * @throws {ShapeError} When the shapes do not match.
 */
export function rmsNormBackward(
  recorder: Recorder,
  tensors: Operands<ReturnType<typeof backwardKernel>>,
  { accumulate }: { accumulate: boolean },
  form: KernelForm = deviceForm(recorder.gpu),
): void {
  const [rows, width] = expectShape(tensors.x, "x", 2);
  for (const name of ["d_y", "d_x"] as const) expectShape(tensors[name], name, [rows, width]);
  expectShape(tensors.gamma, "gamma", [width]);
  expectShape(tensors.rstd, "rstd", [rows]);
  const { size, items, threads, grid } = layout(rows, width, form);
  const accumulates = accumulate ? 1 : 0,
    kernel = backwardKernel(form, size, threads, form === "lanes" ? accumulates : 0);
  recorder.dispatch(kernel, { rows, items, width, accumulate: accumulates }, tensors, grid);
}
