/** Moves and adds rows. The formulas are in the shaders. */

import { defineKernel, type Operands, type WgslPart } from "../kernel.ts";
import type { Recorder } from "../recorder.ts";
import { ceilDiv, elementCount, expectMultiple, expectShape } from "../shape.ts";
import type { Tensor } from "../tensor.ts";
import { constantsPart, itemPart, type ItemSize, itemSize, kernelFamily, wrappedGrid } from "../variant.ts";
import fillWgsl from "./fill.wgsl" with { type: "text" };
import packHalvesWgsl from "./pack_halves.wgsl" with { type: "text" };
import gatherWgsl from "./gather_rows.wgsl" with { type: "text" };
import scalarWordsWgsl from "./scalar_words.wgsl" with { type: "text" };
import scatterAddWgsl from "./scatter_add_rows.wgsl" with { type: "text" };
import scatterWgsl from "./scatter_rows.wgsl" with { type: "text" };
import unpackHalvesWgsl from "./unpack_halves.wgsl" with { type: "text" };
import vectorWordsWgsl from "./vector_words.wgsl" with { type: "text" };

const THREADS = 64;
const constants = constantsPart({ threads: THREADS });

/** The WGSL that defines `word`. Words are copied as bits, so that a float's payload stays the same. */
function wordPart(size: ItemSize): WgslPart {
  return size === 4
    ? { file: "vector_words.wgsl", text: vectorWordsWgsl }
    : { file: "scalar_words.wgsl", text: scalarWordsWgsl };
}

const gatherKernel = kernelFamily((size: ItemSize) =>
  defineKernel({
    name: "gather_rows",
    wgsl: [constants, wordPart(size), { file: "gather_rows.wgsl", text: gatherWgsl }],
    params: { source_rows: "u32", rows: "u32", items: "u32" },
    inputs: ["x", "index"],
    outputs: ["y"],
  })
);

const scatterKernel = kernelFamily((size: ItemSize) =>
  defineKernel({
    name: "scatter_rows",
    wgsl: [constants, wordPart(size), { file: "scatter_rows.wgsl", text: scatterWgsl }],
    params: { target_rows: "u32", rows: "u32", items: "u32" },
    inputs: ["y", "index"],
    outputs: ["x"],
  })
);

const scatterAddKernel = kernelFamily((size: ItemSize) =>
  defineKernel({
    name: "scatter_add_rows",
    wgsl: [constants, itemPart(size), { file: "scatter_add_rows.wgsl", text: scatterAddWgsl }],
    params: { target_rows: "u32", rows: "u32", items: "u32" },
    inputs: ["y", "index"],
    outputs: ["x"],
  })
);

const fillKernel = kernelFamily((type: "f32" | "u32", size: ItemSize) =>
  defineKernel({
    name: "fill",
    wgsl: [constants, wordPart(size), { file: "fill.wgsl", text: fillWgsl }],
    params: { items: "u32", value: type },
    inputs: [],
    outputs: ["x"],
  })
);

const packHalvesKernel = defineKernel({
  name: "pack_halves",
  wgsl: [constants, { file: "pack_halves.wgsl", text: packHalvesWgsl }],
  params: { items: "u32" },
  inputs: ["x"],
  outputs: ["halves"],
});

const unpackHalvesKernel = defineKernel({
  name: "unpack_halves",
  wgsl: [constants, { file: "unpack_halves.wgsl", text: unpackHalvesWgsl }],
  params: { items: "u32" },
  inputs: ["halves"],
  outputs: ["x"],
});

const grid = (items: number) => wrappedGrid(ceilDiv(items, THREADS));

/**
 * Records `y[i] = x[index[i]]`; a row with an index outside x becomes zeros.
 *
 * @param tensors x `[N, C]`, y `[M, C]`, both of one type of 4 bytes; index `[M] u32`.
 * @throws {ShapeError} When the shapes do not match.
 */
export function gatherRows(recorder: Recorder, tensors: Operands<ReturnType<typeof gatherKernel>>): void {
  const [source_rows, width] = expectShape(tensors.x, "x", 2);
  const [rows] = expectShape(tensors.index, "index", 1);
  expectShape(tensors.y, "y", [rows, width]);
  const size = itemSize(width), items = width / size;
  recorder.dispatch(gatherKernel(size), { source_rows, rows, items }, tensors, grid(rows * items));
}

/**
 * Records `x[index[i]] = y[i]`; a row with an index outside x is skipped.
 *
 * @param tensors y `[M, C]`, x `[N, C]`, both of one type of 4 bytes; index `[M] u32`, each row of x at most once.
 * @throws {ShapeError} When the shapes do not match.
 */
export function scatterRows(recorder: Recorder, tensors: Operands<ReturnType<typeof scatterKernel>>): void {
  recordScatter(recorder, scatterKernel, tensors);
}

/**
 * Records `x[index[i]] += y[i]`; a row with an index outside x is skipped.
 *
 * @param tensors y `[M, C] f32`; x `[N, C] f32`, accumulated; index `[M] u32`, each row of x at most once.
 * @throws {ShapeError} When the shapes do not match.
 */
export function scatterAddRows(
  recorder: Recorder,
  tensors: Operands<ReturnType<typeof scatterAddKernel>>,
): void {
  recordScatter(recorder, scatterAddKernel, tensors);
}

function recordScatter(
  recorder: Recorder,
  kernel: typeof scatterKernel | typeof scatterAddKernel,
  tensors: Operands<ReturnType<typeof scatterKernel>>,
): void {
  const [target_rows, width] = expectShape(tensors.x, "x", 2);
  const [rows] = expectShape(tensors.index, "index", 1);
  expectShape(tensors.y, "y", [rows, width]);
  const size = itemSize(width), items = width / size;
  recorder.dispatch(kernel(size), { target_rows, rows, items }, tensors, grid(rows * items));
}

/** Records `x = value` in every element of an f32 or u32 tensor. */
export function fill(recorder: Recorder, x: Tensor, value: number): void {
  const size = itemSize(elementCount(x.shape)), items = elementCount(x.shape) / size;
  const type = x.dtype === "u32" ? "u32" : "f32";
  recorder.dispatch(fillKernel(type, size), { items, value }, { x }, grid(items));
}

/** Four numbers each, of tensors of one shape. */
function halvesItems({ x, halves }: { x: Tensor; halves: Tensor }): number {
  expectShape(halves, "halves", [...x.shape]);
  const count = elementCount(x.shape);
  expectMultiple(count, 4, "numbers of x");
  return count / 4;
}

/**
 * Records `halves = f16(x)`, rounded to the nearest; numbers beyond ±65,504 become that.
 *
 * @param tensors x f32, halves f16, of one shape with a multiple of 4 numbers.
 * @throws {ShapeError} When the shapes do not match.
 */
export function packHalves(recorder: Recorder, tensors: { x: Tensor; halves: Tensor }): void {
  const items = halvesItems(tensors);
  recorder.dispatch(packHalvesKernel, { items }, tensors, grid(items));
}

/** Records `x = halves`, exact; the tensors are as in {@link packHalves}. */
export function unpackHalves(recorder: Recorder, tensors: { x: Tensor; halves: Tensor }): void {
  const items = halvesItems(tensors);
  recorder.dispatch(unpackHalvesKernel, { items }, tensors, grid(items));
}
