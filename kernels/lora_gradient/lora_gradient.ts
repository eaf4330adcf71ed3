/** Gradients of LoRA factors: a product of a wide and a narrow matrix, summed over rows. */

import { assert } from "../../core/errors.ts";
import { defineKernel, type WgslPart } from "../kernel.ts";
import type { Recorder } from "../recorder.ts";
import { ceilDiv, elementCount, expectMultiple, expectShape, roundUp, ShapeError } from "../shape.ts";
import type { Tensor } from "../tensor.ts";
import { unroll } from "../unroll.ts";
import { deviceOptions, type FormOptions, kernelFamily, type KernelForm, lanesPart } from "../variant.ts";
import lanesWgsl from "./lora_gradient_lanes.wgsl" with { type: "text" };
import reduceWgsl from "./lora_gradient_reduce.wgsl" with { type: "text" };
import singleWgsl from "./lora_gradient_single.wgsl" with { type: "text" };
import tilesWgsl from "./lora_gradient_tiles.wgsl" with { type: "text" };

/** Columns of a lane, in vec4s, and the most ranks of a subgroup: 32 sums of four fill a CPU's registers. */
const LANE_TILES = 2;
const LANE_RANKS = 16;
/** Rows of a round of its loop, which costs an instruction for each sum besides what it computes. */
const LANE_ROUND = 4;
/** A GPU's workgroup: teams of 32 threads with 4 columns each, and the rows that a thread reads before it multiplies. */
const TEAMS = 4, TEAM_COLUMNS = 128, ROUND = 8;
/** The most vec4s of ranks of a thread: 16 sums of four in registers. */
const MOST_RANKS4 = 4;
/**
 * Workgroups for 132 multiprocessors. Few ranks take the time of reading p, for which two on each suffice, and more parts are
 * more sums to add. More ranks take that of their multiply-adds: three on each, and not one more.
 */
const READING_GROUPS = 264, MULTIPLYING_GROUPS = 384;
/** A part with fewer rows is not worth its sums. */
const MIN_PART_ROWS = 32;
/** Parts whose sums are loaded at once. */
export const PARTS_BATCH = 16;

const OUT_PARAMS = {
  rows: "u32",
  columns: "u32",
  q_stride: "u32",
  q_offset: "u32",
  rank: "u32",
  column_stride: "u32",
  rank_stride: "u32",
  alpha: "f32",
} as const;

/** The subgroup kernel's parts for `lanes` lanes and `blocks` ranks of each lane. */
export function lanesParts(lanes: number, blocks: number): WgslPart[] {
  const text = unroll(lanesWgsl, { LANES: lanes, BLOCKS: blocks, TILES: LANE_TILES, ROUND: LANE_ROUND });
  return [lanesPart(lanes), { file: "lora_gradient_lanes.wgsl", text }];
}

const lanesKernel = kernelFamily((lanes: number, blocks: number) =>
  defineKernel({
    name: "lora_gradient_lanes",
    wgsl: lanesParts(lanes, blocks),
    params: OUT_PARAMS,
    inputs: ["p", "q"],
    outputs: ["out"],
    textures: { p: 2, q: 16 },
  })
);

/** The form `lanes` with a single lane. */
const singleKernel = defineKernel({
  name: "lora_gradient_single",
  wgsl: singleWgsl,
  params: OUT_PARAMS,
  inputs: ["p", "q"],
  outputs: ["out"],
});

const tilesKernel = kernelFamily((groups: number, ranks4: number) => {
  const slices = TEAMS / groups;
  return defineKernel({
    name: "lora_gradient_tiles",
    wgsl: unroll(tilesWgsl, {
      ...{ GROUPS: groups, RANKS4: ranks4, RANKS: 4 * ranks4, ROUND },
      ...{ SLICES: slices, OTHER_SLICES: slices - 1 },
    }),
    params: {
      rows: "u32",
      part_rows: "u32",
      columns: "u32",
      q_stride: "u32",
      q_offset: "u32",
      rank: "u32",
    },
    inputs: ["p", "q"],
    outputs: ["partials"],
  });
});

const reduceKernel = defineKernel({
  name: "lora_gradient_reduce",
  wgsl: unroll(reduceWgsl, { BATCH: PARTS_BATCH }),
  params: {
    columns: "u32",
    rank: "u32",
    parts: "u32",
    column_stride: "u32",
    rank_stride: "u32",
    alpha: "f32",
  },
  inputs: ["partials"],
  outputs: ["out"],
});

/**
 * The number of f32 elements of `partials` for {@link loraGradient} with up to so many rows and ranks; 0 when it needs none. A
 * rank may need more than a higher one.
 */
export function loraGradientPartials(
  { rows, columns, rank: most }: { rows: number; columns: number; rank: number },
  form: KernelForm,
): number {
  let elements = 0;
  for (let rank = 4; form === "tiles" && rank <= most; rank += 4) {
    elements = Math.max(elements, splitGradient({ rows, columns, rank }).wanted * columns * rank);
  }
  return elements;
}

/** What a GPU's workgroups own. It depends only on the shapes, so that the sum has the same bits in every run. */
export function splitGradient({ rows, columns, rank }: { rows: number; columns: number; rank: number }) {
  const across = ceilDiv(rank, 4 * MOST_RANKS4 * TEAMS), owned4 = ceilDiv(rank, 4 * across);
  // Groups of ranks share what they read of p; the other teams have slices of the rows.
  const groups = owned4 <= MOST_RANKS4 ? 1 : owned4 <= 2 * MOST_RANKS4 ? 2 : TEAMS;
  const ranks4 = ceilDiv(owned4, groups), tiles = ceilDiv(columns, TEAM_COLUMNS) * across;
  const wanted_parts = groups === 1 ? ceilDiv(READING_GROUPS, tiles) : Math.floor(MULTIPLYING_GROUPS / tiles);
  const wanted = Math.max(1, Math.min(wanted_parts, Math.floor(rows / MIN_PART_ROWS)));
  const round_rows = ROUND * TEAMS / groups;
  const part_rows = roundUp(ceilDiv(rows, wanted), round_rows);
  return { across, groups, ranks4, wanted, round_rows, part_rows, parts: ceilDiv(rows, part_rows) };
}

/** The tensors of {@link loraGradient}. */
export interface LoraGradientTensors {
  /** `[M, P] f32`, P a multiple of 4. */
  p: Tensor;
  /** `[M, stride] f32`; R columns from `q_offset` on are read. All three are multiples of 4. */
  q: Tensor;
  /** `[P, R]` or `[R, P] f32`, accumulated. */
  out: Tensor;
  /** At least {@link loraGradientPartials} f32 elements; if that is 0, any other tensor. */
  partials: Tensor;
}

/** How {@link loraGradient} reads q and writes out. */
export interface LoraGradientOptions {
  /** The axes of out. `column_rank`: it is `[P, R]` (a gradient of B); `rank_column`: `[R, P]` (a gradient of A). */
  order: "column_rank" | "rank_column";
  alpha: number;
  /** The first column of q to read; default 0. */
  q_offset?: number;
}

/**
 * Records `out[c, r] += alpha · Σ_m p[m, c] · q[m, q_offset + r]`: for `y = x Aᵀ Bᵀ` with `u = x Aᵀ`, the gradient of B
 * from p = d_y and q = u, that of A from p = x and q = d_u. The sum has one order for given shapes.
 *
 * @throws {ShapeError} When the shapes do not match, or P, R, q's columns or `q_offset` is not a multiple of 4.
 * @source Hu et al., "LoRA" (2021), equation 3.
 */
export function loraGradient(
  recorder: Recorder,
  { p, q, out, partials }: LoraGradientTensors,
  { order, alpha, q_offset = 0 }: LoraGradientOptions,
  forms: FormOptions = {},
): void {
  const { form, lanes } = { ...deviceOptions(recorder.gpu), ...forms };
  const [rows, width] = expectShape(p, "p", 2);
  expectMultiple(width, 4, "columns of p");
  const [q_rows, q_stride] = expectShape(q, "q", 2);
  if (q_rows !== rows) {
    throw new ShapeError(`Cannot use q with ${q_rows} rows: expected ${rows}, the rows of p`);
  }
  expectMultiple(q_stride, 4, "columns of q");
  expectMultiple(q_offset, 4, "q_offset");
  const rank = expectShape(out, "out", 2)[order === "column_rank" ? 1 : 0];
  expectShape(out, "out", order === "column_rank" ? [width, rank] : [rank, width]);
  expectMultiple(rank, 4, "rank");
  if (q_offset + rank > q_stride) {
    throw new ShapeError(
      `Cannot use q with ${q_stride} columns: expected ${rank} from column ${q_offset} on`,
    );
  }
  const columns = width / 4;
  const strides = order === "column_rank"
    ? { column_stride: rank, rank_stride: 1 }
    : { column_stride: 1, rank_stride: width };
  const params = { rows, columns, q_stride, q_offset, rank, ...strides };
  if (form === "tiles") {
    const { across, groups, ranks4, part_rows, parts } = splitGradient({ rows, columns: width, rank });
    assert(
      elementCount(partials.shape) >= parts * width * rank,
      `partials of lora_gradient hold ${parts * width * rank} elements`,
    );
    const grid = [ceilDiv(width, TEAM_COLUMNS), across, parts] as const, shapes = { rows, columns, rank };
    recorder.dispatch(
      tilesKernel(groups, ranks4),
      { ...shapes, part_rows, q_stride, q_offset },
      { p, q, partials },
      grid,
    );
    const sums = { columns: width, rank, parts, ...strides, alpha };
    recorder.dispatch(reduceKernel, sums, { partials, out }, [ceilDiv(width, 64), rank]);
  } else if (lanes === 1) {
    recorder.dispatch(singleKernel, { ...params, alpha }, { p, q, out }, [
      ceilDiv(columns, 8),
      ceilDiv(rank, 4),
    ]);
  } else {
    const blocks = Math.min(ceilDiv(rank, lanes), Math.max(1, LANE_RANKS / lanes));
    const grid = [ceilDiv(columns, LANE_TILES * lanes), ceilDiv(rank, blocks * lanes)] as const;
    recorder.dispatch(lanesKernel(lanes, blocks), { ...params, alpha }, { p, q, out }, grid);
  }
}
