/** The matmul's form for subgroups that multiply matrices: its layouts, its choice and its text. */

import type { GpuCard } from "../../core/device.ts";
import { assert } from "../../core/errors.ts";
import { SUBGROUP_MATRIX } from "../device.ts";
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
}

/** Subgroups of a workgroup. */
const SUBGROUPS = 4;

/** Vectors after each staged row: 16 bytes, to which matrices must be aligned, and which spread rows over the banks. */
const PADDING = 2;

/**
 * The layout for a device, type of operands and number of rows; null where the other forms are used. Whether it is null
 * does not depend on the rows: this form's sums have other bits than theirs, so sampler and trainer take it for every
 * product of a weight or for none.
 */
export function chooseMatrices(
  { facts, subgroup_size }: Pick<GpuCard, "facts" | "subgroup_size">,
  compute: MatmulKind["compute"],
  rows: number,
): MatricesLayout | null {
  const { features, software } = facts;
  if (software || compute !== "f16" || ![SUBGROUP_MATRIX, "shader-f16"].every((f) => features.includes(f))) {
    return null;
  }
  const form = "matrices";
  if (rows > 256) return { form, block_rows: 128, block_columns: 128, across: 2, steps: 16, subgroup_size };
  if (rows > 32) return { form, block_rows: 64, block_columns: 64, across: 2, steps: 32, subgroup_size };
  return { form, block_rows: 16, block_columns: 64, across: 4, steps: 32, subgroup_size };
}

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
