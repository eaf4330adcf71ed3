/** Gradients of LoRA factors: a product of a wide and a narrow matrix, summed over rows. */

import { assert } from "../../core/errors.ts";
import { defineKernel, type WgslPart } from "../kernel.ts";
import type { Recorder } from "../recorder.ts";
import { ceilDiv, elementCount, expectMultiple, expectShape, roundUp, ShapeError } from "../shape.ts";
import type { Tensor } from "../tensor.ts";
import { unroll } from "../unroll.ts";
import {
  deviceOptions,
  type FormOptions,
  kernelFamily,
  type KernelForm,
  lanesPart,
  wrappedGrid,
} from "../variant.ts";
import lanesWgsl from "./lora_gradient_lanes.wgsl" with { type: "text" };
import reduceWgsl from "./lora_gradient_reduce.wgsl" with { type: "text" };
import singleWgsl from "./lora_gradient_single.wgsl" with { type: "text" };
import tilesWgsl from "./lora_gradient_tiles.wgsl" with { type: "text" };

/** Columns of a lane, in vec4s, and the most ranks of a subgroup: 32 sums of four fill a CPU's registers. */
const LANE_TILES = 2;
const LANE_RANKS = 16;
/** Rows of a round of its loop, which costs an instruction for each sum besides what it computes. */
const LANE_ROUND = 4;
/** Rows that a GPU's workgroup loads into shared memory at once. */
const TILE_ROWS = 16;
/** This many workgroups fill a GPU; a part with fewer rows is not worth its partial sums. */
const WANTED_GROUPS = 512;
const MIN_PART_ROWS = 64;

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

const tilesKernel = defineKernel({
  name: "lora_gradient_tiles",
  wgsl: unroll(tilesWgsl, {}),
  params: {
    rows: "u32",
    part_rows: "u32",
    columns: "u32",
    q_stride: "u32",
    q_offset: "u32",
    rank: "u32",
    column_stride: "u32",
    rank_stride: "u32",
    count: "u32",
  },
  inputs: ["p", "q"],
  outputs: ["partials"],
});

const reduceKernel = defineKernel({
  name: "lora_gradient_reduce",
  wgsl: reduceWgsl,
  params: { count: "u32", parts: "u32", alpha: "f32" },
  inputs: ["partials"],
  outputs: ["out"],
});

/** The number of f32 elements of `partials` for {@link loraGradient} with up to `rows` rows; 0 when it needs none. */
export function loraGradientPartials(
  { rows, columns, rank }: { rows: number; columns: number; rank: number },
  form: KernelForm,
): number {
  return form === "tiles" ? split(rows, columns, rank).wanted * columns * rank : 0;
}

/** How the rows are split. It depends only on the shapes, so that the sum has the same bits in every run. */
function split(rows: number, columns: number, rank: number) {
  const tiles = ceilDiv(columns, 64) * ceilDiv(rank, 16);
  const wanted = Math.max(1, Math.min(ceilDiv(WANTED_GROUPS, tiles), Math.floor(rows / MIN_PART_ROWS)));
  const part_rows = roundUp(ceilDiv(rows, wanted), TILE_ROWS);
  return { wanted, part_rows, parts: ceilDiv(rows, part_rows) };
}

/** The tensors of {@link loraGradient}. */
export interface LoraGradientTensors {
  /** `[M, P] f32`, P a multiple of 4. */
  p: Tensor;
  /** `[M, stride] f32`; R columns from `q_offset` on are read. */
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
 * @throws {ShapeError} When the shapes do not match or P is not a multiple of 4.
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
  const rank = expectShape(out, "out", 2)[order === "column_rank" ? 1 : 0];
  expectShape(out, "out", order === "column_rank" ? [width, rank] : [rank, width]);
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
    const { part_rows, parts } = split(rows, width, rank), count = width * rank;
    assert(
      elementCount(partials.shape) >= parts * count,
      `partials of lora_gradient hold ${parts * count} elements`,
    );
    const grid = [ceilDiv(width, 64), ceilDiv(rank, 16), parts] as const;
    recorder.dispatch(tilesKernel, { ...params, part_rows, count }, { p, q, partials }, grid);
    recorder.dispatch(
      reduceKernel,
      { count, parts, alpha },
      { partials, out },
      wrappedGrid(ceilDiv(count, 64)),
    );
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
