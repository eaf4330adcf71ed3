/** Attention of rows over their sequences' pages, for prefill and decode. The formulas are in the shaders. */

import { defineKernel, type Operands, type WgslPart } from "../kernel.ts";
import type { Recorder } from "../recorder.ts";
import { ceilDiv, expectMultiple, expectShape, ShapeError } from "../shape.ts";
import type { DType } from "../tensor.ts";
import { unroll, type UnrollConstants } from "../unroll.ts";
import { deviceOptions, type FormOptions, kernelFamily, lanesPart } from "../variant.ts";
import { planHeads } from "../attention/attention_plan.ts";
import blockLanesWgsl from "../attention/attention_block_lanes.wgsl" with { type: "text" };
import { type AttentionRules, visibilityKey, visibilityParts } from "../attention/visibility.ts";
import ownLanesWgsl from "./attention_paged_own_lanes.wgsl" with { type: "text" };
import sharedLanesWgsl from "./attention_paged_shared_lanes.wgsl" with { type: "text" };
import tilesWgsl from "./attention_paged_tiles.wgsl" with { type: "text" };
import { expectPages, expectPlaces, pageParts } from "./kv_pages.ts";
import pagedRowsWgsl from "./paged_rows.wgsl" with { type: "text" };

/** Threads of a workgroup on GPUs. */
const THREADS = 128;
/** Query heads of a workgroup on GPUs: 16 threads reduce the scores of each. */
const MAX_HEADS = THREADS / 16;
/** The widest head: a workgroup keeps 8 of them in workgroup memory. */
const MAX_WIDTH = 256;

const PARAMS = { rows: "u32", heads: "u32", kv_heads: "u32", slot_pages: "u32", scale: "f32" } as const;
const INPUTS = ["q", "k_pages", "v_pages", "page_table", "slots", "positions"] as const;

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
      text: unroll(template, constants, { block: blockLanesWgsl }),
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
  })
);

const tiles = kernelFamily((...key: PagedKey) =>
  defineKernel({
    name: "attention_paged_tiles",
    wgsl: parts({ "attention_paged_tiles.wgsl": tilesWgsl }, key),
    params: PARAMS,
    inputs: INPUTS,
    outputs: ["o"],
  })
);

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
  options: FormOptions = {},
): void {
  const shape = expectPaged(tensors);
  const { rows, heads, kv_heads, width, slot_pages } = shape;
  const values = { rows, heads, kv_heads, slot_pages, scale: rules.scale }, visible = visibilityKey(rules);
  const { dtype } = tensors.k_pages, D4 = width / 4, group = heads / kv_heads;
  const { form, lanes } = { ...deviceOptions(recorder.gpu), ...options };
  if (form === "tiles") {
    const chunks = ceilDiv(group, MAX_HEADS);
    const kernel = tiles(dtype, JSON.stringify({ D4, HEADS: ceilDiv(group, chunks), THREADS }), ...visible);
    recorder.dispatch(kernel, values, tensors, [rows, kv_heads * chunks]);
    return;
  }
  const plan = planHeads(recorder.gpu, options, { ...shape, vectors: 2 });
  const y = kv_heads * plan.chunks;
  const shared = sharedLanes(dtype, JSON.stringify(plan.constants), ...visible);
  recorder.dispatch(shared, values, tensors, [ceilDiv(rows, plan.rows), y]);
  if (lanes === 1) return; // A row without lanes beside it finds all of its pages shared.
  const own = ownLanes(dtype, JSON.stringify({ ...plan.constants, CHUNKS: ceilDiv(D4, lanes) }), ...visible);
  recorder.dispatch(own, values, tensors, [ceilDiv(rows, lanes), y, Math.min(rows, lanes)]);
}
