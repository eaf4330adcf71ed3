/** Plans attention's kernels for a device and a shape of heads. */

import type { Gpu } from "../device.ts";
import { SCRATCH_BYTES } from "../recorder.ts";
import { ceilDiv, roundUp } from "../shape.ts";
import { deviceOptions, type FormOptions, lanesThreads } from "../variant.ts";

/** Rows, or keys, of a workgroup on GPUs. */
export const TILE_ROWS = 32;
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
 * The plan of a kernel for software adapters whose lanes own rows.
 *
 * @param shape `vectors`: the number of head-sized vectors that a lane holds for each head.
 */
export function planHeads(
  gpu: Gpu,
  options: FormOptions,
  shape: HeadsShape & { vectors: number },
): AttentionPlan {
  const { lanes } = { ...deviceOptions(gpu), ...options };
  const { width, heads, kv_heads, vectors } = shape;
  const group = heads / kv_heads;
  const chunks = ceilDiv(group, Math.max(1, Math.floor(LANE_NUMBERS / (vectors * width))));
  const THREADS = lanesThreads(lanes);
  const constants = { D4: width / 4, HEADS: ceilDiv(group, chunks), LANES: lanes, THREADS };
  return { constants, rows: THREADS, chunks };
}

/** The passes of the kernels for GPUs. */
export type TilesPass = "forward" | "pages" | "shared" | "query" | "key";

/** Vectors of a block in the form `tiles`. */
const BLOCK = 32;
/** Keys whose sums the form `tiles` computes by themselves. */
export const SPLIT = 256;

/**
 * Threads that share 4 rows of a pass, by the vectors of a head. More of them hold less of the sums and of a block's
 * scores, so that nothing spills; fewer load less from workgroup memory for each multiply-add.
 */
function sharers(pass: TilesPass, D4: number): number {
  if (pass === "key" || pass === "shared") return 16;
  return D4 <= 16 || pass === "forward" && D4 <= 32 ? 8 : 16;
}

/** Widths in vectors from which the sums of keys and of values are split between two workgroups. */
const SLICED_HEAD = 32;

/** The plan of a kernel for GPUs: workgroups of `rows` rows, or keys. */
export function planTiles(
  pass: TilesPass,
  { width, heads, kv_heads }: HeadsShape,
  rows = TILE_ROWS,
): AttentionPlan {
  const D4 = width / 4, group = pass === "key" ? 1 : heads / kv_heads, KG = sharers(pass, D4);
  const chunks = ceilDiv(group, Math.max(1, Math.floor((KG === 16 ? 32 : 64) / rows)));
  // Loops over what is staged have no rest with a power of two.
  const HEADS = 2 ** Math.ceil(Math.log2(ceilDiv(group, chunks))),
    G = HEADS * rows / 4,
    THREADS = G * KG,
    KT = BLOCK / KG;
  // Vectors of the dimension that are staged at a time.
  let CW = Math.min(D4, 8);
  while (D4 % CW !== 0) CW--;
  // Rows of a stage of values, which have KG vectors each.
  const VK = KG === 16 ? 16 : BLOCK, SLICES = pass === "key" && D4 > SLICED_HEAD ? 2 : 1;
  // Groups of 8 threads, which load a row at a time.
  const LOADERS = THREADS / 8;
  const constants = {
    ...{ D4, ROWS: rows, HEADS, G, KG, KT, THREADS, LOADERS, CW, SPLIT, SLICES },
    ...{ V_STAGES: ceilDiv(ceilDiv(D4, SLICES), KG), V_HALVES: BLOCK / VK, VE: VK / 4, V_LANES: KG / 8 },
    ...{ Q_LOADS: 4 * G / LOADERS, K_LOADS: BLOCK / LOADERS, V_LOADS: VK / LOADERS },
    ...{ PASSES: pass === "key" || pass === "query" ? 2 : 1, ACCS: pass === "key" ? 2 : 1 },
  };
  return { constants, rows, chunks: pass === "key" ? SLICES : chunks };
}

/** How the rows that see a tile of keys are divided between workgroups. */
export interface KeyParts {
  /** The most parts of a tile. */
  parts: number;
  /** Rows of a part, counted from the tile's first key. */
  part: number;
  /** The most keys of a dispatch: their parts fit into the scratch tensor. */
  keys: number;
}

/** Rows of a part at least, so that its work outweighs its sums, and the most parts. */
const PART_ROWS = 256, MAX_PARTS = 8;

/** Divides the rows of a packing for the gradients of keys and values on GPUs. */
export function planKeyParts({ rows, kv_heads, width }: HeadsShape): KeyParts {
  const parts = Math.min(MAX_PARTS, ceilDiv(rows, PART_ROWS)),
    part = roundUp(ceilDiv(rows, parts), TILE_ROWS);
  if (parts === 1) return { parts, part, keys: rows };
  const key_bytes = 2 * 4 * parts * kv_heads * width;
  return { parts, part, keys: Math.floor(SCRATCH_BYTES / key_bytes / TILE_ROWS) * TILE_ROWS };
}

/** The plan of the kernel for software adapters whose lanes own keys. */
export function planKeys(gpu: Gpu, options: FormOptions, { width }: HeadsShape): AttentionPlan {
  const { lanes } = { ...deviceOptions(gpu), ...options };
  // Two keys in a lane halve the loads of rows; k, v, d_k and d_v of more keys would not fit in registers.
  const KEYS = Math.max(1, Math.min(2, Math.floor(LANE_NUMBERS / (4 * width))));
  const THREADS = lanesThreads(lanes);
  return { constants: { D4: width / 4, KEYS, LANES: lanes, THREADS }, rows: THREADS * KEYS, chunks: 1 };
}

export interface HeadsShape {
  rows: number;
  heads: number;
  kv_heads: number;
  width: number;
}
