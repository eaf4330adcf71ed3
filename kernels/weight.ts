/** A frozen matrix on the device, in the form in which its file holds it. */

import { expectMultiple, expectShape, ShapeError } from "./shape.ts";
import type { Tensor } from "./tensor.ts";

/** Weights of a Q8_0 block: 32 neighbours of a row share one scale. */
export const Q8_0_BLOCK = 32;

/**
 * A matrix `[rows, columns]`. `f16` is packed, two to a word. `q8_0` is a structure of arrays: values
 * `[rows, columns] i8`, four to a word, and scales `[rows, columns / 32] f32`, the block's f16 scale widened;
 * weight[r, c] = scales[r, c / 32] · values[r, c].
 */
export type Weight =
  | { readonly type: "f32" | "f16"; readonly values: Tensor; readonly shape: readonly [number, number] }
  | {
    readonly type: "q8_0";
    readonly values: Tensor;
    readonly scales: Tensor;
    readonly shape: readonly [number, number];
  };

export type WeightType = Weight["type"];

/**
 * Checks a weight's tensors against its shape and type and returns its shape.
 *
 * @throws {ShapeError} Also when a row of f16 is odd or a row of Q8_0 is no multiple of 32: rows start at whole words.
 */
export function expectWeight(weight: Weight, name: string): readonly [number, number] {
  const [rows, columns] = weight.shape;
  expectShape(weight.values, `${name}.values`, weight.shape);
  const dtype = weight.type === "q8_0" ? "i8" : weight.type;
  if (weight.values.dtype !== dtype) {
    throw new ShapeError(
      `Cannot use ${name}.values as ${weight.type}: expected ${dtype}, got ${weight.values.dtype}`,
    );
  }
  if (weight.type === "f16") expectMultiple(columns, 2, `columns of ${name}`);
  if (weight.type === "q8_0") {
    expectMultiple(columns, Q8_0_BLOCK, `columns of ${name}`);
    expectShape(weight.scales, `${name}.scales`, [rows, columns / Q8_0_BLOCK]);
  }
  return weight.shape;
}
