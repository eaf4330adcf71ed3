/** The matmul's form for subgroups that multiply matrices: its layouts and its text. */

import { assert } from "../../core/errors.ts";
import type { WgslPart } from "../kernel.ts";
import { ceilDiv } from "../shape.ts";
import { unroll, type UnrollConstants } from "../unroll.ts";
import { type MatmulKind, stagedWeightParts } from "./matmul_text.ts";
import matricesWgsl from "./matmul_matrices.wgsl" with { type: "text" };
import matricesNnWgsl from "./matmul_matrices_nn.wgsl" with { type: "text" };
import matricesNtWgsl from "./matmul_matrices_nt.wgsl" with { type: "text" };
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
const SUBGROUPS = 4;

/** Vectors after each staged row: 16 bytes, to which matrices must be aligned, and which spread rows over the banks. */
const PADDING = 2;

function sizesOf({ orientation }: MatmulKind, layout: MatricesLayout): UnrollConstants {
  const { block_rows, block_columns, across, steps, subgroup_size } = layout;
  assert(64 % subgroup_size === 0, "a subgroup shares the 64 vectors of a matrix");
  const threads = SUBGROUPS * subgroup_size, steps4 = steps / 4;
  const w_stride = (orientation === "nt" ? steps4 : block_columns / 4) + PADDING;
  return {
    ...{ BLOCK_ROWS: block_rows, BLOCK_COLUMNS: block_columns, ACROSS: across, SUBGROUPS, THREADS: threads },
    ...{ STEPS4: steps4, CHUNKS: steps / 16, SIZE: subgroup_size, VECTORS: 64 / subgroup_size },
    ROWS: block_rows / 16 / (SUBGROUPS / across),
    COLUMNS: block_columns / 16 / across,
    X_STRIDE: steps4 + PADDING,
    W_STRIDE: w_stride,
    W_LENGTH: w_stride * (orientation === "nt" ? block_columns : steps),
    X_PASSES: ceilDiv(block_rows * steps4, threads),
    W_PASSES: ceilDiv(block_columns * steps4, threads),
  };
}

/** The matrices of a subgroup, for W as its orientation stages it. */
function subgroupMatrices({ orientation }: MatmulKind, sizes: UnrollConstants): WgslPart {
  const layout = orientation === "nt" ? "col_major" : "row_major";
  const text = unroll(subgroupMatricesWgsl, sizes).replace("W_LAYOUT", layout);
  return { file: "subgroup_matrices.wgsl", text };
}

/**
 * The kernel's parts.
 *
 * @param matrices The matrices and what is done with them; tests replace those of a subgroup.
 */
export function matricesParts(
  kind: MatmulKind,
  layout: MatricesLayout,
  matrices: (kind: MatmulKind, sizes: UnrollConstants) => WgslPart = subgroupMatrices,
): WgslPart[] {
  const sizes = sizesOf(kind, layout), { orientation } = kind;
  return [
    ...stagedWeightParts(kind),
    matrices(kind, sizes),
    {
      file: `matmul_matrices_${orientation}.wgsl`,
      text: unroll(orientation === "nt" ? matricesNtWgsl : matricesNnWgsl, sizes),
    },
    { file: "matmul_matrices.wgsl", text: unroll(matricesWgsl, sizes) },
  ];
}
