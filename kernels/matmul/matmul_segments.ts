/** Products of the same rows with several weights in one dispatch, as sums of chunks that another kernel adds. */

import type { Gpu } from "../device.ts";
import { defineKernel, type Kernel } from "../kernel.ts";
import { type Recorder, SCRATCH_BYTES } from "../recorder.ts";
import { ceilDiv, expectMultiple, expectShape } from "../shape.ts";
import { type Tensor, view } from "../tensor.ts";
import { deviceForm } from "../variant.ts";
import {
  expectWeight,
  type Weight,
  weightOperands,
  type WeightPart,
  weightParts,
} from "../weights/weight.ts";
import { WEIGHT_TYPES, type WeightTypeName } from "../weights/table.ts";
import { chooseSegmentsTile, chunkLength, partialBytes, type SegmentsLayout } from "./matmul_layout.ts";
import { segmentsMatricesParts } from "./matmul_matrices.ts";
import { segmentsTilesParts, TILE_DEPTH } from "./matmul_text.ts";

/** Where the sums of a segment's chunks lie, `[chunks, N, columns] f32`. */
export interface SegmentPlace {
  /** Its first vector of four numbers in the sums. */
  place: number;
  chunks: number;
  columns: number;
}

/** The sums of all chunks: the scratch tensor, which the next operation but one overwrites. */
export interface SegmentSums {
  sums: Tensor;
  segments: SegmentPlace[];
}

const kernels = new Map<string, Kernel>();

/** The kernel for weights of these types; made once. */
function segmentsKernel(
  types: readonly WeightTypeName[],
  compute: "f32" | "f16",
  layout: SegmentsLayout,
): Kernel {
  const key = JSON.stringify([types, compute, layout]);
  let kernel = kernels.get(key);
  if (!kernel) {
    const u32s = types.flatMap((_, s) =>
      ["columns", "tiles", "chunk_tiles", "group", "place"].map((name) => [`${name}${s}`, "u32"] as const)
    );
    kernel = defineKernel({
      name: `matmul_segments_${types.join("_")}_${compute}_${layout.form}`,
      wgsl: layout.form === "matrices"
        ? segmentsMatricesParts(types, layout)
        : segmentsTilesParts(types, compute, layout),
      params: { rows: "u32", depth: "u32", ...Object.fromEntries(u32s) },
      inputs: [
        ...types.flatMap((type, s) => WEIGHT_TYPES[type].planes.map(({ name }) => `${name}${s}`)),
        "x",
      ],
      outputs: ["sums"],
    }) as Kernel;
    kernels.set(key, kernel);
  }
  return kernel;
}

/**
 * Whether a device takes products of so many rows with these weights in one dispatch: only a GPU whose driver computes them
 * right, only weights in one part each, and only while their sums fit the scratch tensor and their planes the bindings.
 */
export function fitsSegments(
  gpu: Pick<Gpu, "facts" | "subgroup_size" | "wrong_segments">,
  weights: readonly Weight[],
  { rows }: { rows: number },
): boolean {
  if (gpu.wrong_segments || deviceForm(gpu) !== "tiles") return false;
  if (weights.some((weight) => weightParts(weight).length > 1)) return false;
  const planes = weights.reduce((sum, { type }) => sum + WEIGHT_TYPES[type].planes.length, 0);
  if (planes + 2 > gpu.facts.limits.maxStorageBuffersPerShaderStage!) return false;
  const bytes = weights.reduce((sum, { shape: [columns, depth] }) => {
    return sum + partialBytes({ rows, columns }, ceilDiv(depth, chunkLength({ columns, depth })));
  }, 0);
  return bytes <= SCRATCH_BYTES;
}

/**
 * Records the sums of the chunks of `x · W_sᵀ` for each weight: those that `matmul` adds in order for `y`, so a kernel that
 * adds them gives y in all its bits. Only for what {@link fitsSegments}.
 *
 * @param given x `[N, depth] f32`; weights `[columns, depth]`, of any types.
 * @param layout Overrides the tile, for tests.
 * @throws {ShapeError} When shapes do not belong together.
 */
export function matmulSegments(
  recorder: Recorder,
  { x, weights }: { x: Tensor; weights: readonly Weight[] },
  { compute, layout }: { compute: "f32" | "f16"; layout?: SegmentsLayout },
): SegmentSums {
  const [rows, depth] = expectShape(x, "x", 2), params: Record<string, number> = { rows, depth };
  const tile = layout ??
    chooseSegmentsTile(recorder.gpu, { rows, depth, compute }, weights.map(({ shape }) => shape[0]));
  const operands: Record<string, Tensor> = { x };
  let group = 0, place = 0;
  const segments = weights.map((weight, s): SegmentPlace => {
    const [columns] = expectWeight(weight, `weight ${s}`);
    expectShape(weight, `weight ${s}`, [columns, depth]);
    expectMultiple(columns, 4, "columns");
    const length = chunkLength({ columns, depth }), chunks = ceilDiv(depth, length), at = place;
    const tiles = ceilDiv(columns, tile.block_columns);
    for (const [name, tensor] of Object.entries(weightOperands(weight as WeightPart))) {
      operands[`${name}${s}`] = tensor;
    }
    Object.assign(params, {
      [`columns${s}`]: columns,
      [`tiles${s}`]: tiles,
      [`chunk_tiles${s}`]: length / TILE_DEPTH,
      [`group${s}`]: group,
      [`place${s}`]: place,
    });
    group += tiles * chunks;
    place += chunks * rows * columns / 4;
    return { place: at, chunks, columns };
  });
  const sums = operands.sums = view(recorder.scratch, [4 * place]);
  const kernel = segmentsKernel(weights.map(({ type }) => type), compute, tile);
  recorder.dispatch(kernel, params, operands, [ceilDiv(rows, tile.block_rows), group]);
  return { sums, segments };
}
