/** A frozen matrix on the device, in the type of its file. */

import { expectMultiple, expectShape, ShapeError } from "./shape.ts";
import type { Allocator, Tensor } from "./tensor.ts";
import { WEIGHT_TYPES, type WeightTypeName } from "./weights/table.ts";
import { planeShape, rowMultiple, type WeightType } from "./weights/weight_type.ts";

/** A matrix `[rows, columns]`: a tensor for each plane of its type. */
export interface Weight {
  readonly type: WeightTypeName;
  readonly shape: readonly [number, number];
  readonly values: Tensor;
  /** For types with such a plane. */
  readonly scales?: Tensor;
}

/**
 * Checks a weight's tensors against its shape and type and returns its shape.
 *
 * @throws {ShapeError} Also when rows are not made of complete blocks and words.
 */
export function expectWeight(weight: Weight, name: string): readonly [number, number] {
  const type: WeightType = WEIGHT_TYPES[weight.type];
  expectMultiple(weight.shape[1], rowMultiple(type), `columns of ${name}`);
  for (const plane of type.planes) {
    const tensor = weight[plane.name];
    if (!tensor) throw new ShapeError(`Cannot use ${name} as ${weight.type}: it has no ${plane.name}`);
    expectShape(tensor, `${name}.${plane.name}`, planeShape(type, plane, weight.shape));
    if (tensor.dtype !== plane.dtype) {
      throw new ShapeError(
        `Cannot use ${name}.${plane.name} as ${weight.type}: expected ${plane.dtype}, got ${tensor.dtype}`,
      );
    }
  }
  return weight.shape;
}

/** A weight's tensors in the order of its type's planes. */
export function weightTensors(weight: Weight): Tensor[] {
  return WEIGHT_TYPES[weight.type].planes.map(({ name }) => weight[name]!);
}

/** A weight's tensors by the names of the kernels' operands. */
export function weightOperands(weight: Weight): { values: Tensor; scales?: Tensor } {
  return Object.fromEntries(WEIGHT_TYPES[weight.type].planes.map(({ name }) => [name, weight[name]!])) as {
    values: Tensor;
    scales?: Tensor;
  };
}

/**
 * A weight without values; fill it with {@link writeWeight}.
 *
 * @param name The weight's name in errors; absent: the component.
 * @throws {ServiceError} `out_of_memory` when a plane exceeds the device's binding limit.
 */
export function createWeight(
  allocator: Allocator,
  component: string,
  { type, shape, name }: Pick<Weight, "type" | "shape"> & { name?: string },
): Weight {
  const stored: WeightType = WEIGHT_TYPES[type];
  const tensors = stored.planes.map((plane) =>
    [plane.name, allocator.create(component, planeShape(stored, plane, shape), plane.dtype, name)] as const
  );
  return { type, shape, ...Object.fromEntries(tensors) as Pick<Weight, "values" | "scales"> };
}

/** Writes complete blocks in the file's layout; `block` is the index of the first one in the matrix. */
export function writeWeight(allocator: Allocator, weight: Weight, bytes: Uint8Array, block = 0): void {
  const type: WeightType = WEIGHT_TYPES[weight.type], tensors = weightTensors(weight);
  const blocks = bytes.length / type.block_bytes;
  type.repack(bytes).forEach((plane, i) =>
    allocator.write(tensors[i]!, plane, block * (plane.byteLength / blocks))
  );
}
