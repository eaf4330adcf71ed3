/** Matrix products of activations with a frozen weight, in both orientations, with a low-rank term folded in. */

import type { Gpu } from "../device.ts";
import { defineKernel, type Kernel } from "../kernel.ts";
import type { Recorder } from "../recorder.ts";
import { ceilDiv, expectMultiple, expectShape } from "../shape.ts";
import { type Tensor, view } from "../tensor.ts";
import { deviceOptions } from "../variant.ts";
import { expectWeight, type Weight, weightOperands, weightParts } from "../weights/weight.ts";
import { WEIGHT_TYPES } from "../weights/table.ts";
import { chooseMatrices, type MatricesLayout, matricesParts } from "./matmul_matrices.ts";
import {
  groupColumns,
  type LanesLayout,
  type MatmulKind,
  matmulParts,
  type TilesLayout,
} from "./matmul_text.ts";

/**
 * The low-rank term: `scale · u[:, column … column + R] · mᵀ` (nt, m `[columns, R]`) or `· m` (nn, m `[R, columns]`).
 * u `[N, stride] f32` may hold x·Aᵀ of several matrices side by side; R, stride and column are
 * multiples of 4.
 */
export interface LoraTerm {
  u: Tensor;
  column: number;
  matrix: Tensor;
  scale: number;
}

export interface MatmulOperands {
  /** `[N, depth] f32` */
  x: Tensor;
  /** `[columns, depth]` in `nt`, `[depth, columns]` in `nn`. */
  weight: Weight;
  /** `[N, columns] f32` */
  y: Tensor;
  lora?: LoraTerm | undefined;
  /** `[N, columns] f32`, added to the product; another buffer than y. */
  residual?: Tensor | undefined;
}

export interface MatmulOptions {
  /** f16: operands are rounded to f16 before they are multiplied; sums are f32. */
  compute: "f32" | "f16";
  /** Adds to what y holds. */
  accumulate?: boolean;
  /** Overrides the layout that the device would get, for tests and benches. */
  layout?: MatmulLayout;
}

export type MatmulLayout = LanesLayout | TilesLayout | MatricesLayout;

const kernels = new Map<string, Kernel>();

/** The kernel of a kind and a layout; made once. */
export function matmulKernel(kind: MatmulKind, layout: MatmulLayout): Kernel {
  const key = JSON.stringify([kind, layout]);
  let kernel = kernels.get(key);
  if (!kernel) {
    const planes = WEIGHT_TYPES[kind.weight].planes.map(({ name }) => name);
    kernel = defineKernel({
      name: `matmul_${kind.orientation}_${kind.weight}_${kind.compute}_${layout.form}`,
      wgsl: layout.form === "matrices" ? matricesParts(kind, layout) : matmulParts(kind, layout),
      params: {
        rows: "u32",
        columns: "u32",
        depth: "u32",
        rank: "u32",
        u_stride: "u32",
        u_column: "u32",
        lora_scale: "f32",
        addend: "u32",
        x_stride: "u32",
        x_column: "u32",
        y_stride: "u32",
        y_column: "u32",
        continued: "u32",
      },
      inputs: [...planes, "x", "u", "lora", "residual"],
      outputs: ["y"],
    }) as Kernel;
    kernels.set(key, kernel);
  }
  return kernel;
}

/**
 * The layout of scalar sums for a device and a number of rows. All layouts of a device sum in one order, so the number of rows
 * changes no bit of a row's result.
 */
export function chooseLayout(gpu: Gpu, rows: number): LanesLayout | TilesLayout {
  const { form, lanes } = deviceOptions(gpu);
  if (form === "lanes") {
    if (lanes === 1) return { form, lanes, tile_rows: rows > 4 ? 8 : 1, tile_vectors: 4 };
    return { form, lanes, tile_rows: rows > 2 * lanes ? 4 : 1, tile_vectors: 4 };
  }
  if (rows > 256) {
    return { form, block_rows: 128, block_columns: 128, thread_rows: 8, thread_columns: 8 };
  }
  if (rows > 32) {
    return { form, block_rows: 64, block_columns: 64, thread_rows: 4, thread_columns: 8 };
  }
  return { form, block_rows: 16, block_columns: 64, thread_rows: 4, thread_columns: 4 };
}

/**
 * Records `y = x · Wᵀ` (`nt`) or `y = x · W` (`nn`), plus the low-rank term, plus the residual.
 * Every output sums along the depth in order, in f32. A split weight takes a dispatch for each of its parts and gives
 * the same bits as one that is not split. With `accumulate` in `nn` the last bits may differ: the first part is
 * added to y before the others.
 *
 * @throws {ShapeError} When shapes do not belong together, or the depth or the columns are no multiple of 4.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 * import { openGpu } from "../device.ts";
 * import { Recorder } from "../recorder.ts";
 * import { Allocator } from "../tensor.ts";
 * import { createWeight, writeWeight } from "../weights/weight.ts";
 *
 * const gpu = await openGpu({ device: "auto", webgpu: "auto" }).catch((error) => {
 *   console.log(`skipped: ${error.message}`);
 * });
 * if (gpu) {
 *   const allocator = new Allocator(gpu.device), recorder = new Recorder(gpu);
 *   const x = allocator.create("example", [1, 4]), y = allocator.create("example", [1, 4]);
 *   const weight = createWeight(allocator, "example", { type: "f32", shape: [4, 4] });
 *   // Twice the identity.
 *   const values = Float32Array.from({ length: 16 }, (_, i) => i % 5 === 0 ? 2 : 0);
 *   writeWeight(allocator, weight, new Uint8Array(values.buffer));
 *   allocator.write(x, Float32Array.of(1, 2, 3, 4));
 *   matmul(recorder, "nt", { x, weight, y }, { compute: "f32" });
 *   const [bytes] = await recorder.submitAndRead([y]);
 *   assert.deepEqual([...new Float32Array(bytes!)], [2, 4, 6, 8]);
 *   gpu.device.destroy();
 * }
 * ```
 */
export function matmul(
  recorder: Recorder,
  orientation: "nt" | "nn",
  operands: MatmulOperands,
  options: MatmulOptions,
): void {
  const { x, weight, y, lora, residual } = operands;
  const [rows, depth] = expectShape(x, "x", 2);
  const [weightRows, weightColumns] = expectWeight(weight, "weight");
  const columns = orientation === "nt" ? weightRows : weightColumns;
  expectShape(weight, "weight", orientation === "nt" ? [columns, depth] : [depth, columns]);
  expectShape(y, "y", [rows, columns]);
  expectMultiple(depth, 4, "depth");
  expectMultiple(columns, 4, "columns");
  if (residual) expectShape(residual, "residual", [rows, columns]);
  const rank = lora ? expectLora(lora, { orientation, rows, columns }) : 0;
  const layout = options.layout ?? chooseMatrices(recorder.gpu, options.compute, rows) ??
    chooseLayout(recorder.gpu, rows);
  const kernel = matmulKernel({ weight: weight.type, orientation, compute: options.compute }, layout);
  const addend = residual ? Addend.RESIDUAL : options.accumulate ? Addend.Y : Addend.NONE;
  const parts = weightParts(weight);
  for (const [i, { first_row, part }] of parts.entries()) {
    const is_first = i === 0, is_last = i === parts.length - 1, part_rows = part.shape[0];
    // In nt a part has columns of y to itself. In nn it has a stretch of the depth, and sums go on from part to part.
    const own = orientation === "nt"
      ? { columns: part_rows, depth, rank, x_column: 0, y_column: first_row, continued: 0, addend }
      : {
        ...{ columns, depth: part_rows, rank: is_last ? rank : 0, x_column: first_row, y_column: 0 },
        continued: is_first ? 0 : 1,
        addend: (addend === Addend.RESIDUAL ? is_last : is_first) ? addend : Addend.NONE,
      };
    const matrix = !lora || parts.length === 1 || orientation === "nn"
      ? lora?.matrix
      : view(lora.matrix, [part_rows, rank], first_row * rank);
    recorder.dispatch(
      kernel,
      {
        ...{ rows, ...own, x_stride: depth, y_stride: columns },
        ...{ u_stride: lora?.u.shape[1] ?? 0, u_column: lora?.column ?? 0, lora_scale: lora?.scale ?? 0 },
      },
      {
        ...weightOperands(part),
        x,
        u: lora?.u ?? recorder.empty,
        lora: matrix ?? recorder.empty,
        residual: residual ?? recorder.empty,
        y,
      },
      grid(layout, rows, own.columns),
    );
  }
}

/** The array that is added to a product when it is stored. */
const Addend = { NONE: 0, RESIDUAL: 1, Y: 2 } as const;

function expectLora(
  lora: LoraTerm,
  { orientation, rows, columns }: { orientation: "nt" | "nn"; rows: number; columns: number },
): number {
  const [uRows, stride] = expectShape(lora.u, "u", 2);
  const rank = lora.matrix.shape[orientation === "nt" ? 1 : 0]!;
  expectShape(lora.matrix, "lora", orientation === "nt" ? [columns, rank] : [rank, columns]);
  expectShape(lora.u, "u", [Math.max(rows, uRows), stride]);
  for (const [name, value] of Object.entries({ rank, stride, column: lora.column })) {
    expectMultiple(value, 4, name);
  }
  return rank;
}

function grid(layout: MatmulLayout, rows: number, columns: number): [number, number] {
  return layout.form === "lanes"
    ? [ceilDiv(rows, layout.lanes * layout.tile_rows), ceilDiv(columns, groupColumns(layout))]
    : [ceilDiv(rows, layout.block_rows), ceilDiv(columns, layout.block_columns)];
}
