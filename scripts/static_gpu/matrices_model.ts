/**
 * What a round of a product in matrices of subgroups costs. No compiler that is here compiles these kernels, so everything
 * follows from the layout: the multiply-adds, the bytes that are staged and loaded, and counted instructions.
 */

import type { GpuCard } from "../../core/device.ts";
import { assumedGpu } from "../../kernels/assumed_gpu.ts";
import { SUBGROUP_MATRIX } from "../../kernels/device.ts";
import { everyMatrices } from "../../kernels/matmul/matmul_layout.ts";
import { type MatricesLayout, SUBGROUPS, VECTOR_PADDING } from "../../kernels/matmul/matmul_matrices.ts";
import { ceilDiv } from "../../kernels/shape.ts";

/** What the model needs of a multiprocessor. */
interface Multiprocessor {
  /** f32 multiply-adds in a cycle, and those of matrices in f16 whose sums are f32. */
  lanes: number;
  matrix_lanes: number;
}

/** Bytes that a multiprocessor loads from workgroup memory, and from the second cache, in a cycle. */
const WORKGROUP_BYTES = 128, CACHE_BYTES = 64;
/** Instructions that stage a vector: its place, its bounds, the load, the rounding and the store. */
const STAGE_INSTRUCTIONS = 14;
/** Instructions of a round besides, and those of a subgroup that load or multiply a matrix. */
const ROUND_INSTRUCTIONS = 24, MATRIX_INSTRUCTIONS = 2;
/** Registers of a matrix of sums and of one of operands, and all others. */
const SUMS_REGISTERS = 8, OPERAND_REGISTERS = 8, OTHER_REGISTERS = 48;
/** Instructions for a multiply-add of the low-rank term, which is scalars. */
const LOW_RANK_INSTRUCTIONS = 1.3;
/** Numbers of a side of a matrix; bytes of an operand in f16 and f32. */
const SIDE = 16, F16 = 2, F32 = 4;

/** A round of a workgroup: the steps that it stages at once. */
export interface MatricesRound {
  steps: number;
  threads: number;
  vgprs: number;
  /** Of a thread, or as many as take as long as what the round is bound by. */
  instructions: number;
  /** Rounds that the low-rank term of so many ranks takes. */
  lowRankRounds: (rank: number) => number;
}

const card = assumedGpu();

/** The GPU that plans assume, with matrices of subgroups. */
export const WITH_MATRICES: GpuCard = {
  ...card,
  facts: { ...card.facts, features: [...card.facts.features, SUBGROUP_MATRIX] },
};

const layouts = everyMatrices(WITH_MATRICES, "f16");

/** The layout of a kernel, by what it has in workgroup memory. @throws {Error} When there is none. */
export function matricesLayout(text: string): MatricesLayout {
  const found = layouts.find(({ block_rows, steps }) =>
    text.includes(`tile_x: array<operand4, ${block_rows * (steps / 4 + VECTOR_PADDING)}>`)
  );
  if (!found) throw new Error("Cannot estimate a product in matrices: its layout is unknown");
  return found;
}

/** A round takes as long as the slowest of its multiply-adds, its loads and its instructions. */
export function matricesRound(
  { lanes, matrix_lanes }: Multiprocessor,
  { block_rows, block_columns, across, steps, subgroup_size }: MatricesLayout,
): MatricesRound {
  const threads = SUBGROUPS * subgroup_size, vectors = steps / 4, deep = steps / SIDE;
  const rows = block_rows / SIDE / (SUBGROUPS / across), columns = block_columns / SIDE / across;
  const staged = (block_rows + block_columns) * steps;
  const passes = ceilDiv(block_rows * vectors, threads) + ceilDiv(block_columns * vectors, threads);
  const own = ROUND_INSTRUCTIONS + STAGE_INSTRUCTIONS * passes +
    MATRIX_INSTRUCTIONS * deep * (rows + columns + rows * columns);
  const loaded = F16 * (SUBGROUPS * deep * (rows + columns) * SIDE * SIDE + staged);
  const cycles = Math.max(
    block_rows * block_columns * steps / matrix_lanes,
    loaded / WORKGROUP_BYTES,
    (F32 * block_rows + F16 * block_columns) * steps / CACHE_BYTES,
  );
  // A multiprocessor issues an instruction of 32 threads in each of its schedulers in a cycle.
  const instructions = Math.max(own, cycles * lanes / threads);
  const outputs = block_rows * block_columns / threads;
  return {
    ...{ steps, threads, instructions },
    vgprs: SUMS_REGISTERS * rows * columns + OPERAND_REGISTERS * (rows + columns) + OTHER_REGISTERS,
    lowRankRounds: (rank) => outputs * rank * LOW_RANK_INSTRUCTIONS / instructions,
  };
}
