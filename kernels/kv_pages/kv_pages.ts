/** The key/value cache in pages, one layer at a time: writing rows into pages and copying pages. */

import { PAGE_TOKENS } from "../../core/kv_pages.ts";
import { defineKernel, type Operands, type WgslPart } from "../kernel.ts";
import type { Recorder } from "../recorder.ts";
import { ceilDiv, expectMultiple, expectShape, ShapeError } from "../shape.ts";
import type { DType, Tensor } from "../tensor.ts";
import { constantsPart, kernelFamily, wrappedGrid } from "../variant.ts";
import copyPageWgsl from "./kv_copy_page.wgsl" with { type: "text" };
import placesWgsl from "./kv_places.wgsl" with { type: "text" };
import roundWgsl from "./kv_round.wgsl" with { type: "text" };
import writeWgsl from "./kv_write.wgsl" with { type: "text" };
import pageF16Wgsl from "./page_f16.wgsl" with { type: "text" };
import pageF32Wgsl from "./page_f32.wgsl" with { type: "text" };

/** The slot of a row without a sequence: it reads and writes no page. */
export const NO_SLOT = 0xffffffff;

const THREADS = 64;

/** The WGSL that defines `PAGE_TOKENS`, and packs and unpacks a page's numbers. */
export function pageParts(dtype: DType): WgslPart[] {
  const numbers = dtype === "f16"
    ? { file: "page_f16.wgsl", text: pageF16Wgsl }
    : { file: "page_f32.wgsl", text: pageF32Wgsl };
  return [constantsPart({ PAGE_TOKENS }), numbers];
}

/** Attention reads pages on a software adapter through textures, so whoever writes a page writes its texture too. */
export const PAGE_TEXTURES = { k_pages: "stored", v_pages: "stored" } as const;

const write = kernelFamily((dtype: DType) =>
  defineKernel({
    name: "kv_write",
    wgsl: [...pageParts(dtype), { file: "kv_write.wgsl", text: writeWgsl }],
    params: { count: "u32", kv_heads: "u32", slot_pages: "u32", width: "u32" },
    inputs: ["k", "v", "page_table", "slots", "positions"],
    outputs: ["k_pages", "v_pages"],
    textures: PAGE_TEXTURES,
  })
);

const placesKernel = kernelFamily(() =>
  defineKernel({
    name: "kv_places",
    wgsl: [constantsPart({ PAGE_TOKENS }), { file: "kv_places.wgsl", text: placesWgsl }],
    params: { rows: "u32", kv_heads: "u32", slot_pages: "u32" },
    inputs: ["page_table", "slots", "positions"],
    outputs: ["places"],
  })
);

const copyPage = kernelFamily((dtype: DType) =>
  defineKernel({
    name: "kv_copy_page",
    wgsl: [...pageParts(dtype), { file: "kv_copy_page.wgsl", text: copyPageWgsl }],
    params: { count: "u32", kv_heads: "u32", width: "u32" },
    inputs: ["copies"],
    outputs: ["k_pages", "v_pages"],
    textures: PAGE_TEXTURES,
  })
);

const round = kernelFamily((dtype: DType) =>
  defineKernel({
    name: "kv_round",
    wgsl: [...pageParts(dtype), { file: "kv_round.wgsl", text: roundWgsl }],
    params: { count: "u32" },
    inputs: [],
    outputs: ["k", "v"],
  })
);

/**
 * Checks a layer's pages and returns their heads and width.
 *
 * @throws {ShapeError} Unless both are `[pages, K, 32, D]` in f32 or both in f16.
 */
export function expectPages(k_pages: Tensor, v_pages: Tensor): { kv_heads: number; width: number } {
  const [pages = 0, kv_heads = 0, , width = 0] = k_pages.shape;
  expectShape(k_pages, "k_pages", [pages, kv_heads, PAGE_TOKENS, width]);
  expectShape(v_pages, "v_pages", k_pages.shape);
  expectMultiple(width, 4, "head width");
  const { dtype } = k_pages;
  if (dtype !== "f32" && dtype !== "f16") {
    throw new ShapeError(`Cannot use k_pages of ${dtype}: expected f32 or f16`);
  }
  if (v_pages.dtype !== dtype) {
    throw new ShapeError(`Cannot use v_pages of ${v_pages.dtype}: expected ${dtype}`);
  }
  return { kv_heads, width };
}

/** Checks the tensors with the rows' positions and returns the number of pages in a slot. @throws {ShapeError} */
export function expectPlaces(
  tensors: { page_table: Tensor; slots: Tensor; positions: Tensor },
  rows: number,
): number {
  const [, slot_pages] = expectShape(tensors.page_table, "page_table", 2);
  for (const name of ["slots", "positions"] as const) expectShape(tensors[name], name, [rows]);
  for (const name of ["page_table", "slots", "positions"] as const) {
    const { dtype } = tensors[name];
    if (dtype !== "u32") throw new ShapeError(`Cannot use ${name} of ${dtype}: expected u32`);
  }
  return slot_pages;
}

/**
 * Records the writing of keys and values into their pages: row r becomes token `positions[r]` of slot `slots[r]`, in
 * page `page_table[slots[r], positions[r] / 32]`. Rows of slot {@link NO_SLOT} write nothing.
 *
 * @param tensors k, v `[N, K, D] f32`; page_table `[S, P] u32`; slots, positions `[N] u32`; k_pages, v_pages `[·, K,
 * 32, D]` f32 or f16, in which only the rows' entries change. No two active rows share an entry.
 * @throws {ShapeError} When the shapes do not match.
 */
export function kvWrite(recorder: Recorder, tensors: Operands<ReturnType<typeof write>>): void {
  const { kv_heads, width } = expectPages(tensors.k_pages, tensors.v_pages);
  const [rows] = expectShape(tensors.k, "k", 3);
  for (const name of ["k", "v"] as const) expectShape(tensors[name], name, [rows, kv_heads, width]);
  const slot_pages = expectPlaces(tensors, rows);
  const count = rows * kv_heads * width / 4;
  const params = { count, kv_heads, slot_pages, width: width / 4 };
  recorder.dispatch(write(tensors.k_pages.dtype), params, tensors, wrappedGrid(ceilDiv(count, THREADS)));
}

/**
 * Records where rows lie in the pages of any layer, for kernels that write keys and values as they compute them: the
 * position of each row, and its token among all tokens of all heads, {@link NO_SLOT} for a row without a slot.
 *
 * @param tensors page_table `[S, P] u32`; slots, positions `[N] u32`; places `[N, 2] u32`.
 * @throws {ShapeError} When the shapes do not match.
 */
export function kvPlaces(
  recorder: Recorder,
  tensors: Operands<ReturnType<typeof placesKernel>>,
  kv_heads: number,
): void {
  const [rows] = expectShape(tensors.places, "places", 2);
  expectShape(tensors.places, "places", [rows, 2]);
  const slot_pages = expectPlaces(tensors, rows);
  recorder.dispatch(placesKernel(), { rows, kv_heads, slot_pages }, tensors, [ceilDiv(rows, THREADS)]);
}

/**
 * Records the copying of the first `tokens` tokens of page `from` to page `to` for every row of `copies`.
 *
 * @param tensors copies `[M, 3] u32`: from, to, tokens (at most 32); k_pages, v_pages `[·, K, 32, D]` f32 or f16. No
 * page may be read by one copy of a call and written by another.
 * @throws {ShapeError} When the shapes do not match.
 */
export function kvCopyPage(recorder: Recorder, tensors: Operands<ReturnType<typeof copyPage>>): void {
  const { kv_heads, width } = expectPages(tensors.k_pages, tensors.v_pages);
  const [copies] = expectShape(tensors.copies, "copies", 2);
  expectShape(tensors.copies, "copies", [copies, 3]);
  const { dtype } = tensors.copies;
  if (dtype !== "u32") throw new ShapeError(`Cannot use copies of ${dtype}: expected u32`);
  const count = copies * kv_heads * PAGE_TOKENS * width / 4;
  const params = { count, kv_heads, width: width / 4 };
  recorder.dispatch(copyPage(tensors.k_pages.dtype), params, tensors, wrappedGrid(ceilDiv(count, THREADS)));
}

/**
 * Records the rounding of keys and values, in place, to a page's type; does nothing for f32.
 *
 * @param tensors k, v `[N, K, D] f32`.
 * @throws {ShapeError} When the shapes differ.
 */
export function kvRound(
  recorder: Recorder,
  tensors: Operands<ReturnType<typeof round>>,
  dtype: "f32" | "f16",
): void {
  const [rows, kv_heads, width] = expectShape(tensors.k, "k", 3);
  expectShape(tensors.v, "v", [rows, kv_heads, width]);
  expectMultiple(width, 4, "head width");
  if (dtype === "f32") return;
  const count = rows * kv_heads * width / 4;
  recorder.dispatch(round(dtype), { count }, tensors, wrappedGrid(ceilDiv(count, THREADS)));
}
