/**
 * Checks of the kernels that a layer has on GPUs besides its products: products of segments with what follows them, against
 * the operations one by one, and attention against float64. They run heads of one width and no window, soft cap or
 * activation but SiLU: other shapes have other texts, which the driver compiles from the same parts.
 */

import { pcg4d } from "../../core/random.ts";
import { PAGE_TOKENS } from "../../core/kv_pages.ts";
import { attentionBackward, attentionForward } from "../attention/attention.ts";
import { TILE_ROWS } from "../attention/attention_plan.ts";
import { packRows } from "../attention/packed_rows.ts";
import { addBias } from "../bias/bias.ts";
import type { Gpu } from "../device.ts";
import { fusedGate, fusedHeads, fusedRows, type SegmentProduct } from "../fused/fused.ts";
import { gatedActivation } from "../gated_activation/gated_activation.ts";
import { attentionPaged, planShared } from "../kv_pages/attention_paged.ts";
import { kvPlaces, kvWrite } from "../kv_pages/kv_pages.ts";
import { matmul } from "../matmul/matmul.ts";
import { everyMatrices, type SegmentsLayout, TILES } from "../matmul/matmul_layout.ts";
import { fitsSegments, matmulSegments } from "../matmul/matmul_segments.ts";
import { Recorder } from "../recorder.ts";
import { rmsNorm } from "../rms_norm/rms_norm.ts";
import { rope, ropeTable } from "../rope/rope.ts";
import { ceilDiv, elementCount } from "../shape.ts";
import { Allocator, type Tensor, view } from "../tensor.ts";
import { createWeight, type Weight, writeWeight } from "../weights/weight.ts";

type Compute = "f32" | "f16";

/** Runs a check with an allocator and a recorder of its own. */
export async function withRecorder<T>(
  gpu: Gpu,
  check: (recorder: Recorder, allocator: Allocator) => Promise<T>,
): Promise<T> {
  const allocator = new Allocator(gpu.device), recorder = new Recorder(gpu, allocator);
  try {
    return await check(recorder, allocator);
  } finally {
    recorder.destroy();
    allocator.destroy();
  }
}

/** Numbers from −1 to 1 without an order, the same at each call. */
function numbers(seed: number, shape: readonly number[]): Float32Array {
  return new Float32Array(elementCount(shape)).map((_, i) => pcg4d(i, seed, 0, 0)[0] / 2 ** 31 - 1);
}

function uploadWeight(
  allocator: Allocator,
  seed: number,
  { type, shape }: { type: Compute; shape: [number, number] },
): Weight {
  const weight = createWeight(allocator, "canary", { type, shape }), values = numbers(seed, shape);
  const { buffer } = type === "f16" ? Float16Array.from(values) : values;
  writeWeight(allocator, weight, new Uint8Array(buffer));
  return weight;
}

/** A layer whose columns end inside of the largest tile, and those of A inside of all. */
const HEADS = 3, WIDTH = 64, RANK = 8;
/** The columns of q, k and v. Of the same products q is the output of a block as well, and k and v its gate and up projection. */
const COLUMNS = [HEADS * WIDTH, WIDTH, WIDTH] as const;
const EPS = 1e-6, SCALE = 0.5;
/** Elements from one vector of the heads to the next: every device binds a view there. */
const STEP = 256;

type LayerInputs = ReturnType<typeof layerInputs>;
type LayerOutputs = ReturnType<typeof layerOutputs>;

function layerInputs(allocator: Allocator, rows: number, depth: number) {
  const upload = (seed: number, ...shape: number[]) =>
    allocator.upload("canary", shape, numbers(seed, shape));
  const words = (values: number[], ...shape: number[]) =>
    allocator.upload("canary", shape, Uint32Array.from(values));
  const types = ["f16", "f32", "f16"] as const, b = upload(1, COLUMNS.reduce((sum, n) => sum + n) * RANK);
  const weights = COLUMNS.map((columns, s) =>
    uploadWeight(allocator, 2 + s, { type: types[s]!, shape: [columns, depth] })
  );
  let at = 0;
  const matrices = COLUMNS.map((columns) => {
    const matrix = view(b, [columns, RANK], at);
    at += columns * RANK;
    return matrix;
  });
  const vectors = upload(5, 5 * STEP),
    vector = (i: number, length: number) => view(vectors, [length], i * STEP);
  const table = ropeTable(WIDTH, { base: 10_000 }, rows), pages = ceilDiv(rows, PAGE_TOKENS);
  const every = Array.from({ length: rows }, (_, i) => i);
  return {
    ...{ rows, weights, matrices, x: upload(6, rows, depth) },
    a: uploadWeight(allocator, 7, { type: "f32", shape: [3 * RANK, depth] }),
    heads: [
      { bias: vector(0, COLUMNS[0]), gamma: vector(1, WIDTH) },
      { bias: vector(2, COLUMNS[1]), gamma: vector(3, WIDTH) },
      { bias: vector(4, COLUMNS[2]), gamma: null },
    ] as const,
    cosines: allocator.upload("canary", table.shape, table.cosines),
    sines: allocator.upload("canary", table.shape, table.sines),
    ...{ residual: upload(8, rows, COLUMNS[0]), bias: upload(9, COLUMNS[0]), gamma: upload(10, COLUMNS[0]) },
    // Pages in another order than that of the positions.
    page_table: words(every.slice(0, pages).reverse(), 1, pages),
    ...{ positions: words(every, rows), slots: words(every.map(() => 0), rows) },
  };
}

/** What a layer's kernels write: queries, pages, the gated product, and the output with its norm. */
function layerOutputs(allocator: Allocator, rows: number, pages_type: Compute) {
  const create = (...shape: number[]) => allocator.create("canary", shape);
  const pages = () =>
    allocator.create("canary", [ceilDiv(rows, PAGE_TOKENS), 1, PAGE_TOKENS, WIDTH], pages_type);
  return {
    ...{ q: create(rows, HEADS, WIDTH), k_pages: pages(), v_pages: pages(), h: create(rows, WIDTH) },
    ...{ y: create(rows, COLUMNS[0]), normed: create(rows, COLUMNS[0]) },
  };
}

/** Records the operations one by one, with products in the plain layout of their form. */
function recordPlain(
  recorder: Recorder,
  allocator: Allocator,
  t: LayerInputs,
  out: LayerOutputs,
  compute: Compute,
): void {
  const create = (...shape: number[]) => allocator.create("canary", shape), { rows, x } = t;
  const layout = everyMatrices(recorder.gpu, compute).at(-1) ?? { ...TILES.small, split: false };
  const u = create(rows, 3 * RANK);
  matmul(recorder, "nt", { x, weight: t.a, y: u }, { compute, layout });
  const product = (s: number, y: Tensor, residual?: Tensor) => {
    const lora = { u, column: s * RANK, matrix: t.matrices[s]!, scale: SCALE };
    matmul(recorder, "nt", { x, weight: t.weights[s]!, y, lora, residual }, { compute, layout });
  };
  const [, k, v] = t.heads.map(({ bias, gamma }, s) => {
    const heads = COLUMNS[s]! / WIDTH, raw = create(rows, COLUMNS[s]!);
    product(s, raw);
    addBias(recorder, { y: raw, bias });
    if (!gamma) return view(raw, [rows, heads, WIDTH]);
    const y = s === 0 ? out.q : create(rows, heads, WIDTH), by_head = [rows * heads, WIDTH];
    const rstd = create(rows * heads);
    rmsNorm(recorder, { x: view(raw, by_head), gamma, y: view(y, by_head), rstd }, EPS);
    rope(recorder, { ...t, x: y }, { inverse: false });
    return y;
  });
  kvWrite(recorder, { ...t, ...out, k: k!, v: v! });
  const gate = create(rows, WIDTH), up = create(rows, WIDTH);
  product(1, gate);
  product(2, up);
  gatedActivation(recorder, { gate, up, h: out.h }, "silu");
  product(0, out.y, t.residual);
  addBias(recorder, { y: out.y, bias: t.bias });
  rmsNorm(recorder, { x: out.y, gamma: t.gamma, y: out.normed, rstd: create(rows) }, EPS);
}

/** Records a product of segments, and each kernel that goes on with one. */
function recordFused(
  recorder: Recorder,
  t: LayerInputs & { places: Tensor },
  out: LayerOutputs,
  { compute, layout }: { compute: Compute; layout: SegmentsLayout },
): void {
  kvPlaces(recorder, t, 1);
  const { sums, segments } = matmulSegments(recorder, { x: t.x, weights: [...t.weights, t.a] }, {
    compute,
    layout,
  });
  const terms = t.matrices.map((matrix, s) => ({ matrix, column: s * RANK }));
  const of = (...chosen: number[]): SegmentProduct => ({
    product: { sums, segments: [...chosen, 3].map((s) => segments[s]!) },
    ...{ terms: chosen.map((s) => terms[s]!), scale: SCALE, compute },
  });
  const rotation = { cosines: t.cosines, sines: t.sines, pairing: "half" } as const;
  fusedHeads(recorder, of(0, 1, 2), { ...t, ...out, rotation }, EPS);
  fusedGate(recorder, of(1, 2), out.h, "silu");
  const norm = { gamma: t.gamma, normed: out.normed, eps: EPS };
  fusedRows(recorder, of(0), { residual: t.residual, bias: t.bias, y: out.y, norm });
}

/** What {@link wrongSegments} runs. */
export interface SegmentsCase {
  compute: Compute;
  layout: SegmentsLayout;
  rows: number;
  /** Above 256, so that there are several chunks. */
  depth: number;
}

/**
 * What a GPU gets wrong of a product of segments in a tile and of the kernels that go on with it, as text: their bits are
 * those of the operations one by one. Null if all is right, or if the device takes no segments.
 *
 * @throws {ServiceError} When the driver does not compile a kernel, or loses the device.
 */
export async function wrongSegments(
  gpu: Gpu,
  { rows, depth, ...kind }: SegmentsCase,
): Promise<string | null> {
  return await withRecorder(gpu, async (recorder, allocator) => {
    const t = {
      ...layerInputs(allocator, rows, depth),
      places: allocator.create("canary", [rows, 2], "u32"),
    };
    if (!fitsSegments(gpu, [...t.weights, t.a], { rows })) return null;
    const plain = layerOutputs(allocator, rows, kind.compute),
      fused = layerOutputs(allocator, rows, kind.compute);
    recordPlain(recorder, allocator, t, plain, kind.compute);
    recordFused(recorder, t, fused, kind);
    const names = Object.keys(plain) as (keyof LayerOutputs)[];
    const read = await recorder.submitAndRead([...Object.values(plain), ...Object.values(fused)]);
    const words = read.map((bytes) => new Uint32Array(bytes));
    const wrong = names.find((_, i) => words[i]!.some((word, at) => word !== words[names.length + i]![at]));
    return wrong ? `${wrong} has other bits than operation by operation` : null;
  });
}

/** Heads of the checks of attention. */
const ATTENTION = { heads: 4, kv_heads: 2, width: 64, scale: 0.5 };
/** Pages of a common prompt, in which the first of two splits ends; tokens of each sequence, which end in a page of its own. */
const PROMPT_PAGES = 9, SEQUENCES = [300, 295, 290], SLOT_PAGES = PROMPT_PAGES + 1;
/** The first row of the prefill, which has a complete tile and a part of one. */
const PREFILL_START = 260;

/** Attention's inputs, and the gradient of its output if gradients are wanted. */
interface AttentionGiven {
  q: Float32Array;
  k: Float32Array | Float16Array;
  v: Float32Array | Float16Array;
  d_o?: Float32Array;
}

/**
 * Attention in float64, with the logarithms of the denominators, and its gradients.
 *
 * @param keysOf The keys that a row sees, by where their first number for a key/value head lies.
 */
function exactAttention(
  { q, k, v, d_o }: AttentionGiven,
  keysOf: (row: number, kv: number) => number[],
): Record<"o" | "lse" | "d_q" | "d_k" | "d_v", Float64Array> {
  const { heads, kv_heads, width, scale } = ATTENTION, count = q.length / width;
  const o = new Float64Array(q.length), d_q = o.slice(), lse = new Float64Array(count);
  const d_k = new Float64Array(k.length), d_v = d_k.slice();
  const dot = (a: ArrayLike<number>, i: number, b: ArrayLike<number>, j: number) => {
    let sum = 0;
    for (let d = 0; d < width; d++) sum += a[i + d]! * b[j + d]!;
    return sum;
  };
  for (let n = 0; n < count; n++) {
    const at = n * width, keys = keysOf(Math.floor(n / heads), Math.floor(n % heads * kv_heads / heads));
    const scores = keys.map((key) => scale * dot(q, at, k, key));
    lse[n] = Math.log(scores.reduce((sum, score) => sum + Math.exp(score), 0));
    const p = scores.map((score) => Math.exp(score - lse[n]!));
    keys.forEach((key, i) => {
      for (let d = 0; d < width; d++) o[at + d]! += p[i]! * v[key + d]!;
    });
    if (!d_o) continue;
    const delta = dot(d_o, at, o, at);
    keys.forEach((key, i) => {
      const d_s = scale * p[i]! * (dot(d_o, at, v, key) - delta);
      for (let d = 0; d < width; d++) {
        d_v[key + d]! += p[i]! * d_o[at + d]!;
        d_q[at + d]! += d_s * k[key + d]!;
        d_k[key + d]! += d_s * q[at + d]!;
      }
    });
  }
  return { o, lse, d_q, d_k, d_v };
}

/**
 * Ten times what WGSL allows here: exp an error of 3 + 2 |x| units in the last place, and sums of 300 terms round to less. A
 * mistake is larger, and a device is refused for it.
 */
const TOLERANCE = 1e-4;

/** The first number that is not close to that of the reference. */
function firstFar(name: string, bytes: ArrayBuffer, expected: Float64Array): string | null {
  const actual = new Float32Array(bytes);
  const at = expected.findIndex((value, i) =>
    !(Math.abs(actual[i]! - value) <= TOLERANCE * (1 + Math.abs(value)))
  );
  return at < 0 ? null : `${name} ${at} is ${actual[at]} instead of ${expected[at]}`;
}

/**
 * What a GPU gets wrong of attention, as text; null if it is close to float64: over packed rows forward and backward, and
 * over pages in a prefill, in a decode, and in a decode of rows that share a prompt.
 *
 * @throws {ServiceError} When the driver does not compile a kernel, or loses the device.
 */
export async function wrongAttention(gpu: Gpu): Promise<string | null> {
  return await withRecorder(gpu, wrongPacked) ?? await withRecorder(gpu, wrongPaged);
}

async function wrongPacked(recorder: Recorder, allocator: Allocator): Promise<string | null> {
  const { heads, kv_heads, width } = ATTENTION, rules = { scale: ATTENTION.scale };
  const { count: N, rows } = packRows([{ prompt: 37, members: [20, 5] }], TILE_ROWS);
  const given = {
    ...{ q: numbers(1, [N, heads, width]), d_o: numbers(2, [N, heads, width]) },
    ...{ k: numbers(3, [N, kv_heads, width]), v: numbers(4, [N, kv_heads, width]) },
  };
  const of_queries = (values?: Float32Array) =>
    allocator.upload("canary", [N, heads, width], values ?? new Float32Array(N * heads * width));
  const of_keys = (values?: Float32Array) =>
    allocator.upload("canary", [N, kv_heads, width], values ?? new Float32Array(N * kv_heads * width));
  const t = {
    ...{ q: of_queries(given.q), d_o: of_queries(given.d_o), k: of_keys(given.k), v: of_keys(given.v) },
    ...{ o: of_queries(), d_q: of_queries(), d_k: of_keys(), d_v: of_keys() },
    rows: allocator.upload("canary", [N, 4], rows),
    ...{ lse: allocator.create("canary", [N, heads]), delta: allocator.create("canary", [N, heads]) },
  };
  attentionForward(recorder, t, rules);
  attentionBackward(recorder, t, rules);
  const expected = exactAttention(given, (row, kv) => {
    const [prefix_start, prefix_length, own_start] = rows.subarray(4 * row);
    const prefix = Array.from({ length: prefix_length! }, (_, i) => prefix_start! + i);
    const own = Array.from({ length: row + 1 - own_start! }, (_, i) => own_start! + i);
    return [...prefix, ...own].map((key) => (key * kv_heads + kv) * width);
  });
  const names = ["o", "lse", "d_q", "d_k", "d_v"] as const;
  const read = await recorder.submitAndRead(names.map((name) => t[name]));
  for (const [i, name] of names.entries()) {
    const wrong = firstFar(`${name} of attention`, read[i]!, expected[name]);
    if (wrong !== null) return wrong;
  }
  return null;
}

async function wrongPaged(recorder: Recorder, allocator: Allocator): Promise<string | null> {
  const { heads, kv_heads, width } = ATTENTION, pages = PROMPT_PAGES + SEQUENCES.length;
  const words = (values: readonly number[], ...shape: number[]) =>
    allocator.upload("canary", shape, Uint32Array.from(values));
  const shape = [pages, kv_heads, PAGE_TOKENS, width];
  const upload = (values: Float16Array) => {
    const tensor = allocator.create("canary", shape, "f16");
    allocator.write(tensor, values);
    return tensor;
  };
  const k = Float16Array.from(numbers(1, shape)), v = Float16Array.from(numbers(2, shape));
  const stored = { k_pages: upload(k), v_pages: upload(v) };
  // The prompt's pages in another order than that of the positions, and behind them a page of each sequence.
  const prompt = Array.from({ length: PROMPT_PAGES }, (_, i) => pages - 1 - i);
  const by_slot = SEQUENCES.map((_, slot) => [...prompt, slot]);
  const page_table = words(by_slot.flat(), SEQUENCES.length, SLOT_PAGES);
  const prefill = Array.from(
    { length: SEQUENCES[0]! - PREFILL_START },
    (_, i) => [0, PREFILL_START + i] as const,
  );
  const decode = SEQUENCES.map((tokens, slot) => [slot, tokens - 1] as const);
  const plan = planShared(by_slot, ATTENTION, { rows: 2, pages: 1, workgroups: 1 })!;
  const sharing = {
    tiles: words(plan.tiles.flat(), plan.tiles.length, 2),
    shared_tokens: words(plan.shared_tokens, SEQUENCES.length),
    range: plan.range,
  };
  const cases = [
    { name: "a prefill", rows: prefill, options: { adjacent: Infinity } },
    { name: "a decode", rows: decode, options: {} },
    { name: "a decode with a common prompt", rows: decode, options: { sharing } },
  ].map((given) => {
    const { rows, options } = given, N = rows.length, q = numbers(3, [N, heads, width]);
    const slots = rows.map(([slot]) => slot), positions = rows.map(([, position]) => position);
    const o = allocator.create("canary", [N, heads, width]);
    attentionPaged(
      recorder,
      {
        ...{ q: allocator.upload("canary", [N, heads, width], q), o, page_table },
        ...{ ...stored, slots: words(slots, N), positions: words(positions, N) },
        state: allocator.create("canary", [N, heads, 2]),
      },
      { scale: ATTENTION.scale },
      options,
    );
    const expected = exactAttention({ q, k, v }, (row, kv) =>
      Array.from({ length: positions[row]! + 1 }, (_, token) => {
        const page = by_slot[slots[row]!]![Math.floor(token / PAGE_TOKENS)]!;
        return ((page * kv_heads + kv) * PAGE_TOKENS + token % PAGE_TOKENS) * width;
      })).o;
    return { name: given.name, o, expected };
  });
  const read = await recorder.submitAndRead(cases.map(({ o }) => o));
  for (const [i, { name, expected }] of cases.entries()) {
    const wrong = firstFar(`o of attention over pages, in ${name},`, read[i]!, expected);
    if (wrong !== null) return wrong;
  }
  return null;
}
