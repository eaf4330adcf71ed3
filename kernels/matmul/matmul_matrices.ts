/** The matmul's form for subgroups that multiply matrices: its layouts and its text. */

import { assert } from "../../core/errors.ts";
import type { WgslPart } from "../kernel.ts";
import { ceilDiv } from "../shape.ts";
import { unroll, type UnrollConstants } from "../unroll.ts";
import type { WeightTypeName } from "../weights/table.ts";
import { type MatmulKind, segmentsParts, stagedWeightParts } from "./matmul_text.ts";
import matricesWgsl from "./matmul_matrices.wgsl" with { type: "text" };
import matricesNnWgsl from "./matmul_matrices_nn.wgsl" with { type: "text" };
import matricesNtWgsl from "./matmul_matrices_nt.wgsl" with { type: "text" };
import matricesWholeWgsl from "./matmul_matrices_whole.wgsl" with { type: "text" };
import segmentsMatricesWgsl from "./matmul_segments_matrices.wgsl" with { type: "text" };
import subgroupMatricesWgsl from "./subgroup_matrices.wgsl" with { type: "text" };

/** The tile of a workgroup of four subgroups, and how they share it. Rows and columns are multiples of 16. */
export interface MatricesLayout {
  form: "matrices";
  block_rows: number;
  block_columns: number;
  /** Subgroups side by side along the columns; the others lie along the rows. */
  across: number;
  /** Steps that are staged at once, a multiple of 16. */
  steps: number;
  /** Invocations of a subgroup. */
  subgroup_size: number;
  /** Each chunk of the depth has workgroups of its own. */
  split: boolean;
}

/** Subgroups of a workgroup. */
export const SUBGROUPS = 4;

/** Vectors after each staged row: 16 bytes, to which matrices must be aligned, and which spread rows over the banks. */
export const VECTOR_PADDING = 2;

function sizesOf(orientation: MatmulKind["orientation"], layout: MatricesLayout): UnrollConstants {
  const { block_rows, block_columns, across, steps, subgroup_size } = layout;
  assert(64 % subgroup_size === 0, "a subgroup shares the 64 vectors of a matrix");
  const threads = SUBGROUPS * subgroup_size, steps4 = steps / 4;
  const w_stride = (orientation === "nt" ? steps4 : block_columns / 4) + VECTOR_PADDING;
  return {
    ...{ BLOCK_ROWS: block_rows, BLOCK_COLUMNS: block_columns, ACROSS: across, SUBGROUPS, THREADS: threads },
    ...{ STEPS4: steps4, MATRICES_DEEP: steps / 16, SIZE: subgroup_size, VECTORS: 64 / subgroup_size },
    ROWS: block_rows / 16 / (SUBGROUPS / across),
    COLUMNS: block_columns / 16 / across,
    X_STRIDE: steps4 + VECTOR_PADDING,
    W_STRIDE: w_stride,
    W_LENGTH: w_stride * (orientation === "nt" ? block_columns : steps),
    X_PASSES: ceilDiv(block_rows * steps4, threads),
    W_PASSES: ceilDiv(block_columns * steps4, threads),
  };
}

/** The parts that all products in matrices have, with what their workgroups do. */
function productParts(
  orientation: MatmulKind["orientation"],
  sizes: UnrollConstants,
  work: WgslPart,
): WgslPart[] {
  const is_nt = orientation === "nt", stage = is_nt ? matricesNtWgsl : matricesNnWgsl;
  const matrices = subgroupMatricesWgsl.replace("W_LAYOUT", is_nt ? "col_major" : "row_major");
  return [
    { file: "subgroup_matrices.wgsl", text: unroll(matrices, sizes) },
    { file: `matmul_matrices_${orientation}.wgsl`, text: unroll(stage, sizes) },
    { file: work.file, text: unroll(work.text, sizes) },
    { file: "matmul_matrices.wgsl", text: unroll(matricesWgsl, sizes) },
  ];
}

/**
 * The parts of a product with one weight.
 *
 * @param is_scaled See `ProductTerms.is_scaled`.
 */
export function matricesParts(kind: MatmulKind, layout: MatricesLayout, is_scaled: boolean): WgslPart[] {
  const sizes = { ...sizesOf(kind.orientation, layout), LOW_RANK: 1, CONTINUES: 1 };
  const work = { file: "matmul_matrices_whole.wgsl", text: matricesWholeWgsl };
  const own_scale = { file: "row_scale", text: "fn row_scale(row: u32) -> f32 { return 1.0; }\n" };
  return [
    ...stagedWeightParts(kind, is_scaled),
    ...is_scaled ? [] : [own_scale],
    ...productParts(kind.orientation, sizes, work),
  ];
}

/** The parts of the product of x with weights of these types; see `matmulSegments`. */
export function segmentsMatricesParts(
  types: readonly WeightTypeName[],
  layout: MatricesLayout,
): WgslPart[] {
  const sizes = { ...sizesOf("nt", layout), SEGMENTS: types.length, LOW_RANK: 0, CONTINUES: 0 };
  const work = { file: "matmul_segments_matrices.wgsl", text: segmentsMatricesWgsl };
  return [...segmentsParts(types, "f16"), ...productParts("nt", sizes, work)];
}
