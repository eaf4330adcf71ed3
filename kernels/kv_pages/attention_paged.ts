/** Attention of rows over their sequences' pages, for prefill and decode. The formulas are in the shaders. */

import { defineKernel, type Operands, type TextureUse, type WgslPart } from "../kernel.ts";
import { PAGE_TOKENS } from "../../core/kv_pages.ts";
import { type Recorder, SCRATCH_BYTES } from "../recorder.ts";
import { ceilDiv, expectMultiple, expectShape, ShapeError } from "../shape.ts";
import type { DType, Tensor } from "../tensor.ts";
import { unroll, type UnrollConstants } from "../unroll.ts";
import {
  constantsPart,
  deviceOptions,
  type FormOptions,
  kernelFamily,
  lanesPart,
  wrappedGrid,
} from "../variant.ts";
import { TILES_PARTS } from "../attention/attention.ts";
import { planHeads, planTiles, SPLIT } from "../attention/attention_plan.ts";
import blockLanesWgsl from "../attention/attention_block_lanes.wgsl" with { type: "text" };
import { type AttentionRules, visibilityKey, visibilityParts } from "../attention/visibility.ts";
import ownLanesWgsl from "./attention_paged_own_lanes.wgsl" with { type: "text" };
import sharedLanesWgsl from "./attention_paged_shared_lanes.wgsl" with { type: "text" };
import sharedTilesWgsl from "./attention_paged_shared_tiles.wgsl" with { type: "text" };
import splitsWgsl from "./attention_paged_splits.wgsl" with { type: "text" };
import tokenTilesWgsl from "./attention_paged_token_tiles.wgsl" with { type: "text" };
import tilesWgsl from "./attention_paged_tiles.wgsl" with { type: "text" };
import { expectPages, expectPlaces, NO_SLOT, pageParts } from "./kv_pages.ts";
import pagedRowsWgsl from "./paged_rows.wgsl" with { type: "text" };
import pagedTilesWgsl from "./paged_tiles.wgsl" with { type: "text" };

/** Threads of a workgroup on GPUs that has a single row, and of one that adds splits. */
const TOKEN_THREADS = 128, SPLITS_THREADS = 64;
/** Query heads of a workgroup with a single row: 4 threads find the largest scores of each. */
const MAX_HEADS = 8;
/** The most rows of a tile that share pages. */
export const SHARED_ROWS = 8;
/** With fewer rows of a tile, shared pages, or workgroups for them all, rows by themselves are as fast. */
const LEAST_SHARED = { rows: 4, pages: SPLIT / PAGE_TOKENS, workgroups: 128 };
/** The widest head: a workgroup keeps 8 of them in workgroup memory. */
const MAX_WIDTH = 256;

const PARAMS = { rows: "u32", heads: "u32", kv_heads: "u32", slot_pages: "u32", scale: "f32" } as const;
const INPUTS = ["q", "k_pages", "v_pages", "page_table", "slots", "positions"] as const;

/** What software adapters read through textures: each subgroup reads the pages of its rows. */
const PAGED_TEXTURES: Record<string, TextureUse> = {
  ...{ k_pages: "kept", v_pages: "kept", page_table: 64, slots: 64, positions: 64 },
};

/** The key of a kernel: its template's constants in JSON; window and soft cap of scores, 0 for none. */
type PagedKey = [dtype: DType, constants: string, window: number, soft_cap: number];

/** The parts of a kernel's text. */
function parts(
  files: Readonly<Record<string, string>>,
  [dtype, key, ...visibility]: PagedKey,
): WgslPart[] {
  const constants = JSON.parse(key) as UnrollConstants, { LANES } = constants;
  return [
    ...pageParts(dtype),
    ...visibilityParts(...visibility),
    ...LANES === undefined ? [] : [lanesPart(LANES)],
    ...Object.entries(files).map(([file, template]) => ({
      file,
      text: unroll(template, constants, { block: blockLanesWgsl, ...TILES_PARTS }),
    })),
  ];
}

const sharedLanes = kernelFamily((...key: PagedKey) =>
  defineKernel({
    name: "attention_paged_shared_lanes",
    wgsl: parts({
      "paged_rows.wgsl": pagedRowsWgsl,
      "attention_paged_shared_lanes.wgsl": sharedLanesWgsl,
    }, key),
    params: PARAMS,
    inputs: INPUTS,
    outputs: ["o", "state"],
    textures: { ...PAGED_TEXTURES, q: 1 },
  })
);

const ownLanes = kernelFamily((...key: PagedKey) =>
  defineKernel({
    name: "attention_paged_own_lanes",
    wgsl: parts({
      "paged_rows.wgsl": pagedRowsWgsl,
      "attention_paged_own_lanes.wgsl": ownLanesWgsl,
    }, key),
    params: PARAMS,
    inputs: INPUTS,
    outputs: ["o", "state"],
    // All lanes read the same row of q.
    textures: { ...PAGED_TEXTURES, q: 8 },
  })
);

const tiles = kernelFamily((...key: PagedKey) =>
  defineKernel({
    name: "attention_paged_tiles",
    wgsl: parts({ "paged_tiles.wgsl": pagedTilesWgsl, "attention_paged_tiles.wgsl": tilesWgsl }, key),
    params: PARAMS,
    inputs: INPUTS,
    outputs: ["o"],
  })
);

const tokenTiles = kernelFamily((...key: PagedKey) =>
  defineKernel({
    name: "attention_paged_token_tiles",
    wgsl: parts({ "attention_paged_token_tiles.wgsl": tokenTilesWgsl }, key),
    params: { ...PARAMS, first_row: "u32", part_rows: "u32", splits: "u32", is_shared: "u32" },
    inputs: [...INPUTS, "shared_tokens"],
    outputs: ["parts", "o"],
  })
);

const sharedTiles = kernelFamily((...key: PagedKey) =>
  defineKernel({
    name: "attention_paged_shared_tiles",
    wgsl: parts(
      { "paged_tiles.wgsl": pagedTilesWgsl, "attention_paged_shared_tiles.wgsl": sharedTilesWgsl },
      key,
    ),
    params: { ...PARAMS, first_row: "u32", part_rows: "u32" },
    inputs: [...INPUTS, "shared_tokens", "tiles"],
    outputs: ["parts"],
  })
);

const addSplits = kernelFamily((window: number) =>
  defineKernel({
    name: "attention_paged_splits",
    wgsl: [
      constantsPart({ threads: SPLITS_THREADS, SPLIT }),
      ...visibilityParts(window, 0),
      { file: "attention_paged_splits.wgsl", text: splitsWgsl },
    ],
    params: { first_row: "u32", part_rows: "u32", heads: "u32", vectors: "u32", count: "u32" },
    inputs: ["slots", "positions", "parts"],
    outputs: ["o"],
  })
);

/** Adjacent rows whose slots have the same first pages, of which each is read once for a tile; see {@link planShared}. */
export interface SharedRows {
  /** `[T, 2] u32`: a tile's first row and number of rows, at most {@link SHARED_ROWS}. */
  tiles: Tensor;
  /** `[N] u32`: the tokens of these pages, the same number for all rows of a tile; 0 for a row without a tile. */
  shared_tokens: Tensor;
  /** The least and the greatest number of them among all rows with a slot. */
  range: readonly [least: number, most: number];
}

/** What {@link SharedRows} is made of. */
export interface SharedPlan extends Pick<SharedRows, "range"> {
  tiles: [first: number, rows: number][];
  shared_tokens: number[];
}

/**
 * Plans which adjacent rows of a decode read their common first pages together. A row joins the tile before it if that
 * saves reads.
 *
 * @param pages By row, the pages of its tokens; null for a row without a slot.
 * @param shape heads, kv_heads; width of a head.
 * @param least The fewest rows and common pages of a tile, and the fewest workgroups that are worth a dispatch.
 * @returns Null where rows by themselves are as fast.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * const shape = { heads: 2, kv_heads: 1, width: 64 }, least = { rows: 2, pages: 1, workgroups: 1 };
 * const plan = planShared([[4, 5, 6], [4, 5, 7], [8]], shape, least)!;
 * assert.deepEqual(plan, { tiles: [[0, 2]], shared_tokens: [64, 64, 0], range: [0, 64] });
 * ```
 */
export function planShared(
  pages: readonly (readonly number[] | null)[],
  shape: Omit<PagedShape, "rows" | "slot_pages">,
  least = LEAST_SHARED,
): SharedPlan | null {
  const tiles: SharedPlan["tiles"] = [], shared_tokens = pages.map(() => 0);
  let workgroups = 0;
  for (let first = 0, rows; first < pages.length; first += rows) {
    let count = 0;
    for (rows = 1; rows < SHARED_ROWS; rows++) {
      const common = commonPages(pages[first] ?? [], pages[first + rows] ?? []);
      if (common < least.pages || rows * common < (rows - 1) * count) break;
      count = rows === 1 ? common : Math.min(count, common);
    }
    if (rows === 1 || rows < least.rows) continue;
    tiles.push([first, rows]);
    shared_tokens.fill(count * PAGE_TOKENS, first, first + rows);
    workgroups += ceilDiv(count * PAGE_TOKENS, SPLIT);
  }
  const with_slot = shared_tokens.filter((_, row) => pages[row]);
  const { chunks } = planTiles("shared", { ...shape, rows: 0 }, SHARED_ROWS);
  if (tiles.length === 0 || workgroups * shape.kv_heads * chunks < least.workgroups) return null;
  return { tiles, shared_tokens, range: [Math.min(...with_slot), Math.max(...with_slot)] };
}

/** The number of first pages that are the same. */
function commonPages(a: readonly number[], b: readonly number[]): number {
  const different = a.findIndex((page, i) => page !== b[i]);
  return different === -1 ? a.length : different;
}

/** How rows are computed. Their bits do not depend on it. */
export interface PagedOptions extends FormOptions {
  /** On GPUs, in a decode: which rows share pages. */
  sharing?: SharedRows | null;
  /** On GPUs, of how many rows from the first on neighbours have the same slot, as in a prefill; Infinity: all. Default: none. */
  adjacent?: number;
  /** A number of tokens that no row sees more of; absent: all that a slot's pages hold. */
  tokens?: number;
  /** On software adapters, the rows' slots, where the caller has them: neighbours of one slot need one dispatch less. */
  slots?: readonly number[];
}

/** The tensors of {@link attentionPaged}. */
type PagedAttentionTensors = Operands<ReturnType<typeof sharedLanes>>;

interface PagedShape {
  rows: number;
  heads: number;
  kv_heads: number;
  width: number;
  slot_pages: number;
}

function expectPaged(tensors: PagedAttentionTensors): PagedShape {
  const { kv_heads, width } = expectPages(tensors.k_pages, tensors.v_pages);
  const [rows, heads] = expectShape(tensors.q, "q", 3);
  expectShape(tensors.q, "q", [rows, heads, width]);
  expectShape(tensors.o, "o", [rows, heads, width]);
  expectShape(tensors.state, "state", [rows, heads, 2]);
  expectMultiple(heads, kv_heads, "query heads");
  if (width > MAX_WIDTH) {
    throw new ShapeError(`Cannot use head width ${width}: expected at most ${MAX_WIDTH}`);
  }
  return { rows, heads, kv_heads, width, slot_pages: expectPlaces(tensors, rows) };
}

/**
 * Records `o = softmax(scale · q kᵀ) v` for every row over the tokens 0 … positions[r] of its slot, and of these the
 * last `window`. A row's bits depend only on its slot's tokens. Rows of slot `NO_SLOT` read nothing and get zeros. On
 * software adapters it is fastest when rows that share pages (a prefill's rows, a group's members) are adjacent: {@link
 * deviceOptions}'s `lanes` rows at a time, counted from row 0, load a shared page once.
 *
 * @param tensors q, o `[N, H, D] f32`; k_pages, v_pages `[·, K, 32, D]` f32 or f16; page_table `[S, P] u32`: page p of
 * slot s is `page_table[s, p]`; slots, positions `[N] u32`; state `[N, H, 2] f32`, scratch. H is a multiple of K; D a
 * multiple of 4 up to 256. The pages hold finite numbers.
 * @param rules The factor of scores; window and soft cap if any.
 * @throws {ShapeError} When the shapes do not match.
 * @source Dao, "FlashAttention-2" (2023), algorithm 1; Kwon et al., "PagedAttention" (2023).
 */
export function attentionPaged(
  recorder: Recorder,
  tensors: PagedAttentionTensors,
  rules: AttentionRules,
  options: PagedOptions = {},
): void {
  const shape = expectPaged(tensors);
  const { rows, heads, kv_heads, width, slot_pages } = shape;
  const values = { rows, heads, kv_heads, slot_pages, scale: rules.scale }, visible = visibilityKey(rules);
  const { dtype } = tensors.k_pages, D4 = width / 4;
  const { form, lanes } = { ...deviceOptions(recorder.gpu), ...options };
  if (form === "tiles") {
    const adjacent = Math.min(rows, options.adjacent ?? 0);
    if (adjacent > 0) {
      const { constants, rows: of_tile, chunks } = planTiles("pages", { ...shape, rows: adjacent });
      const kernel = tiles(dtype, JSON.stringify(constants), ...visible), own = { ...values, rows: adjacent };
      recorder.dispatch(kernel, own, tensors, [ceilDiv(adjacent, of_tile), kv_heads * chunks]);
    }
    if (adjacent < rows) recordTokens(recorder, tensors, { rules, shape, ...options, adjacent });
    return;
  }
  const plan = planHeads(recorder.gpu, options, { ...shape, vectors: 2 });
  const y = kv_heads * plan.chunks;
  const CONTINUES = rows > 1 ? 1 : 0;
  if (CONTINUES || lanes === 1) {
    const shared = sharedLanes(dtype, JSON.stringify(plan.constants), ...visible);
    recorder.dispatch(shared, values, tensors, [ceilDiv(rows, plan.rows), y]);
  }
  // A row without lanes beside it finds all of its pages shared.
  if (lanes === 1 || options.slots && sharesAllPages(options.slots, lanes)) return;
  const constants = { ...plan.constants, CHUNKS: ceilDiv(D4, lanes), CONTINUES };
  const own = ownLanes(dtype, JSON.stringify(constants), ...visible);
  recorder.dispatch(own, values, tensors, [ceilDiv(rows, lanes), y, Math.min(rows, lanes)]);
}

/** Whether each row finds all of its pages shared: the rows of every subgroup have one slot, and are more than one. */
function sharesAllPages(slots: readonly number[], lanes: number): boolean {
  for (let first = 0; first < slots.length; first += lanes) {
    const active = slots.slice(first, first + lanes).filter((slot) => slot !== NO_SLOT);
    if (active.length === 1 || active.some((slot) => slot !== active[0])) return false;
  }
  return true;
}

/** Records attention of the rows behind adjacent ones on GPUs, as many at a time as the scratch tensor has room for their splits. */
function recordTokens(
  recorder: Recorder,
  tensors: PagedAttentionTensors,
  { rules, shape, tokens, sharing, adjacent }:
    & { rules: AttentionRules; shape: PagedShape; adjacent: number }
    & PagedOptions,
): void {
  const { rows, heads, kv_heads, width, slot_pages } = shape, D4 = width / 4, group = heads / kv_heads;
  const visible = visibilityKey(rules), chunks = ceilDiv(group, MAX_HEADS), HEADS = ceilDiv(group, chunks);
  const GROUPS = Math.min(HEADS, Math.floor(TOKEN_THREADS / D4));
  const constants = {
    ...{ D4, HEADS, GROUPS, OWN: ceilDiv(HEADS, GROUPS), THREADS: TOKEN_THREADS },
    ...{ BLOCKS: TOKEN_THREADS / PAGE_TOKENS, SPLIT },
  };
  const kernel = tokenTiles(tensors.k_pages.dtype, JSON.stringify(constants), ...visible);
  const whole = ceilDiv(Math.min(tokens ?? Infinity, slot_pages * PAGE_TOKENS), SPLIT);
  const [least, most_shared] = sharing?.range ?? [0, 0], own = whole - Math.floor(least / SPLIT);
  // Shared tokens leave their sums in parts.
  const splits = sharing ? Math.max(2, whole) : whole, row_numbers = splits * heads * (width + 4);
  const parts = splits === 1 ? recorder.empty : recorder.scratch;
  const shared_tokens = sharing?.shared_tokens ?? tensors.positions;
  const most = splits === 1 ? rows : Math.min(rows, Math.max(1, Math.floor(SCRATCH_BYTES / 4 / row_numbers)));
  for (let first_row = adjacent; first_row < rows; first_row += most) {
    const part_rows = Math.min(most, rows - first_row), is_shared = sharing ? 1 : 0;
    const values = { rows, heads, kv_heads, slot_pages, scale: rules.scale, first_row, part_rows };
    if (sharing) {
      const plan = planTiles("shared", shape, SHARED_ROWS);
      const kernel = sharedTiles(tensors.k_pages.dtype, JSON.stringify(plan.constants), ...visible);
      recorder.dispatch(kernel, values, { ...tensors, ...sharing, parts }, [
        sharing.tiles.shape[0]!,
        kv_heads * plan.chunks,
        ceilDiv(most_shared, SPLIT),
      ]);
    }
    recorder.dispatch(kernel, { ...values, splits, is_shared }, { ...tensors, shared_tokens, parts }, [
      part_rows,
      kv_heads * chunks,
      own,
    ]);
    if (splits === 1) continue;
    const count = part_rows * heads * D4, at = { first_row, part_rows, heads, vectors: D4, count };
    const grid = wrappedGrid(ceilDiv(count, SPLITS_THREADS));
    recorder.dispatch(addSplits(visible[0]), at, { ...tensors, parts }, grid);
  }
}
