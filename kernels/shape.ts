/** Checks shapes of tensors when a kernel is launched. */

/** A tensor has the wrong shape; the message names the tensor and both shapes. */
export class ShapeError extends Error {
  override readonly name = "ShapeError";
}

/** The parts of a tensor that a shape check needs. */
export interface Shaped {
  readonly shape: readonly number[];
}

const text = (shape: readonly number[]) => `[${shape.join(", ")}]`;

/**
 * Checks a tensor's shape, or only its number of axes, and returns it.
 *
 * @throws {ShapeError} "Cannot use x [2, 3]: expected [2, 4]".
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * const x = { shape: [2, 3] };
 * assert.throws(() => expectShape(x, "x", [2, 4]), { message: "Cannot use x [2, 3]: expected [2, 4]" });
 * ```
 */
export function expectShape(tensor: Shaped, name: string, expected: readonly number[]): readonly number[];
export function expectShape(tensor: Shaped, name: string, axes: 1): readonly [number];
export function expectShape(tensor: Shaped, name: string, axes: 2): readonly [number, number];
export function expectShape(tensor: Shaped, name: string, axes: 3): readonly [number, number, number];
export function expectShape(
  tensor: Shaped,
  name: string,
  expected: readonly number[] | number,
): readonly number[] {
  const { shape } = tensor;
  if (typeof expected === "number") {
    if (shape.length !== expected) {
      throw new ShapeError(`Cannot use ${name} ${text(shape)}: expected ${expected} axes`);
    }
  } else if (shape.length !== expected.length || shape.some((size, axis) => size !== expected[axis])) {
    throw new ShapeError(`Cannot use ${name} ${text(shape)}: expected ${text(expected)}`);
  }
  return shape;
}

/** @throws {ShapeError} When `value` is not a multiple of `step`. */
export function expectMultiple(value: number, step: number, name: string): void {
  if (value % step !== 0) throw new ShapeError(`Cannot use ${name} ${value}: expected a multiple of ${step}`);
}

/** Smallest integer not below a / b. */
export function ceilDiv(a: number, b: number): number {
  return Math.ceil(a / b);
}

/** Smallest multiple of `step` not below `value`. */
export function roundUp(value: number, step: number): number {
  return ceilDiv(value, step) * step;
}

/** Product of the axes; 1 for a scalar. */
export function elementCount(shape: readonly number[]): number {
  return shape.reduce((product, size) => product * size, 1);
}
