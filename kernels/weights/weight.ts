/** A frozen matrix on the device, in the type of its file. */

import { expectMultiple, expectShape, ShapeError } from "../shape.ts";
import { type Allocator, bytesOf, type Tensor } from "../tensor.ts";
import { PlaneArrays } from "./block_words.ts";
import { WEIGHT_TYPES, type WeightTypeName } from "./table.ts";
import { planeShape, rowMultiple, type WeightType } from "./weight_type.ts";

/** A matrix `[rows, columns]`, or some of its rows, in tensors that a device binds: one for each plane of its type. */
export interface WeightPart {
  readonly type: WeightTypeName;
  readonly shape: readonly [number, number];
  readonly values: Tensor;
  /** For types with such a plane. */
  readonly scales?: Tensor;
}

/** A matrix with a plane above what the device binds: its rows are in several parts, one after the other. */
export interface SplitWeight {
  readonly type: WeightTypeName;
  readonly shape: readonly [number, number];
  /** All but the last have a multiple of {@link PART_ROWS} rows. */
  readonly parts: readonly WeightPart[];
}

/** A frozen matrix, in one part or in several. */
export type Weight = WeightPart | SplitWeight;

/**
 * Parts start at multiples of this many rows: views of tensors that belong to their rows can be bound, and a kernel
 * that walks along the rows ends a part with a complete step.
 */
export const PART_ROWS = 64;

/** The parts of a matrix, in order; one that is not split is its own only part. */
export function weightParts(weight: Weight): { first_row: number; part: WeightPart }[] {
  let first_row = 0;
  return ("parts" in weight ? weight.parts : [weight]).map((part) => {
    const placed = { first_row, part };
    first_row += part.shape[0];
    return placed;
  });
}

/**
 * Checks a weight's tensors against its shape and type and returns its shape.
 *
 * @throws {ShapeError} Also when rows are not made of complete blocks and words.
 */
export function expectWeight(weight: Weight, name: string): readonly [number, number] {
  const parts = weightParts(weight), [rows, columns] = weight.shape;
  for (const { first_row, part } of parts) {
    expectPart(part, name);
    expectMultiple(first_row, PART_ROWS, `first row of a part of ${name}`);
    if (part.type !== weight.type || part.shape[1] !== columns) {
      throw new ShapeError(`Cannot use ${name}: a part has another type or width than the others`);
    }
  }
  const sum = parts.reduce((sum, { part }) => sum + part.shape[0], 0);
  if (sum !== rows) throw new ShapeError(`Cannot use ${name}: its parts have ${sum} rows of ${rows}`);
  return weight.shape;
}

function expectPart(weight: WeightPart, name: string): void {
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
}

/** A weight's tensors, part by part in the order of its type's planes. */
export function weightTensors(weight: Weight): Tensor[] {
  const { planes } = WEIGHT_TYPES[weight.type];
  return weightParts(weight).flatMap(({ part }) => planes.map(({ name }) => part[name]!));
}

/** A weight's tensors by the names of the kernels' operands. */
export function weightOperands(weight: WeightPart): { values: Tensor; scales?: Tensor } {
  return Object.fromEntries(WEIGHT_TYPES[weight.type].planes.map(({ name }) => [name, weight[name]!])) as {
    values: Tensor;
    scales?: Tensor;
  };
}

/**
 * A weight without values; fill it with {@link writeWeight}. It is split by rows where the device cannot bind all of it.
 *
 * @param name The weight's name in errors; absent: the component.
 * @throws {ServiceError} `out_of_memory` when {@link PART_ROWS} rows of a plane exceed the device's binding limit.
 */
export function createWeight(
  allocator: Allocator,
  component: string,
  { type, shape, name }: Pick<Weight, "type" | "shape"> & { name?: string },
): Weight {
  const stored: WeightType = WEIGHT_TYPES[type], [rows, columns] = shape;
  const create = (part_rows: number): WeightPart => {
    const size = [part_rows, columns] as const;
    const tensors = stored.planes.map((plane) =>
      [plane.name, allocator.create(component, planeShape(stored, plane, size), plane.dtype, name)] as const
    );
    return { type, shape: size, ...Object.fromEntries(tensors) as Pick<WeightPart, "values" | "scales"> };
  };
  const row_bytes = stored.planes.map((plane) => planeShape(stored, plane, shape)[1] * bytesOf(plane.dtype));
  const bindable = Math.floor(allocator.limit_bytes / Math.max(...row_bytes));
  const most = Math.floor(bindable / PART_ROWS) * PART_ROWS;
  if (rows <= bindable || most === 0) return create(rows);
  const parts: WeightPart[] = [];
  for (let first = 0; first < rows; first += most) parts.push(create(Math.min(most, rows - first)));
  return { type, shape, parts };
}

/**
 * Writes complete blocks in the file's layout.
 *
 * @param block The index of the first one in the matrix.
 * @param arrays Where the blocks are taken apart; whoever writes many pieces gives the same each time.
 */
export function writeWeight(
  allocator: Allocator,
  weight: Weight,
  bytes: Uint8Array,
  block = 0,
  arrays: PlaneArrays = new PlaneArrays(),
): void {
  const { block_bytes, block_values }: WeightType = WEIGHT_TYPES[weight.type];
  const row_blocks = weight.shape[1] / block_values, end = block + bytes.length / block_bytes;
  for (const { first_row, part } of weightParts(weight)) {
    const part_start = first_row * row_blocks, part_end = part_start + part.shape[0] * row_blocks;
    const from = Math.max(block, part_start), to = Math.min(end, part_end);
    if (from >= to) continue;
    const piece = bytes.subarray((from - block) * block_bytes, (to - block) * block_bytes);
    writePart(allocator, part, { bytes: piece, block: from - part_start, arrays });
  }
}

function writePart(
  allocator: Allocator,
  weight: WeightPart,
  { bytes, block, arrays }: { bytes: Uint8Array; block: number; arrays: PlaneArrays },
): void {
  const type: WeightType = WEIGHT_TYPES[weight.type], tensors = weightTensors(weight);
  const blocks = bytes.length / type.block_bytes;
  type.repack(bytes, arrays).forEach((plane, i) =>
    allocator.write(tensors[i]!, plane, block * (plane.byteLength / blocks))
  );
}
