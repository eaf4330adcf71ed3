/** Attention over packed rows, forward and backward, without an N × N matrix. The formulas are in the shaders. */

import { defineKernel, type Operands, type WgslPart } from "../kernel.ts";
import type { Recorder } from "../recorder.ts";
import { ceilDiv, expectMultiple, expectShape, ShapeError } from "../shape.ts";
import { unroll, type UnrollConstants } from "../unroll.ts";
import { constantsPart, deviceOptions, type FormOptions, kernelFamily, lanesPart } from "../variant.ts";
import blockLanesWgsl from "./attention_block_lanes.wgsl" with { type: "text" };
import backwardKeyLanesWgsl from "./attention_backward_key_lanes.wgsl" with { type: "text" };
import backwardKeyTilesWgsl from "./attention_backward_key_tiles.wgsl" with { type: "text" };
import backwardQueryLanesWgsl from "./attention_backward_query_lanes.wgsl" with { type: "text" };
import backwardQueryTilesWgsl from "./attention_backward_query_tiles.wgsl" with { type: "text" };
import {
  type HeadsShape,
  planHeads,
  planKeyParts,
  planKeys,
  planTiles,
  TILE_ROWS,
} from "./attention_plan.ts";
import deltaWgsl from "./attention_delta.wgsl" with { type: "text" };
import forwardLanesWgsl from "./attention_forward_lanes.wgsl" with { type: "text" };
import keyPartsWgsl from "./attention_key_parts.wgsl" with { type: "text" };
import productsTilesWgsl from "./attention_products_tiles.wgsl" with { type: "text" };
import softmaxTilesWgsl from "./attention_softmax_tiles.wgsl" with { type: "text" };
import sumsTilesWgsl from "./attention_sums_tiles.wgsl" with { type: "text" };
import splitTilesWgsl from "./attention_split_tiles.wgsl" with { type: "text" };
import forwardTilesWgsl from "./attention_forward_tiles.wgsl" with { type: "text" };
import { view } from "../tensor.ts";
import { type AttentionRules, visibilityKey, visibilityParts } from "./visibility.ts";

/** The widest head: a wider one would need more threads for a row than a workgroup has. */
export const MAX_HEAD_WIDTH = 256;

/** The divisor of a head's width: threads that share a head have equally many of its vectors, at most 8. */
export function headWidthStep(width: number): number {
  return width <= 32 ? 4 : width <= 128 ? 16 : 64;
}

const DELTA_THREADS = 64, PARTS_THREADS = 64;

const PARAMS = { rows: "u32", heads: "u32", kv_heads: "u32", scale: "f32" } as const;
const BACKWARD_INPUTS = ["q", "k", "v", "rows", "lse", "d_o", "delta"] as const;

/** The key of a kernel: its template's constants in JSON; window and soft cap of scores, 0 for none. */
type AttentionKey = [constants: string, window: number, soft_cap: number];

/** The texts that the kernels for GPUs share. */
export const TILES_PARTS = {
  products: productsTilesWgsl,
  softmax: softmaxTilesWgsl,
  split: splitTilesWgsl,
  sums: sumsTilesWgsl,
};

/** The parts for visibility and lanes, then the text of a pass in the form of the constants. */
function parts(
  { name, lanes, tiles }: { name: string; lanes: string; tiles: string },
  [key, ...visibility]: AttentionKey,
): WgslPart[] {
  const constants = JSON.parse(key) as UnrollConstants, { LANES } = constants;
  const own = LANES === undefined
    ? [{ file: `${name}_tiles.wgsl`, text: unroll(tiles, constants, TILES_PARTS) }]
    : [lanesPart(LANES), {
      file: `${name}_lanes.wgsl`,
      text: unroll(lanes, constants, { block: blockLanesWgsl }),
    }];
  return [...visibilityParts(...visibility), ...own];
}

/** Whether a kernel is the one for software adapters. */
function isLanes([key]: AttentionKey): boolean {
  return "LANES" in (JSON.parse(key) as UnrollConstants);
}

const forward = kernelFamily((...key: AttentionKey) => {
  const name = "attention_forward";
  return defineKernel({
    name,
    wgsl: parts({ name, lanes: forwardLanesWgsl, tiles: forwardTilesWgsl }, key),
    params: PARAMS,
    inputs: ["q", "k", "v", "rows"],
    outputs: ["o", "lse"],
    ...isLanes(key) && { textures: { q: 1, k: 64, v: 64 } },
  });
});

const delta = defineKernel({
  name: "attention_delta",
  wgsl: deltaWgsl,
  params: { count: "u32", width: "u32" },
  inputs: ["o", "d_o"],
  outputs: ["delta"],
  textures: { o: 1, d_o: 1 },
});

const backwardQuery = kernelFamily((...key: AttentionKey) => {
  const name = "attention_backward_query";
  return defineKernel({
    name,
    wgsl: parts({ name, lanes: backwardQueryLanesWgsl, tiles: backwardQueryTilesWgsl }, key),
    params: PARAMS,
    inputs: BACKWARD_INPUTS,
    outputs: ["d_q"],
    ...isLanes(key) && { textures: { q: 1, d_o: 1, k: 64, v: 64 } },
  });
});

const BACKWARD_KEY = {
  name: "attention_backward_key",
  lanes: backwardKeyLanesWgsl,
  tiles: backwardKeyTilesWgsl,
};

const backwardKeyLanes = kernelFamily((...key: AttentionKey) =>
  defineKernel({
    name: BACKWARD_KEY.name,
    wgsl: parts(BACKWARD_KEY, key),
    params: PARAMS,
    inputs: BACKWARD_INPUTS,
    outputs: ["d_k", "d_v"],
    textures: { k: 1, v: 1, q: 64, d_o: 64, lse: 64, delta: 64, rows: 64 },
  })
);

const backwardKeyTiles = kernelFamily((...key: AttentionKey) =>
  defineKernel({
    name: BACKWARD_KEY.name,
    wgsl: parts(BACKWARD_KEY, key),
    params: { ...PARAMS, first_key: "u32", out_rows: "u32", part: "u32" },
    inputs: BACKWARD_INPUTS,
    outputs: ["d_k", "d_v"],
  })
);

const keyParts = defineKernel({
  name: "attention_key_parts",
  wgsl: [constantsPart({ ROWS: TILE_ROWS, threads: PARTS_THREADS }), {
    file: "attention_key_parts.wgsl",
    text: keyPartsWgsl,
  }],
  params: { rows: "u32", first_key: "u32", out_rows: "u32", part: "u32", size: "u32" },
  inputs: ["rows", "parts_k", "parts_v"],
  outputs: ["d_k", "d_v"],
});

function expectHeads(q: Operands<ReturnType<typeof forward>>["q"], k: typeof q, spans: typeof q): HeadsShape {
  const [rows, heads, width] = expectShape(q, "q", 3);
  const [, kv_heads] = expectShape(k, "k", 3);
  expectShape(k, "k", [rows, kv_heads, width]);
  expectShape(spans, "rows", [rows, 4]);
  expectMultiple(heads, kv_heads, "query heads");
  expectMultiple(width, headWidthStep(width), "head width");
  if (width > MAX_HEAD_WIDTH) {
    throw new ShapeError(`Cannot use head width ${width}: expected at most ${MAX_HEAD_WIDTH}`);
  }
  if (spans.dtype !== "u32") throw new ShapeError(`Cannot use rows of ${spans.dtype}: expected u32`);
  return { rows, heads, kv_heads, width };
}

/**
 * Records `o = softmax(soft_cap(scale · q kᵀ)) v` over the keys that each row sees: its prefix, then its own segment up
 * to itself, and of these the last `window`. A row's bits depend on its keys only, not on the position of its segment
 * nor on other rows.
 *
 * @param tensors q, o `[N, H, D] f32`; k, v `[N, K, D] f32`; rows `[N, 4] u32`, see `packRows`; lse `[N, H] f32`, the
 * logarithm of the softmax's denominator, which the backward pass needs. H is a multiple of K; D a multiple of 4 up to
 * 32, of 16 up to 128 and of 64 up to 256. Segments start at multiples of `attentionRowAlignment`. All rows hold
 * finite numbers, including padding.
 * @param rules The factor of scores; window and soft cap if any.
 * @throws {ShapeError} When the shapes do not match.
 * @source Dao, "FlashAttention-2" (2023), algorithm 1.
 */
export function attentionForward(
  recorder: Recorder,
  tensors: Operands<ReturnType<typeof forward>>,
  rules: AttentionRules,
  options: FormOptions = {},
): void {
  const shape = expectHeads(tensors.q, tensors.k, tensors.rows);
  const { rows, heads, kv_heads, width } = shape;
  expectShape(tensors.v, "v", [rows, kv_heads, width]);
  expectShape(tensors.o, "o", [rows, heads, width]);
  expectShape(tensors.lse, "lse", [rows, heads]);
  const plan = isTiled(recorder, options)
    ? planTiles("forward", shape)
    : planHeads(recorder.gpu, options, { ...shape, vectors: 2 });
  const kernel = forward(JSON.stringify(plan.constants), ...visibilityKey(rules));
  const grid = [ceilDiv(rows, plan.rows), kv_heads * plan.chunks] as const;
  recorder.dispatch(kernel, { rows, heads, kv_heads, scale: rules.scale }, tensors, grid);
}

/** The tensors of {@link attentionBackward}. */
type AttentionGradients =
  & Operands<typeof delta>
  & Operands<ReturnType<typeof backwardQuery>>
  & Operands<ReturnType<typeof backwardKeyLanes>>;

/**
 * Records the gradients of {@link attentionForward} with respect to q, k and v; overwrites all outputs.
 *
 * @param tensors q, o, d_o, d_q `[N, H, D] f32`; k, v, d_k, d_v `[N, K, D] f32`; rows `[N, 4] u32`; lse `[N, H] f32`
 * from the forward pass; delta `[N, H] f32`, which the first dispatch writes.
 * @throws {ShapeError} When the shapes do not match.
 * @source Dao, "FlashAttention-2" (2023), algorithm 2.
 */
export function attentionBackward(
  recorder: Recorder,
  tensors: AttentionGradients,
  rules: AttentionRules,
  options: FormOptions = {},
): void {
  const shape = expectHeads(tensors.q, tensors.k, tensors.rows);
  const { rows, heads, kv_heads, width } = shape;
  for (const name of ["v", "d_k", "d_v"] as const) expectShape(tensors[name], name, [rows, kv_heads, width]);
  for (const name of ["o", "d_o", "d_q"] as const) expectShape(tensors[name], name, [rows, heads, width]);
  for (const name of ["lse", "delta"] as const) expectShape(tensors[name], name, [rows, heads]);
  const count = rows * heads;
  recorder.dispatch(delta, { count, width: width / 4 }, tensors, [ceilDiv(count, DELTA_THREADS)]);
  const values = { rows, heads, kv_heads, scale: rules.scale }, visible = visibilityKey(rules);
  const tiled = isTiled(recorder, options);
  const query = tiled
    ? planTiles("query", shape)
    : planHeads(recorder.gpu, options, { ...shape, vectors: 4 });
  const query_grid = [ceilDiv(rows, query.rows), kv_heads * query.chunks] as const;
  recorder.dispatch(backwardQuery(JSON.stringify(query.constants), ...visible), values, tensors, query_grid);
  if (tiled) return recordKeyTiles(recorder, tensors, { rules, shape });
  const key = planKeys(recorder.gpu, options, shape);
  const key_grid = [ceilDiv(rows, key.rows), kv_heads] as const;
  recorder.dispatch(backwardKeyLanes(JSON.stringify(key.constants), ...visible), values, tensors, key_grid);
}

/** Records the gradients of keys and values on GPUs: as many keys at a time as the scratch tensor has room for their parts. */
function recordKeyTiles(
  recorder: Recorder,
  tensors: AttentionGradients,
  { rules, shape }: { rules: AttentionRules; shape: HeadsShape },
): void {
  const { rows, heads, kv_heads, width } = shape, values = { rows, heads, kv_heads, scale: rules.scale };
  const plan = planTiles("key", shape), { parts, part, keys } = planKeyParts(shape);
  const kernel = backwardKeyTiles(JSON.stringify(plan.constants), ...visibilityKey(rules));
  for (let first_key = 0; first_key < rows; first_key += keys) {
    const out_rows = Math.min(keys, rows - first_key), at = { rows, first_key, out_rows, part };
    const grid = [ceilDiv(out_rows, TILE_ROWS), kv_heads * plan.chunks, parts] as const;
    if (parts === 1) {
      recorder.dispatch(kernel, { ...values, ...at }, tensors, grid);
      continue;
    }
    // Of all keys that have room, so that rows in as many parts cost no new bind group.
    const { scratch } = recorder, dims = [parts, keys, kv_heads, width];
    const parts_k = view(scratch, dims), parts_v = view(scratch, dims, parts * keys * kv_heads * width);
    recorder.dispatch(kernel, { ...values, ...at }, { ...tensors, d_k: parts_k, d_v: parts_v }, grid);
    const size = kv_heads * width / 4;
    recorder.dispatch(keyParts, { ...at, size }, { ...tensors, parts_k, parts_v }, [
      grid[0],
      ceilDiv(TILE_ROWS * size, PARTS_THREADS),
    ]);
  }
}

function isTiled({ gpu }: Recorder, options: FormOptions): boolean {
  return ({ ...deviceOptions(gpu), ...options }).form === "tiles";
}
