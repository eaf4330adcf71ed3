/** Runs products for tests, beside their f64 reference. */

import assert from "node:assert/strict";
import type { Gpu } from "../device.ts";
import { filled, limitedAllocator, randomNormal, randomWeight, run, uploadWeight } from "../gpu_testing.ts";
import { PART_ROWS, weightParts } from "../weights/weight.ts";
import type { WeightTypeName } from "../weights/table.ts";
import { matmul } from "./matmul.ts";
import type { MatmulCase } from "./matmul_cases.ts";
import { type MatmulLayout, TILES } from "./matmul_layout.ts";
import { matmulReference } from "./matmul_reference.ts";

/** The tiles of GPUs, each with workgroups that walk all chunks. */
export const WALKING = Object.values(TILES).map((tile) => ({ ...tile, split: false }));
/** The tiles again, with workgroups of its own for each chunk. */
export const SPLIT = WALKING.map((tile) => ({ ...tile, split: true }));

/** Sums of 256 products of unit normals: 16 deep in the standard deviation, 6e-8 of it lost per addition. */
export const TOLERANCE = { relative: 1e-5, absolute: 4e-5 };

/** The same bits; the differences that assert prints of large arrays take it minutes to find. */
export const EXACT = { relative: 0, absolute: 0 };

export function inputs({ rows, depth, columns, rank }: MatmulCase) {
  const stride = rank + 8;
  return {
    x: randomNormal(1, rows * depth),
    lora: rank === 0 ? undefined : { rank, stride, column: 4, scale: 0.5 },
    u: randomNormal(4, Math.max(1, rows * stride)),
    matrix: randomNormal(5, Math.max(1, columns * rank)),
    residual: randomNormal(6, rows * columns),
  };
}

export interface Setting {
  type: WeightTypeName;
  orientation: "nt" | "nn";
  layout: MatmulLayout;
  compute?: "f32" | "f16";
  /** Adds to a y of ones. */
  accumulate?: boolean;
  /** How many parts the weight is split into. */
  parts?: number;
}

export async function runCase(gpu: Gpu, shape: MatmulCase, setting: Setting, given = inputs(shape)) {
  const { rows, depth, columns } = shape;
  const { orientation, type, layout, compute = "f32", parts = 1, accumulate = false } = setting;
  const weight_shape: [number, number] = orientation === "nt" ? [columns, depth] : [depth, columns];
  const w = randomWeight(2, type, columns * depth);
  const row_values = type === "f32" ? 4 * weight_shape[1] : weight_shape[1];
  const limited = limitedAllocator(gpu, PART_ROWS * row_values), { lora } = given;
  const matrix_shape = orientation === "nt" ? [columns, lora?.rank ?? 0] : [lora?.rank ?? 0, columns];
  const out = await run(gpu, {
    x: [given.x, [rows, depth]],
    u: [given.u, lora ? [rows, lora.stride] : [given.u.length]],
    matrix: [given.matrix, lora ? matrix_shape : [given.matrix.length]],
    residual: [given.residual, [rows, columns]],
    y: filled(accumulate ? 1 : NaN, rows, columns),
  }, (recorder, t, allocator) => {
    const owner = parts === 1 ? allocator : limited;
    const weight = uploadWeight(owner, { type, shape: weight_shape }, w.bytes);
    assert.equal(weightParts(weight).length, parts);
    const term = lora && { u: t.u, column: lora.column, matrix: t.matrix, scale: lora.scale };
    const residual = shape.residual ? t.residual : undefined;
    matmul(recorder, orientation, { x: t.x, weight, y: t.y, lora: term, residual }, {
      compute,
      layout,
      accumulate,
    });
  });
  limited.destroy();
  const expected = matmulReference({
    ...shape,
    orientation,
    x: given.x,
    w: w.values,
    ...(lora ? { lora: { ...lora, u: given.u, matrix: given.matrix } } : {}),
    ...(shape.residual ? { residual: given.residual } : { residual: new Float64Array(rows * columns) }),
  });
  const sums = accumulate ? expected.map((value) => value + 1) : expected;
  return { y: out.y, expected: sums, w: w.values, given };
}
