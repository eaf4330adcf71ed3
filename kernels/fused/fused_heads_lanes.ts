/** What follows the projections of queries, keys and values on software adapters. */

import { defineKernel } from "../kernel.ts";
import { PAGE_TEXTURES, pageParts } from "../kv_pages/kv_pages.ts";
import type { Recorder } from "../recorder.ts";
import type { RopePairing } from "../rope/rope.ts";
import { ceilDiv, expectShape } from "../shape.ts";
import type { DType, Tensor } from "../tensor.ts";
import { constantsPart, itemPart, kernelFamily, wrappedGrid } from "../variant.ts";
import { type FusedHeadsTensors, headOperands, indexed, segmentParams } from "./fused.ts";
import headsLanesWgsl from "./fused_heads_lanes.wgsl" with { type: "text" };

const THREADS = 32;

/** Rows from which q, k and v have a dispatch each: one for all three does the work of each for all. */
const ROWS_BY_PART = 64;

/** What a dispatch is for, in the order of the shader's `PART`. */
const PARTS = ["q", "k", "v", "all"] as const;
type Part = typeof PARTS[number];

const headsLanesKernel = kernelFamily((
  part: Part,
  pairing: RopePairing | "",
  biases: 0 | 1,
  dtype: DType,
) =>
  defineKernel({
    name: `fused_heads_lanes_${part}`,
    wgsl: [
      constantsPart({
        ...{ threads: THREADS, PART: PARTS.indexOf(part), has_bias: biases === 1 },
        ...{ rotates: pairing !== "", adjacent: pairing === "adjacent" },
      }),
      ...pageParts(dtype),
      itemPart(4),
      { file: "fused_heads_lanes.wgsl", text: headsLanesWgsl },
    ],
    params: {
      ...{ rows: "u32", items: "u32" },
      ...segmentParams(["heads", "bias", "gamma"], 3),
      ...{ width: "u32", eps: "f32" },
    },
    inputs: ["k", "v", "vectors", "cosines", "sines", "places"],
    outputs: ["q", "k_pages", "v_pages"],
    textures: {
      // Also in a part without pages: what counts as written and is not stored would be copied whole.
      ...PAGE_TEXTURES,
      ...part === "all" ? { q: 2, k: 2, v: 2 } : { [part]: 2 },
      vectors: "kept",
      cosines: "kept",
      sines: "kept",
    },
  })
);

/**
 * Records what `fusedHeads` does, on a software adapter and from the projections themselves with their low-rank terms: q
 * holds its own, and k and v `[N, K, D] f32` those of keys and values.
 *
 * @param options.has_queries Whether queries are finished too; otherwise q only gives their shape.
 * @throws {ShapeError} When shapes do not belong together.
 */
export function fusedHeadsLanes(
  recorder: Recorder,
  { k, v, ...tensors }: FusedHeadsTensors & { k: Tensor; v: Tensor },
  eps: number,
  { has_queries = true }: { has_queries?: boolean } = {},
): void {
  const heads = headOperands(recorder, tensors),
    { rows, width, query_heads: H, kv_heads: K, rotates } = heads;
  for (const [name, tensor] of Object.entries({ k, v })) expectShape(tensor, name, [rows, K, width]);
  const values = Object.assign({}, ...heads.segments.map((head, s) => indexed(head, s)));
  const biases = tensors.heads.some(({ bias }) => bias !== null) ? 1 : 0;
  const keys_values: [Part, number][] = [["k", K], ["v", K]], all: [Part, number] = ["all", H + 2 * K];
  const with_queries: [Part, number][] = rows < ROWS_BY_PART ? [all] : [["q", H], ...keys_values];
  const parts = has_queries ? with_queries : keys_values;
  for (const [part, count] of parts) {
    recorder.dispatch(
      headsLanesKernel(part, rotates ? heads.pairing : "", biases, tensors.k_pages.dtype),
      { rows, items: width / 4, ...values, width, eps },
      { k, v, ...heads.operands },
      wrappedGrid(ceilDiv(rows * count, THREADS)),
    );
  }
}
