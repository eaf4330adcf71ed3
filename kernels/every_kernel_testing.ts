/** Every kernel that a device runs, from the launch functions themselves. Tests and static checks go through the list. */

import assert from "node:assert/strict";
import type { GpuCard } from "../core/device.ts";
import { PAGE_TOKENS } from "../core/kv_pages.ts";
import { PREFERENCE_LOSS_NAMES } from "../core/preference_loss.ts";
import { adamw } from "./adamw/adamw.ts";
import { attentionBackward, attentionForward, headWidthStep } from "./attention/attention.ts";
import type { AttentionRules } from "./attention/visibility.ts";
import { addBias } from "./bias/bias.ts";
import { embedding } from "./embedding/embedding.ts";
import { fusedGate, fusedHeads, fusedRows } from "./fused/fused.ts";
import { fusedHeadsLanes } from "./fused/fused_heads_lanes.ts";
import { gatedActivation, gatedActivationBackward } from "./gated_activation/gated_activation.ts";
import { interpolate } from "./interpolate/interpolate.ts";
import type { Kernel } from "./kernel.ts";
import { attentionPaged } from "./kv_pages/attention_paged.ts";
import { kvCopyPage, kvPlaces, kvRound, kvWrite } from "./kv_pages/kv_pages.ts";
import { loraGradient } from "./lora_gradient/lora_gradient.ts";
import { crossEntropyBackward, tokenLogprobs } from "./loss/cross_entropy.ts";
import { klDivergence } from "./loss/kl_divergence.ts";
import { policyLoss, sequenceRatio, sftLoss } from "./loss/policy_loss.ts";
import { preferenceLoss } from "./loss/preference_loss.ts";
import { type LoraTerm, matmul, takesNorm } from "./matmul/matmul.ts";
import { type MatmulKind, readsPairs } from "./matmul/matmul_text.ts";
import { everyLayout, everyMatrices, layoutName, type MatmulLayout, TILES } from "./matmul/matmul_layout.ts";
import { matmulSegments } from "./matmul/matmul_segments.ts";
import { rowScales } from "./matmul/row_scales.ts";
import { fitsTwin, matmulTwin } from "./matmul/matmul_twin.ts";
import { type Recorder, SCRATCH_BYTES } from "./recorder.ts";
import { rmsNorm, rmsNormBackward } from "./rms_norm/rms_norm.ts";
import { rope } from "./rope/rope.ts";
import { fill, gatherRows, packHalves, scatterAddRows, scatterRows, unpackHalves } from "./rows/rows.ts";
import { advance } from "./sample_token/advance.ts";
import { sampleToken, topCutoff } from "./sample_token/sample_token.ts";
import { softCap } from "./soft_cap/soft_cap.ts";
import { sumOfSquares } from "./sum/sum.ts";
import type { Allocator, DType, Tensor } from "./tensor.ts";
import { deviceForm } from "./variant.ts";
import { createWeight, type Weight } from "./weights/weight.ts";
import { WEIGHT_TYPE_NAMES, type WeightTypeName } from "./weights/table.ts";

/** The shapes for which kernels are listed. */
export interface KernelShapes {
  /** The width of a head, the query heads that share a key/value head, and what else the scores follow. */
  heads: readonly { width: number; group: number; rules?: Omit<AttentionRules, "scale"> }[];
  /** Widths of rows: hidden states, feed-forward blocks, heads. */
  widths: readonly number[];
  vocabularies: readonly number[];
}

const f32 = (...shape: number[]) => ({ shape, dtype: "f32", offset_bytes: 0 }) as unknown as Tensor;
const of = (dtype: DType, ...shape: number[]) => ({ shape, dtype, offset_bytes: 0 }) as unknown as Tensor;

/** A weight of any type. */
function weightOf(type: WeightTypeName, rows: number, columns: number): Weight {
  const create = (_: string, shape: number[], dtype: DType) => of(dtype, ...shape);
  const allocator = { create, limit_bytes: Infinity };
  return createWeight(allocator as unknown as Allocator, "test", { type, shape: [rows, columns] });
}

/** Collects the dispatched kernels. A kernel is named after the first use that dispatched it. */
class KernelLister {
  readonly names = new Map<Kernel, string>();
  readonly empty = f32(16);
  readonly scratch = f32(SCRATCH_BYTES / 4);
  readonly #taken = new Set<string>();
  #use = "";

  constructor(readonly gpu: Pick<GpuCard, "facts" | "subgroup_size">) {}

  /** The recorder for dispatches of a use. */
  for(use: string): Recorder {
    this.#use = use;
    return this as unknown as Recorder;
  }

  dispatch(kernel: Kernel, params: Record<string, number>, operands: Record<string, Tensor>): void {
    for (const name of [...kernel.inputs, ...kernel.outputs]) assert.ok(operands[name], name);
    for (const name of Object.keys(kernel.params)) assert.ok(Number.isFinite(params[name]), name);
    if (this.names.has(kernel)) return;
    const name = `${kernel.name}, ${this.#use}`;
    assert.ok(!this.#taken.has(name), `the uses of ${name} tell its kernels apart`);
    this.#taken.add(name);
    this.names.set(kernel, name);
  }
}

function listAttention(list: KernelLister, { width, group, rules }: KernelShapes["heads"][number]): void {
  const shown = Object.entries(rules ?? {}).map(([name, value]) => `, ${name} ${value}`).join("");
  const use = `${group} heads of ${width}${shown}`, scaled = { scale: 1, ...rules };
  const N = 3, q = f32(N, group, width), k = f32(N, 1, width);
  // As many rows as a GPU divides into parts.
  for (const rows of [N, 512]) {
    const q = f32(rows, group, width), k = f32(rows, 1, width), sums = f32(rows, group);
    const packed = { q, k, v: k, o: q, d_o: q, d_q: q, d_k: k, d_v: k, lse: sums, delta: sums };
    if (width % headWidthStep(width) !== 0) continue;
    attentionForward(list.for(use), { ...packed, rows: of("u32", rows, 4) }, scaled);
    attentionBackward(list.for(use), { ...packed, rows: of("u32", rows, 4) }, scaled);
  }
  const places = { page_table: of("u32", 2, 2), slots: of("u32", N), positions: of("u32", N) };
  for (const dtype of ["f32", "f16"] as const) {
    const pages = of(dtype, 4, 1, PAGE_TOKENS, width);
    const paged = { ...places, k_pages: pages, v_pages: pages };
    const attended = { ...paged, q, o: q, state: f32(N, group, 2) };
    attentionPaged(list.for(`${use}, ${dtype}`), attended, scaled, { adjacent: Infinity });
    // As many tokens as a GPU divides into splits.
    const page_table = of("u32", 2, 64);
    const sharing = { tiles: of("u32", 1, 2), shared_tokens: of("u32", N), range: [32, 32] as const };
    attentionPaged(list.for(`${use}, ${dtype}`), { ...attended, page_table }, scaled, { sharing });
    const recorder = list.for(dtype);
    kvWrite(recorder, { ...paged, k, v: k });
    kvPlaces(recorder, { ...places, places: of("u32", N, 2) }, 1);
    kvCopyPage(recorder, { ...paged, copies: of("u32", 1, 3) });
    kvRound(recorder, { k, v: k }, dtype);
  }
}

/** Types of the weights of one dispatch, with an adapter's A: projections of equal inputs in f16, in Q8_0 and in a K mixture. */
const SEGMENT_TYPES: readonly (readonly WeightTypeName[])[] = [
  ["f16", "f32"],
  ["f16", "f16", "f32"],
  ["f16", "f16", "f16", "f32"],
  ["q8_0", "f32"],
  ["q8_0", "q8_0", "f32"],
  ["q8_0", "q8_0", "q8_0", "f32"],
  ["q4_k", "f32"],
  ["q6_k", "f32"],
  ["q4_k", "q4_k", "f32"],
  ["q4_k", "q4_k", "q4_k", "f32"],
  ["q4_k", "q4_k", "q6_k", "f32"],
];

/** Products of segments, which only GPUs have. */
function listSegments(list: KernelLister): void {
  for (const types of SEGMENT_TYPES) {
    const weights = types.map((type) => weightOf(type, 64, 256)), { large, middle, small } = TILES;
    const x = f32(20, 256), matrices = everyMatrices(list.gpu, "f16");
    for (const layout of [large, middle, small]) {
      const recorder = list.for(layoutName({ ...layout, split: false }));
      if (matrices.length === 0) matmulSegments(recorder, { x, weights }, { compute: "f16", layout });
      if (types[0] === "f16") matmulSegments(recorder, { x, weights }, { compute: "f32", layout });
    }
    for (const layout of matrices) {
      matmulSegments(list.for(layoutName(layout)), { x, weights }, { compute: "f16", layout });
    }
  }
}

/** The kernels that follow products of segments, and on software adapters projections. */
function listFused(list: KernelLister, heads: KernelShapes["heads"], compute: "f32" | "f16"): void {
  const N = 40,
    F = 512,
    is_gpu = deviceForm(list.gpu) === "tiles",
    sums = f32(64),
    segment = (columns: number) => ({ place: 0, chunks: 2, columns });
  for (const rank of is_gpu ? [16, 64, 256] : []) {
    const term = { column: 0, matrix: f32(F, rank) };
    const product = (count: number) => ({
      product: { sums, segments: [...Array.from({ length: count }, () => segment(F)), segment(rank)] },
      ...{ terms: Array.from({ length: count }, () => term), scale: 1, compute },
    });
    const recorder = list.for(`rank ${rank}, ${compute}`), y = f32(N, F), gamma = f32(F);
    fusedRows(recorder, product(1), { residual: y, y, norm: { gamma, normed: y, eps: 1 } });
    fusedGate(recorder, product(2), y, "silu");
    fusedGate(list.for(`rank ${rank}, ${compute}, few rows`), product(2), f32(3, F), "silu");
  }
  for (const { width } of heads) {
    const places = of("u32", N, 2), q = f32(N, 1, width), vectors = f32(width);
    const pages = of(compute, 4, 1, PAGE_TOKENS, width), head = { bias: vectors, gamma: vectors };
    for (const pairing of ["half", "adjacent"] as const) {
      const rotation = { cosines: f32(9, width / 2), sines: f32(9, width / 2), pairing },
        matrix = f32(width, 16);
      const segments = [...Array.from({ length: 3 }, () => segment(width)), segment(16)];
      const term = { column: 0, matrix }, terms = [term, term, term];
      const tensors = { rotation, places, q, k_pages: pages, v_pages: pages };
      if (deviceForm(list.gpu) === "lanes") {
        // All in one dispatch, and with many rows one for each.
        for (const rows of [N, 64]) {
          const x = () => f32(rows, 1, width);
          const projected = { ...tensors, places: of("u32", rows, 2), q: x(), k: x(), v: x() };
          const full = [head, head, { bias: vectors, gamma: null }] as const;
          fusedHeadsLanes(list.for(`${pairing}, ${compute}`), { ...projected, heads: full }, 1);
          const none = { bias: null, gamma: null },
            bare = { heads: [none, none, none] as const, rotation: null };
          if (pairing === "half") fusedHeadsLanes(list.for(`bare, ${compute}`), { ...projected, ...bare }, 1);
        }
        continue;
      }
      fusedHeads(
        list.for(`heads of ${width}, ${pairing}, ${compute}`),
        { product: { sums, segments }, terms, scale: 1, compute },
        { heads: [head, head, head], ...tensors },
        1,
      );
    }
  }
}

/** The layouts of a device's products. */
function layoutsOf(
  gpu: KernelLister["gpu"],
  { compute, ...kind }: MatmulKind,
): MatmulLayout[] {
  const matrices = everyMatrices(gpu, compute);
  return matrices.length > 0 ? matrices : everyLayout(gpu, { reads_pairs: readsPairs(kind) });
}

function listMatmul(list: KernelLister): void {
  for (const type of WEIGHT_TYPE_NAMES) {
    const table = weightOf(type, 64, 256);
    embedding(list.for("any table"), { ids: of("u32", 3), table, x: f32(3, 256) });
    for (const compute of ["f32", "f16"] as const) {
      for (const orientation of ["nt", "nn"] as const) {
        const [x, y] = orientation === "nt" ? [f32(20, 256), f32(20, 64)] : [f32(20, 64), f32(20, 256)];
        for (const layout of layoutsOf(list.gpu, { weight: type, compute, orientation })) {
          matmul(list.for(layoutName(layout)), orientation, { x, weight: table, y }, { compute, layout });
        }
      }
    }
  }
  for (const layout of everyMatrices(list.gpu, "f16")) {
    const tensors = {
      x: f32(20, 64),
      weight: weightOf("f16", 64, 256),
      y: f32(20, 256),
      row_scales: f32(20),
    };
    rowScales(list.for("any rows"), { x: tensors.x, scales: tensors.row_scales });
    matmul(list.for(layoutName(layout)), "nn", tensors, { compute: "f16", layout });
  }
  const long = weightOf("f32", 64, 512), split = { ...TILES.small, split: true };
  if (deviceForm(list.gpu) === "tiles") {
    const tensors = { x: f32(20, 512), weight: long, y: f32(20, 64) };
    matmul(list.for("any product"), "nt", tensors, { compute: "f32", layout: split });
  } else {
    const x = f32(20, 256), y = f32(20, 64);
    const column = { u: f32(32, 256), u_is_a: true, matrix: f32(64, 8), scale: 1 };
    const terms = [{ ...column, column: 0 }, { ...column, column: 8 }] as const;
    const of_u = terms.map((term) => ({ ...term, u: f32(20, 32), u_is_a: false })) as [LoraTerm, LoraTerm];
    for (const type of ["f16", "q4_k"] as const) {
      const weight = weightOf(type, 64, 256), twin = { x, weights: [weight, weight] as const, terms };
      for (const layout of everyLayout(list.gpu, { reads_pairs: type === "f16" })) {
        const name = layoutName(layout), options = { compute: "f32", layout } as const;
        const y_of = { x, weight, y };
        for (const [what, lora] of Object.entries({ "A itself": terms[0], "x · Aᵀ": of_u[0] })) {
          matmul(list.for(`${name}, ${what}`), "nt", { ...y_of, lora }, options);
        }
        matmulTwin(
          list.for(`${name}, x · Aᵀ`),
          { ...twin, terms: of_u, out: { h: y, activation: "silu" } },
          options,
        );
        const fits = fitsTwin(list.gpu, { ...twin, outputs: 2 });
        if (fits) matmulTwin(list.for(name), { ...twin, out: [y, y] }, options);
        if (takesNorm(list.gpu, 1, weight) && layout.form === "lanes" && layout.owns === "columns") {
          const norm = { gamma: f32(256), eps: 1 }, recorder = list.for(`${name}, normalised`);
          matmul(recorder, "nt", { ...y_of, norm, lora: terms[0] }, options);
          matmulTwin(recorder, { ...twin, norm, out: [y, y] }, options);
          matmulTwin(recorder, { ...twin, norm, out: { h: y, activation: "silu" } }, options);
        }
        for (const activation of ["silu", "gelu_tanh"] as const) {
          matmulTwin(list.for(`${name}, ${activation}`), { ...twin, out: { h: y, activation } }, options);
        }
      }
    }
  }
  for (const rank of [4, 8, 12, 16, 24, 32, 48, 64]) {
    const tensors = { p: f32(9, 64), q: f32(9, rank), out: f32(64, rank), partials: f32(64 * rank) };
    loraGradient(list.for(`rank ${rank}`), tensors, { order: "column_rank", alpha: 1 });
  }
}

/** Lists all kernels that work on rows of a width. */
function listRows(list: KernelLister, width: number): void {
  const x = f32(3, width), v = f32(width), r = f32(3), index = of("u32", 3), use = `width ${width}`;
  const recorder = list.for(use);
  rmsNorm(recorder, { x, y: x, gamma: v, rstd: r }, 1e-6);
  rmsNorm(recorder, { x, y: x, gamma: v, rstd: r, residual: x }, 1e-6);
  rmsNormBackward(recorder, { x, gamma: v, rstd: r, d_y: x, d_x: x }, { accumulate: true });
  for (const activation of ["silu", "gelu_tanh"] as const) {
    const recorder = list.for(`${use}, ${activation}`);
    gatedActivation(recorder, { gate: x, up: x, h: x }, activation);
    gatedActivationBackward(recorder, { gate: x, up: x, d_h: x, d_gate: x, d_up: x }, activation);
  }
  list.for(use);
  gatherRows(recorder, { x, y: x, index });
  if (width % 4 === 0) {
    const halves = of("f16", ...x.shape);
    packHalves(recorder, { x, halves });
    unpackHalves(recorder, { x, halves });
  }
  scatterRows(recorder, { x, y: x, index });
  scatterAddRows(recorder, { x, y: x, index });
  fill(recorder, v, 0);
  interpolate(recorder, { origin: v, x: v }, 0.5);
  fill(list.for(`${use}, u32`), of("u32", width), 0);
  list.for(use);
  sumOfSquares(recorder, { x: [v], partials: f32(1 << 14), out: f32(1) });
  const rotated = { x: f32(3, 2, 2 * width), positions: index, cosines: f32(9, width), sines: f32(9, width) };
  rope(recorder, rotated, { inverse: false });
  rope(recorder, rotated, { inverse: false, pairing: "adjacent" });
  addBias(recorder, { y: x, bias: f32(width) });
  softCap(recorder, { x }, 30);
  const options = { lr: 1, beta1: 0.9, beta2: 0.99, eps: 1e-8, weight_decay: 0, max_grad_norm: 1, step: 1 };
  adamw(recorder, { parts: [{ p: v, g: v, m: v, v }], norm_sq: f32(1), stats: of("u32", 4) }, options);
}

function listVocabulary(list: KernelLister, vocabulary: number): void {
  const logits = f32(3, vocabulary), r = f32(3), words = of("u32", 3);
  const partials = f32(1 << 16), use = `vocabulary ${vocabulary}`, recorder = list.for(use);
  const loss = { logits, targets: words, partials, logsumexp: f32(3, 2), g: r };
  tokenLogprobs(recorder, { ...loss, logprob: r, entropy: r }, 0);
  crossEntropyBackward(recorder, loss, 0);
  crossEntropyBackward(list.for(`${use}, soft_cap 30`), loss, 0, 30);
  list.for(use);
  const logsumexps = { p_logsumexp: loss.logsumexp, q_logsumexp: loss.logsumexp };
  klDivergence(recorder, { ...logsumexps, p_logits: logits, q_logits: logits, partials, divergence: r }, 0);
  const range = { first_row: 0, rows: 3, normalizer: 1 }, weights = { logprob: r, weight: r, g: r };
  const results = f32(4, 3);
  sftLoss(recorder, { ...weights, results }, range);
  const policy = { ...weights, results, ratio: null, reference_logprob: null, advantage: r };
  policyLoss(recorder, policy, { ...range, clip_low: 0.2, clip_high: 0.2, kl_coefficient: 0 });
  const ratio = { logprob: r, old_logprob: r, log_ratio: r, ranges: of("u32", 1, 2) };
  sequenceRatio(recorder, ratio);
  const pairs = { logprob: r, reference_logprob: r, ranges: of("u32", 1, 3), g: r, results };
  for (const loss of PREFERENCE_LOSS_NAMES) {
    preferenceLoss(list.for(loss), pairs, { loss, beta: 1, gamma: 0, lambda: 0, normalizer: 1 });
  }
  list.for(use);
  const rows = { temperature: r, position: words, token: words, logprob: r, rng_key: of("u32", 3, 2) };
  sampleToken(recorder, { ...rows, logits, partials, mask: null, cutoff: null });
  topCutoff(recorder, { logits, mask: null, temperature: r, top_k: words, top_p: r, cutoff: r });
  const state = { position: words, token_position: words, remaining: words, slots: words };
  advance(recorder, { ...rows, ...state, stop_tokens: of("u32", 3, 8), out: of("u32", 2, 1, 3) }, 0);
}

/** The kernels that a device runs for these shapes, each with a name that tells it from the others. */
export function everyKernel(
  card: Pick<GpuCard, "facts" | "subgroup_size">,
  { heads, widths, vocabularies }: KernelShapes,
): Map<Kernel, string> {
  const list = new KernelLister(card);
  for (const head of heads) listAttention(list, head);
  listMatmul(list);
  if (deviceForm(card) === "tiles") listSegments(list);
  for (const compute of ["f32", "f16"] as const) listFused(list, heads, compute);
  for (const width of widths) listRows(list, width);
  for (const vocabulary of vocabularies) listVocabulary(list, vocabulary);
  return list.names;
}
