/** The interface of a type of weights; `table.ts` lists the types. */

import { assert } from "../../core/errors.ts";
import type { WgslPart } from "../kernel.ts";
import { bytesOf, type DType } from "../tensor.ts";
import type { PlaneArrays } from "./block_words.ts";

/** The numbers themselves, or what scales them. */
type PlaneName = "values" | "scales";

/** An array on the device into which blocks are taken apart, so that shaders read complete words. */
export interface Plane {
  readonly name: PlaneName;
  readonly dtype: DType;
  /** Elements of a block. */
  readonly block_elements: number;
}

/**
 * How a matrix is stored, row by row in blocks. In files a block is `block_bytes` long; on the device its parts lie in
 * planes. Whoever reads a type takes it from the table, so that a type is its file and a line there.
 */
export interface WeightType {
  readonly block_values: number;
  readonly block_bytes: number;
  /** In the order of the shader's bindings, which start at 1. */
  readonly planes: readonly Plane[];
  /** Complete blocks of a file, as the bytes of each plane, which may lie in `arrays`. */
  repack(bytes: Uint8Array, arrays: PlaneArrays): readonly ArrayBufferView[];
  /** Complete blocks of a file, as the values that they stand for: the same bits as in the shader and in ggml. */
  decode(bytes: Uint8Array): Float32Array<ArrayBuffer>;
  /** Declares the planes and `load_weight(i)`, the elements 4·i … 4·i + 3 of the matrix. */
  readonly wgsl: WgslPart;
  /**
   * In place of `wgsl`, for kernels of few rows: declares `load_pair(i)` too, the elements 8·i … 8·i + 7. Absent: the type
   * has none of these kernels. The readers of quantised types are long, and would be compiled into such a kernel 36 times or more.
   */
  readonly pairs_wgsl?: WgslPart;
  /**
   * In place of `wgsl`, where operands are f16: declares `load_f16(i)` instead of `load_weight`, the same elements as f16.
   * Absent: they are not stored as f16.
   */
  readonly f16_wgsl?: WgslPart;
  /** In place of `wgsl`, where `values` is a texture of halves (`TextureUse`). Absent: no texture has its numbers. */
  readonly halves_wgsl?: WgslPart;
}

/** What a kernel needs of the reader of a type; one at most. */
export interface ReaderOptions {
  /** `load_pair` too. */
  reads_pairs?: boolean;
  /** `load_f16` instead of `load_weight`. */
  loads_f16?: boolean;
  /** That `values` is a texture of halves. */
  reads_halves?: boolean;
}

/** The parts of a kernel that read a type. @throws {Error} When the type has no such reader. */
export function weightReader(
  { wgsl, pairs_wgsl, f16_wgsl, halves_wgsl }: WeightType,
  { reads_pairs = false, loads_f16 = false, reads_halves = false }: ReaderOptions,
): WgslPart[] {
  const reader = reads_pairs ? pairs_wgsl : loads_f16 ? f16_wgsl : reads_halves ? halves_wgsl : wgsl;
  assert(reader !== undefined, "a reader of pairs, f16 or halves");
  return [reader];
}

/** Values of which a row must be a multiple, so that rows start at the start of a block and of a word. */
export function rowMultiple({ block_values, planes }: WeightType): number {
  const blocks = planes.map(({ dtype, block_elements }) => 4 / bytesOf(dtype) / block_elements);
  return block_values * Math.max(1, ...blocks);
}

/** The shape of a plane of a matrix `[rows, columns]`. */
export function planeShape(
  { block_values }: WeightType,
  { block_elements }: Plane,
  [rows, columns]: readonly [number, number],
): [number, number] {
  return [rows, columns / block_values * block_elements];
}
