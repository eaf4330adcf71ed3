/** Plans attention's kernels for a device and a shape of heads. */

import type { Gpu } from "../device.ts";
import { ceilDiv } from "../shape.ts";
import { deviceOptions, type FormOptions, lanesThreads } from "../variant.ts";

/** Rows of a workgroup, and rows that it stages at a time, on GPUs. */
const TILE_ROWS = 32, TILE_KEYS = 8;
/** Heads with more vectors than this stage half as many rows: 8 of them would not fit in 16 KB of workgroup memory. */
const WIDE_HEAD = 32;
/** Threads of a workgroup on GPUs: 128 partial dot products for 8 keys fill 8 KB. */
const TILE_THREADS = 128;
/**
 * Numbers that a lane holds in named registers. More of them would spill, and compile longer than they save in loads.
 */
const LANE_NUMBERS = 512;

/** All values of {@link attentionRowAlignment}: subgroups have a power of two lanes. */
export const ROW_ALIGNMENTS = [1, 4, 8, 16, TILE_ROWS] as const;

/**
 * The alignment of segments in packed rows: the rows that one subgroup or workgroup handles together belong to one
 * segment.
 */
export function attentionRowAlignment(gpu: Gpu, options: FormOptions = {}): number {
  const { form, lanes } = { ...deviceOptions(gpu), ...options };
  return form === "tiles" ? TILE_ROWS : lanes;
}

/** The constants of a template, and the number of workgroups that share its rows. */
export interface AttentionPlan {
  constants: Record<string, number>;
  /** Rows (or keys) of a workgroup. */
  rows: number;
  /** Workgroups for the query heads of one key/value head. */
  chunks: number;
}

/**
 * The plan of a kernel whose threads own rows.
 *
 * @param shape `vectors`: the number of head-sized vectors that a lane holds for each head.
 */
export function planHeads(
  gpu: Gpu,
  options: FormOptions,
  shape: HeadsShape & { vectors: number },
): AttentionPlan {
  const { form, lanes } = { ...deviceOptions(gpu), ...options };
  const { width, heads, kv_heads, vectors } = shape;
  const group = heads / kv_heads;
  const chunksOf = (most: number) => ceilDiv(group, Math.max(1, Math.floor(most)));
  if (form === "tiles") {
    const tile = planTile(width);
    const chunks = chunksOf(TILE_THREADS / (TILE_ROWS * tile.PARTS));
    const HEADS = ceilDiv(group, chunks);
    const THREADS = HEADS * TILE_ROWS * tile.PARTS;
    return { constants: { ...tile, HEADS, THREADS }, rows: TILE_ROWS, chunks };
  }
  const chunks = chunksOf(LANE_NUMBERS / (vectors * width));
  const THREADS = lanesThreads(lanes);
  const constants = { D4: width / 4, HEADS: ceilDiv(group, chunks), LANES: lanes, THREADS };
  return { constants, rows: THREADS, chunks };
}

/** The plan of the kernel whose threads own keys. */
export function planKeys(gpu: Gpu, options: FormOptions, { width }: HeadsShape): AttentionPlan {
  const { form, lanes } = { ...deviceOptions(gpu), ...options };
  if (form === "tiles") {
    const tile = planTile(width);
    return { constants: { ...tile, THREADS: TILE_ROWS * tile.PARTS }, rows: TILE_ROWS, chunks: 1 };
  }
  // Two keys in a lane halve the loads of rows; k, v, d_k and d_v of more keys would not fit in registers.
  const KEYS = Math.max(1, Math.min(2, Math.floor(LANE_NUMBERS / (4 * width))));
  const THREADS = lanesThreads(lanes);
  return { constants: { D4: width / 4, KEYS, LANES: lanes, THREADS }, rows: THREADS * KEYS, chunks: 1 };
}

/** Splits a head between PARTS threads, so that each holds at most 8 of its vectors. */
function planTile(width: number): { D4: number; PARTS: number; CHUNKS: number; ROWS: number; KEYS: number } {
  const D4 = width / 4;
  let PARTS = ceilDiv(D4, 8);
  while (D4 % PARTS !== 0) PARTS++;
  return { D4, PARTS, CHUNKS: D4 / PARTS, ROWS: TILE_ROWS, KEYS: D4 > WIDE_HEAD ? TILE_KEYS / 2 : TILE_KEYS };
}

export interface HeadsShape {
  rows: number;
  heads: number;
  kv_heads: number;
  width: number;
}
