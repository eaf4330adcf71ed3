import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { PAGE_TOKENS } from "../core/kv_pages.ts";
import { PREFERENCE_LOSS_NAMES } from "../core/preference_loss.ts";
import { adamw } from "./adamw/adamw.ts";
import { attentionBackward, attentionForward, headWidthStep, MAX_HEAD_WIDTH } from "./attention/attention.ts";
import type { AttentionRules } from "./attention/visibility.ts";
import { addBias } from "./bias/bias.ts";
import { NEEDED_LIMITS } from "./device.ts";
import { embedding } from "./embedding/embedding.ts";
import { gatedActivation, gatedActivationBackward } from "./gated_activation/gated_activation.ts";
import { interpolate } from "./interpolate/interpolate.ts";
import { type Kernel, kernelText } from "./kernel.ts";
import { attentionPaged } from "./kv_pages/attention_paged.ts";
import { kvCopyPage, kvRound, kvWrite } from "./kv_pages/kv_pages.ts";
import { loraGradient } from "./lora_gradient/lora_gradient.ts";
import { crossEntropyBackward, tokenLogprobs } from "./loss/cross_entropy.ts";
import { klDivergence } from "./loss/kl_divergence.ts";
import { policyLoss, sequenceRatio, sftLoss } from "./loss/policy_loss.ts";
import { preferenceLoss } from "./loss/preference_loss.ts";
import { matmul } from "./matmul/matmul.ts";
import type { Recorder } from "./recorder.ts";
import { rmsNorm, rmsNormBackward } from "./rms_norm/rms_norm.ts";
import { rope } from "./rope/rope.ts";
import { fill, gatherRows, scatterAddRows, scatterRows } from "./rows/rows.ts";
import { advance } from "./sample_token/advance.ts";
import { sampleToken, topCutoff } from "./sample_token/sample_token.ts";
import { softCap } from "./soft_cap/soft_cap.ts";
import { sumOfSquares } from "./sum/sum.ts";
import type { Allocator, DType, Tensor } from "./tensor.ts";
import { createWeight, type Weight } from "./weights/weight.ts";
import { WEIGHT_TYPE_NAMES, type WeightTypeName } from "./weights/table.ts";

/** The limits to test with; {@link NEEDED_LIMITS} are the minimum for opening a device. */
const MAX_WORKGROUP_BYTES = NEEDED_LIMITS.maxComputeWorkgroupStorageSize!;
const MAX_WORKGROUP_SIZE = NEEDED_LIMITS.maxComputeInvocationsPerWorkgroup!;
const MAX_STORAGE_BUFFERS = NEEDED_LIMITS.maxStorageBuffersPerShaderStage!;

const ROOT = new URL(".", import.meta.url);
const BYTES: Record<string, number> = { f32: 4, u32: 4, "vec2<f32>": 8, "vec4<f32>": 16 };

const f32 = (...shape: number[]) => ({ shape, dtype: "f32", offset_bytes: 0 }) as unknown as Tensor;
const of = (dtype: DType, ...shape: number[]) => ({ shape, dtype, offset_bytes: 0 }) as unknown as Tensor;

/** A weight of any type. */
function weightOf(type: WeightTypeName, rows: number, columns: number): Weight {
  const create = (_: string, shape: number[], dtype: DType) => of(dtype, ...shape);
  const allocator = { create, limit_bytes: Infinity };
  return createWeight(allocator as unknown as Allocator, "test", { type, shape: [rows, columns] });
}

function recordAttention(recorder: Recorder, width: number, heads: number, rules: AttentionRules): void {
  const N = 3, q = f32(N, heads, width), k = f32(N, 1, width), sums = f32(N, heads);
  const packed = { q, k, v: k, o: q, d_o: q, d_q: q, d_k: k, d_v: k, lse: sums, delta: sums };
  if (width % headWidthStep(width) === 0) {
    attentionForward(recorder, { ...packed, rows: of("u32", N, 4) }, rules);
    attentionBackward(recorder, { ...packed, rows: of("u32", N, 4) }, rules);
  }
  const places = { page_table: of("u32", 2, 2), slots: of("u32", N), positions: of("u32", N) };
  for (const dtype of ["f32", "f16"] as const) {
    const pages = of(dtype, 4, 1, PAGE_TOKENS, width);
    const paged = { ...places, k_pages: pages, v_pages: pages };
    attentionPaged(recorder, { ...paged, q, o: q, state: f32(N, heads, 2) }, rules);
    kvWrite(recorder, { ...paged, k, v: k });
    kvCopyPage(recorder, { ...paged, copies: of("u32", 1, 3) });
    kvRound(recorder, { k, v: k }, dtype);
  }
}

function recordMatmul(recorder: Recorder): void {
  for (const type of WEIGHT_TYPE_NAMES) {
    const table = weightOf(type, 64, 256);
    embedding(recorder, { ids: of("u32", 3), table, x: f32(3, 256) });
    for (const rows of [1, 20, 100, 1000]) {
      for (const compute of ["f32", "f16"] as const) {
        matmul(recorder, "nt", { x: f32(rows, 256), weight: table, y: f32(rows, 64) }, { compute });
        matmul(recorder, "nn", { x: f32(rows, 64), weight: table, y: f32(rows, 256) }, { compute });
      }
    }
  }
  for (const rank of [4, 16, 64]) {
    const tensors = { p: f32(9, 64), q: f32(9, rank), out: f32(64, rank), partials: f32(64 * rank) };
    loraGradient(recorder, tensors, { order: "column_rank", alpha: 1 });
  }
}

/** Records all kernels that work on rows of a width. */
function recordRows(recorder: Recorder, width: number): void {
  const x = f32(3, width), v = f32(width), r = f32(3), index = of("u32", 3);
  rmsNorm(recorder, { x, y: x, gamma: v, rstd: r }, 1e-6);
  rmsNorm(recorder, { x, y: x, gamma: v, rstd: r, residual: x }, 1e-6);
  rmsNormBackward(recorder, { x, gamma: v, rstd: r, d_y: x, d_x: x }, { accumulate: true });
  for (const activation of ["silu", "gelu_tanh"] as const) {
    gatedActivation(recorder, { gate: x, up: x, h: x }, activation);
    gatedActivationBackward(recorder, { gate: x, up: x, d_h: x, d_gate: x, d_up: x }, activation);
  }
  gatherRows(recorder, { x, y: x, index });
  scatterRows(recorder, { x, y: x, index });
  scatterAddRows(recorder, { x, y: x, index });
  fill(recorder, v, 0);
  interpolate(recorder, { origin: v, x: v }, 0.5);
  fill(recorder, of("u32", width), 0);
  sumOfSquares(recorder, { x: [v], partials: f32(1 << 14), out: f32(1) });
  const rotated = { x: f32(3, 2, 2 * width), positions: index, cosines: f32(9, width), sines: f32(9, width) };
  rope(recorder, rotated, { inverse: false });
  rope(recorder, rotated, { inverse: false, pairing: "adjacent" });
  addBias(recorder, { y: x, bias: f32(width) });
  softCap(recorder, { x }, 30);
  const options = { lr: 1, beta1: 0.9, beta2: 0.99, eps: 1e-8, weight_decay: 0, max_grad_norm: 1, step: 1 };
  adamw(recorder, { parts: [{ p: v, g: v, m: v, v }], norm_sq: f32(1), stats: of("u32", 4) }, options);
}

function recordVocabulary(recorder: Recorder, vocabulary: number): void {
  const logits = f32(3, vocabulary), r = f32(3), words = of("u32", 3), partials = f32(1 << 12);
  const loss = { logits, targets: words, partials, logsumexp: f32(3, 2), g: r };
  tokenLogprobs(recorder, { ...loss, logprob: r, entropy: r }, 0);
  crossEntropyBackward(recorder, loss, 0);
  crossEntropyBackward(recorder, loss, 0, 30);
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
    preferenceLoss(recorder, pairs, { loss, beta: 1, gamma: 0, lambda: 0, normalizer: 1 });
  }
  const rows = { temperature: r, position: words, token: words, logprob: r, rng_key: of("u32", 3, 2) };
  sampleToken(recorder, { ...rows, logits, partials, mask: null, cutoff: null });
  topCutoff(recorder, { logits, mask: null, temperature: r, top_k: words, top_p: r, cutoff: r });
  const state = { position: words, token_position: words, remaining: words, slots: words };
  advance(recorder, { ...rows, ...state, stop_tokens: of("u32", 3, 8), out: of("u32", 2, 1, 3) }, 0);
}

/** The kernels that such a device runs, for all widths of models. */
function kernelsOf(software: boolean, subgroup_size: number): Kernel[] {
  const kernels = new Set<Kernel>();
  const recorder = {
    gpu: { facts: { software }, subgroup_size },
    empty: f32(16),
    dispatch(kernel: Kernel, params: Record<string, number>, operands: Record<string, Tensor>) {
      for (const name of [...kernel.inputs, ...kernel.outputs]) assert.ok(operands[name], name);
      for (const name of Object.keys(kernel.params)) assert.ok(Number.isFinite(params[name]), name);
      kernels.add(kernel);
    },
  } as unknown as Recorder;
  const step = software ? 64 : 4;
  for (let width = step; width <= MAX_HEAD_WIDTH; width += step) {
    for (const heads of software ? [7] : [1, 2, 7, 16]) recordAttention(recorder, width, heads, { scale: 1 });
    recordAttention(recorder, width, 7, { scale: 1, window: 9, soft_cap: 50 });
  }
  recordMatmul(recorder);
  for (const width of [3, 64, 2050, 4096]) recordRows(recorder, width);
  for (const vocabulary of [131, 1024]) recordVocabulary(recorder, vocabulary);
  return [...kernels];
}

/** The value of a WGSL product of integers and constants that the text declares. */
function valueOf(text: string, expression: string): number {
  return expression.split("*").reduce((product, factor) => {
    const name = factor.trim(), number = /^(\d+)u?$/.exec(name);
    if (number) return product * Number(number[1]);
    const constant = new RegExp(`^const ${name} = (.+);`, "m").exec(text);
    assert.ok(constant, `a constant ${name}`);
    return product * valueOf(text, constant[1]!);
  }, 1);
}

function workgroupBytes(text: string): number {
  const all = [...text.matchAll(/^var<workgroup> \w+: array<(.+), (.+)>;$/gm)];
  assert.equal(
    text.split("var<workgroup>").length - 1,
    all.length,
    "every declaration is an array of its line",
  );
  return all.reduce((sum, [, type, count]) => sum + BYTES[type!]! * valueOf(text, count!), 0);
}

function expectWithinLimits(name: string, text: string): void {
  const bytes = workgroupBytes(text);
  assert.ok(bytes <= MAX_WORKGROUP_BYTES, `${name} takes ${bytes} bytes of workgroup memory`);
  const size = /@workgroup_size\((.+?)\)/.exec(text)![1]!.split(",").map((part) => valueOf(text, part));
  assert.ok(size.reduce((a, b) => a * b) <= MAX_WORKGROUP_SIZE, `${name} has a workgroup of ${size}`);
  const buffers = text.split("var<storage").length - 1;
  assert.ok(buffers <= MAX_STORAGE_BUFFERS, `${name} binds ${buffers} storage buffers`);
  assert.doesNotMatch(text, /^\s*enable\b/m, `${name} needs no extension of the language`);
}

const kernels = [[true, 8], [true, 0], [false, 32]].flatMap(([software, size]) =>
  kernelsOf(Boolean(software), Number(size))
);

Deno.test("every kernel keeps within the limits that a device is opened with", () => {
  assert.ok(MAX_WORKGROUP_BYTES <= 16_384 && MAX_WORKGROUP_SIZE <= 256 && MAX_STORAGE_BUFFERS <= 10);
  for (const kernel of new Set(kernels)) {
    const text = kernelText(kernel);
    expectWithinLimits(kernel.name, text);
    const bound = kernel.inputs.length + kernel.outputs.length;
    assert.equal(text.split("var<storage").length - 1, bound, `${kernel.name} declares what it binds`);
  }
});

Deno.test("every shader's file is in a kernel whose limits are tested", () => {
  const files = readdirSync(ROOT, { recursive: true, encoding: "utf8" }).filter((f) => f.endsWith(".wgsl"));
  const texts = kernels.map(kernelText);
  for (const file of files) {
    const text = Deno.readTextFileSync(new URL(file, ROOT));
    // A device is probed before there are kernels, so the probe's text belongs to no kernel.
    if (file.endsWith("subgroup_probe.wgsl")) expectWithinLimits(file, text);
    else {
      const header = /^\/\/ [^\n{]+/.exec(text)![0];
      assert.ok(texts.some((whole) => whole.includes(header)), `a kernel with the text of ${file}`);
    }
  }
});
