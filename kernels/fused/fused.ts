/**
 * What follows a product of segments: kernels for GPUs that add the sums of its chunks and go on with them. Each gives the
 * bits of the operations that it stands for.
 */

import { assert } from "../../core/errors.ts";
import { type Activation, activationPart } from "../gated_activation/gated_activation.ts";
import { defineKernel, type WgslPart } from "../kernel.ts";
import { expectPages, pageParts } from "../kv_pages/kv_pages.ts";
import { CHUNKS_BATCH } from "../matmul/matmul.ts";
import type { SegmentPlace, SegmentSums } from "../matmul/matmul_segments.ts";
import { operandPart } from "../matmul/matmul_text.ts";
import type { Recorder } from "../recorder.ts";
import { groupSumPart, normThreads } from "../rms_norm/rms_norm.ts";
import type { RopePairing } from "../rope/rope.ts";
import { ceilDiv, elementCount, expectMultiple, expectShape, ShapeError } from "../shape.ts";
import { bytesOf, type DType, type Tensor } from "../tensor.ts";
import { unroll } from "../unroll.ts";
import { constantsPart, itemPart, kernelFamily, wrappedGrid } from "../variant.ts";
import gateWgsl from "./fused_gate.wgsl" with { type: "text" };
import headsWgsl from "./fused_heads.wgsl" with { type: "text" };
import rowsWgsl from "./fused_rows.wgsl" with { type: "text" };
import segmentSumsWgsl from "./segment_sums.wgsl" with { type: "text" };

type Compute = "f32" | "f16";

/** Vectors of u that a workgroup keeps: a kernel is made for each of these sizes. */
const RANK_ITEMS = [4, 16, 64] as const;
/** The highest rank of a low-rank term. */
export const MOST_RANK = 4 * RANK_ITEMS.at(-1)!;
/** Threads of a workgroup of the gate, and the rows that one computes where there are many. */
const GATE_THREADS = 64, GATE_ROWS = 4;
/** With so many rows, workgroups of several of them are enough. */
const MANY_ROWS = 32;
/** A vector that a kernel does not read. */
const NONE = 0xffffffff;

/** The low-rank term of a segment: `scale · u · Bᵀ`. u is `rank` columns of the product's last segment. */
export interface SegmentTerm {
  /** The first column of u in the segment. */
  column: number;
  /** B, `[columns, rank] f32`, in the same buffer for all segments of a product. */
  matrix: Tensor;
}

/** The product that a kernel goes on with. With any term, the last segment is `x · Aᵀ`. */
export interface SegmentProduct {
  product: SegmentSums;
  /** Of each segment but that of A. */
  terms: readonly (SegmentTerm | null)[];
  /** alpha / rank */
  scale: number;
  /** The type of the operands of the low-rank term. */
  compute: Compute;
}

/** The parts with which the texts of all kernels begin. */
function sumsParts(compute: Compute, rank_items: number): WgslPart[] {
  return [
    operandPart(compute),
    constantsPart({ MAX_RANK4: rank_items }),
    { file: "segment_sums.wgsl", text: unroll(segmentSumsWgsl, { BATCH: CHUNKS_BATCH }) },
  ];
}

const SUM_PARAMS = { u_place: "u32", u_chunks: "u32", u_items: "u32", lora_scale: "f32" } as const;

const rowsKernel = kernelFamily((compute: Compute, rank_items: number, threads: number) =>
  defineKernel({
    name: "fused_rows",
    wgsl: [
      ...sumsParts(compute, rank_items),
      constantsPart({ threads }),
      itemPart(4),
      groupSumPart(),
      { file: "fused_rows.wgsl", text: rowsWgsl },
    ],
    params: {
      ...{ rows: "u32", items: "u32", place: "u32", chunks: "u32", u_place: "u32", u_chunks: "u32" },
      ...{ u_items: "u32", u_first: "u32", rank_items: "u32", lora_scale: "f32", width: "u32", eps: "f32" },
      ...{ options: "u32" },
    },
    inputs: ["sums", "lora", "residual", "bias", "gamma"],
    outputs: ["y", "normed"],
  })
);

/** The parameters of a segment, named with its index. */
export const segmentParams = (names: readonly string[], count: number) =>
  Object.fromEntries(
    Array.from({ length: count }, (_, s) => names.map((name) => [`${name}${s}`, "u32"] as const)).flat(),
  );

const gateKernel = kernelFamily(
  (compute: Compute, rank_items: number, activation: Activation, ROWS: number) =>
    defineKernel({
      name: "fused_gate",
      wgsl: [
        ...sumsParts(compute, rank_items),
        itemPart(4),
        activationPart(activation),
        { file: "fused_gate.wgsl", text: unroll(gateWgsl, { ROWS }) },
      ],
      params: {
        ...{ rows: "u32", items: "u32" },
        ...segmentParams(["place", "chunks", "rank_items", "u_first", "lora_place"], 2),
        ...SUM_PARAMS,
      },
      inputs: ["sums", "lora"],
      outputs: ["h"],
    }),
);

const headsKernel = kernelFamily(
  (compute: Compute, rank_items: number, D4: number, pairing: RopePairing, dtype: DType) =>
    defineKernel({
      name: "fused_heads",
      wgsl: [
        ...sumsParts(compute, rank_items),
        constantsPart({ threads: normThreads(D4), adjacent: pairing === "adjacent" }),
        itemPart(4),
        ...pageParts(dtype),
        groupSumPart(),
        { file: "fused_heads.wgsl", text: unroll(headsWgsl, { D4 }) },
      ],
      params: {
        rows: "u32",
        ...segmentParams(HEAD_PARAMS, 3),
        ...SUM_PARAMS,
        ...{ width: "u32", eps: "f32", rotates: "u32" },
      },
      inputs: ["sums", "lora", "vectors", "cosines", "sines", "places"],
      outputs: ["q", "k_pages", "v_pages"],
    }),
);

const HEAD_PARAMS = [
  ...["heads", "place", "chunks", "rank_items", "u_first", "lora_place", "bias", "gamma"],
];

/** What a kernel needs of the low-rank terms: one binding with all their B, and where each lies in it. */
function lowRank(recorder: Recorder, { product, terms, scale }: SegmentProduct) {
  const { segments } = product, last = segments.at(-1)!;
  const given = terms.filter((term) => term !== null);
  assert(segments.length === terms.length + (given.length > 0 ? 1 : 0), "a segment of A for the terms");
  const rank = given[0]?.matrix.shape[1] ?? 0;
  if (rank > MOST_RANK) throw new ShapeError(`Cannot use rank ${rank}: expected at most ${MOST_RANK}`);
  const own = terms.map((term, s) => {
    if (!term) return { rank_items: 0, u_first: 0, lora_place: 0 };
    expectShape(term.matrix, "lora", [segments[s]!.columns, rank]);
    for (const [name, value] of Object.entries({ rank, column: term.column })) expectMultiple(value, 4, name);
    return { rank_items: rank / 4, u_first: term.column / 4, lora_place: lora_place(term.matrix) };
  });
  const offsets = given.map(({ matrix }) => matrix.offset_bytes), start = Math.min(...offsets);
  function lora_place({ offset_bytes }: Tensor): number {
    return (offset_bytes - Math.min(...given.map(({ matrix }) => matrix.offset_bytes))) / 16;
  }
  const end = Math.max(
    ...given.map(({ matrix: { offset_bytes, shape } }) => offset_bytes + 4 * shape[0]! * rank),
  );
  const first = given.find(({ matrix }) => matrix.offset_bytes === start);
  const lora = first ? { ...first.matrix, shape: [(end - start) / bytesOf("f32")] } : recorder.empty;
  const params = first
    ? { u_place: last.place, u_chunks: last.chunks, u_items: last.columns / 4, lora_scale: scale }
    : { u_place: 0, u_chunks: 1, u_items: 0, lora_scale: 0 };
  return { lora, own, params, rank_items: RANK_ITEMS.find((items) => 4 * items >= rank)! };
}

/** Whether low-rank terms can be added by these kernels: one rank up to {@link MOST_RANK}, one buffer. */
export function fitsTerms(terms: readonly (SegmentTerm | null)[]): boolean {
  const given = terms.filter((term) => term !== null);
  return given.every(({ matrix }) =>
    matrix.buffer === given[0]!.matrix.buffer && matrix.shape[1]! <= MOST_RANK
  );
}

function placeOf({ place, chunks }: SegmentPlace): { place: number; chunks: number } {
  return { place, chunks };
}

/** Names with the index of a segment. */
export function indexed(values: Readonly<Record<string, number>>, s: number): Record<string, number> {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [`${name}${s}`, value]));
}

/** The tensors of {@link fusedRows}. */
export interface FusedRowsTensors {
  /** `[N, C] f32`, another buffer than y. */
  residual: Tensor;
  /** `[C] f32` */
  bias?: Tensor | undefined;
  y: Tensor;
  /** The norm of y: `normed` `[N, C]` is written if there is a gamma `[C]`. */
  norm: { gamma: Tensor | null; normed: Tensor; eps: number };
}

/**
 * Records `y = residual + (x · Wᵀ + scale · u · Bᵀ) (+ bias)`, and the norm of y, from a product of W (and A).
 *
 * @throws {ShapeError} When shapes do not belong together, or C is no multiple of 4.
 */
export function fusedRows(recorder: Recorder, given: SegmentProduct, tensors: FusedRowsTensors): void {
  const { residual, bias, y, norm } = tensors, [rows, columns] = expectShape(y, "y", 2);
  expectShape(residual, "residual", [rows, columns]);
  if (bias) expectShape(bias, "bias", [columns]);
  const { gamma, normed, eps } = norm;
  if (gamma) expectShape(gamma, "gamma", [columns]);
  expectShape(normed, "normed", [rows, columns]);
  const { lora, own, params, rank_items } = lowRank(recorder, given), { empty } = recorder;
  const { rank_items: own_items, u_first } = own[0]!, items = columns / 4;
  recorder.dispatch(
    rowsKernel(given.compute, rank_items, normThreads(items)),
    {
      ...{ rows, items, ...placeOf(given.product.segments[0]!), ...params, rank_items: own_items, u_first },
      ...{ width: columns, eps, options: (bias ? 1 : 0) | (gamma ? 2 : 0) },
    },
    {
      ...{ sums: given.product.sums, lora, residual, bias: bias ?? empty, gamma: gamma ?? empty },
      ...{ y, normed },
    },
    wrappedGrid(rows),
  );
}

/**
 * Records `h = activation(gate) · up`, `[N, F]`, from a product of the gate's and the up projection's weights (and A).
 *
 * @throws {ShapeError} When shapes do not belong together.
 */
export function fusedGate(
  recorder: Recorder,
  given: SegmentProduct,
  h: Tensor,
  activation: Activation,
): void {
  const [rows, columns] = expectShape(h, "h", 2), { segments, sums } = given.product;
  const { lora, own, params, rank_items } = lowRank(recorder, given), items = columns / 4;
  const has_rows = rows >= MANY_ROWS && rank_items < RANK_ITEMS.at(-1)!, ROWS = has_rows ? GATE_ROWS : 1;
  recorder.dispatch(
    gateKernel(given.compute, rank_items, activation, ROWS),
    {
      ...{ rows, items, ...params },
      ...Object.assign({}, ...own.map((each, s) => indexed({ ...placeOf(segments[s]!), ...each }, s))),
    },
    { sums, lora, h },
    [ceilDiv(items, GATE_THREADS), ceilDiv(rows, ROWS)],
  );
}

/** A segment of heads: queries, keys or values. */
export interface FusedHead {
  /** Biases of all heads, and the norm of each, in the tensor of all vectors; null without. */
  bias: Tensor | null;
  gamma: Tensor | null;
}

/** The tensors of {@link fusedHeads}. */
export interface FusedHeadsTensors {
  /** The biases and norms of q, k and v, in one buffer. */
  heads: readonly [q: FusedHead, k: FusedHead, v: FusedHead];
  /** Null without a rotation. */
  rotation: { cosines: Tensor; sines: Tensor; pairing: RopePairing } | null;
  /** `[N, 2] u32`, see `kvPlaces`. */
  places: Tensor;
  /** `[N, H, D] f32` */
  q: Tensor;
  /** `[·, K, 32, D]`, f32 or f16. */
  k_pages: Tensor;
  v_pages: Tensor;
}

/**
 * Whether {@link fusedHeads} takes heads of a width: halves of a rotation are vectors of four numbers, and biases and norms
 * lie in one buffer.
 */
export function fitsHeads(
  width: number,
  { heads, rotation }: Pick<FusedHeadsTensors, "heads" | "rotation">,
): boolean {
  const vectors = heads.flatMap(({ bias, gamma }) => [bias, gamma]).filter((vector) => vector !== null);
  return width % (rotation?.pairing === "adjacent" ? 4 : 8) === 0 &&
    vectors.every(({ buffer }) => buffer === vectors[0]!.buffer);
}

/** The heads' tensors as a kernel binds them, and each segment's parameters. */
export function headOperands(
  recorder: Recorder,
  { heads, rotation, places, q, k_pages, v_pages }: FusedHeadsTensors,
) {
  const { kv_heads, width } = expectPages(k_pages, v_pages), [rows, query_heads] = expectShape(q, "q", 3);
  expectShape(q, "q", [rows, query_heads, width]);
  expectShape(places, "places", [rows, 2]);
  const { empty } = recorder;
  const vectors = heads.flatMap(({ bias, gamma }) => [bias, gamma]).filter((vector) => vector !== null);
  const start = Math.min(...vectors.map(({ offset_bytes }) => offset_bytes));
  const end = Math.max(...vectors.map(({ offset_bytes, shape }) => offset_bytes + 4 * elementCount(shape)));
  const first = vectors.find(({ offset_bytes }) => offset_bytes === start);
  const vector = (tensor: Tensor | null) => tensor ? (tensor.offset_bytes - start) / 16 : NONE;
  const segments = heads.map(({ bias, gamma }, s) => {
    const count = s === 0 ? query_heads : kv_heads;
    if (bias) expectShape(bias, "bias", [count * width]);
    if (gamma) expectShape(gamma, "gamma", [width]);
    return { heads: count, bias: vector(bias), gamma: vector(gamma) };
  });
  const operands = {
    ...{ cosines: rotation?.cosines ?? empty, sines: rotation?.sines ?? empty, places, q, k_pages, v_pages },
    vectors: first ? { ...first, shape: [(end - start) / 4] } : empty,
  };
  const pairing: RopePairing = rotation?.pairing ?? "half";
  return { rows, width, kv_heads, query_heads, segments, operands, pairing, rotates: rotation ? 1 : 0 };
}

/**
 * Records queries, and keys and values in their pages, from a product of the weights of q, k and v (and A): with the
 * low-rank terms, biases, norms of the heads and their rotation.
 *
 * @param eps Of the norms.
 * @throws {ShapeError} When shapes do not belong together.
 */
export function fusedHeads(
  recorder: Recorder,
  given: SegmentProduct,
  tensors: FusedHeadsTensors,
  eps: number,
): void {
  const { segments, sums } = given.product, heads = headOperands(recorder, tensors);
  const { rows, width, query_heads, kv_heads, rotates } = heads;
  const { lora, own, params, rank_items } = lowRank(recorder, given);
  const values = heads.segments.map((head, s) =>
    indexed({ ...head, ...placeOf(segments[s]!), ...own[s]! }, s)
  );
  recorder.dispatch(
    headsKernel(given.compute, rank_items, width / 4, heads.pairing, tensors.k_pages.dtype),
    { rows, ...Object.assign({}, ...values), ...params, width, eps, rotates },
    { sums, lora, ...heads.operands },
    [query_heads + 2 * kv_heads, rows],
  );
}
