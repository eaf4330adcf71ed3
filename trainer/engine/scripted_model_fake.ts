/**
 * A small policy for tests that need an engine without a GPU. The distribution of the next token depends only on the
 * last token. Base logits are a hash of both tokens. An adapter is a table of differences to them, which
 * {@link BigramModel.trainStep} trains in f64.
 */

import { existsSync } from "node:fs";
import { partialPath } from "../../core/files.ts";
import { pcg4d } from "../../core/random.ts";
import { encodeGgufHeader } from "../formats/gguf_writer.ts";
import type {
  LossRequest,
  OptimizerRequest,
  SampleMeasure,
  SamplingRequest,
  TrainingSample,
} from "../protocol/protocol.ts";
import { effectiveTemperature } from "../sampler/decode_state.ts";
import { type LossTerm, pairTerms } from "./scripted_preference_fake.ts";

type Rows = Map<number, Float64Array>;

/** The trained part of a policy, with the moments of its optimiser. Missing rows are zero. */
export interface BigramAdapter {
  version: number;
  step: number;
  delta: Rows;
  first_moment: Rows;
  second_moment: Rows;
}

export function newBigramAdapter(): BigramAdapter {
  return { version: 0, step: 0, delta: new Map(), first_moment: new Map(), second_moment: new Map() };
}

const copyRows = (rows: Rows): Rows => new Map([...rows].map(([key, row]) => [key, row.slice()]));

/** A copy of the values. Moments and counts start at zero. */
export function copyBigramAdapter(adapter: BigramAdapter): BigramAdapter {
  return { ...newBigramAdapter(), delta: copyRows(adapter.delta) };
}

/** adapter := from + scale · (adapter − from) */
export function interpolateBigramAdapter(adapter: BigramAdapter, from: BigramAdapter, scale: number): void {
  for (const key of new Set([...adapter.delta.keys(), ...from.delta.keys()])) {
    const width = (adapter.delta.get(key) ?? from.delta.get(key))!.length;
    const row = rowOf(adapter.delta, key, width), origin = rowOf(from.delta, key, width);
    for (let i = 0; i < width; i++) row[i] = origin[i]! + scale * (row[i]! - origin[i]!);
  }
  adapter.version++;
}

/** Sampling settings with a bit mask of the allowed tokens; null: all are allowed. */
export interface MaskedSampling extends SamplingRequest {
  allowed: Uint32Array | null;
}

export class BigramModel {
  readonly #base: Rows = new Map();

  constructor(readonly vocabulary: number) {}

  /** log softmax((base + delta)[previous] / temperature) over the allowed tokens; −∞ for others. */
  logprobs(adapter: BigramAdapter | null, previous: number, sampling?: MaskedSampling): Float64Array {
    const delta = adapter?.delta.get(previous);
    const temperature = effectiveTemperature(sampling?.temperature ?? 1) || 1;
    const logits = this.#baseRow(previous).map((x, v) => (x + (delta?.[v] ?? 0)) / temperature);
    const bits = sampling?.allowed;
    if (bits) {
      for (let v = 0; v < logits.length; v++) {
        if ((bits[v >>> 5]! >>> (v & 31) & 1) === 0) logits[v] = -Infinity;
      }
    }
    return logSoftmax(sampling ? truncateSupport(logSoftmax(logits), sampling) : logits);
  }

  /** The token at `position`: the argmax at temperature 0, else inverse transform sampling with (rng_key, position). */
  sample(logprobs: Float64Array, position: number, sampling: SamplingRequest): number {
    if (effectiveTemperature(sampling.temperature) === 0) return logprobs.indexOf(Math.max(...logprobs));
    const [k0, k1] = sampling.rng_key;
    let left = (pcg4d(k0, k1, position, 0)[0] + 0.5) / 2 ** 32;
    let last = 0;
    for (let v = 0; v < logprobs.length; v++) {
      const p = Math.exp(logprobs[v]!);
      if (p === 0) continue;
      last = v;
      if ((left -= p) < 0) break;
    }
    return last;
  }

  /** The log-probability of every masked token of a sample, in nats. */
  score(adapter: BigramAdapter | null, sample: TrainingSample): Float64Array {
    return Float64Array.from(
      maskedPositions(sample),
      (t) => this.logprobs(adapter, sample.tokens[t - 1]!)[sample.tokens[t]!]!,
    );
  }

  /** KL(p‖q) of the distribution of every masked token of a sample, in nats. */
  divergence(p: BigramAdapter | null, q: BigramAdapter | null, sample: TrainingSample): Float32Array {
    return Float32Array.from(maskedPositions(sample), (t) => {
      const log_p = this.logprobs(p, sample.tokens[t - 1]!), log_q = this.logprobs(q, sample.tokens[t - 1]!);
      return log_p.reduce((sum, lp, v) => sum + Math.exp(lp) * (lp - log_q[v]!), 0);
    });
  }

  /** One AdamW step. Returns the loss, the norm of its gradient, and the measures of the samples. */
  trainStep(
    adapter: BigramAdapter,
    request: { samples: TrainingSample[]; loss: LossRequest; optimizer: OptimizerRequest },
  ): { loss: number; grad_norm: number; samples: SampleMeasure[] } {
    const gradient: Rows = new Map();
    const all_scored = request.samples.map((s) => this.score(adapter, s));
    const terms = lossTerms(request.loss, request.samples, all_scored);
    let loss = 0;
    const samples = request.samples.map((sample, i) => {
      const scored = all_scored[i]!, own = terms[i]!;
      const measure: SampleMeasure = {
        logprobs: Float32Array.from(scored),
        entropies: new Float32Array(scored.length),
        ratios: Float32Array.from(own.flatMap(({ ratio }) => ratio ?? [])),
        score: own[0]?.score ?? null,
        clipped: Int8Array.from(own, ({ clipped }) => clipped),
      };
      for (const [k, t] of maskedPositions(sample).entries()) {
        const term = own[k]!;
        loss += term.loss;
        const row = this.logprobs(adapter, sample.tokens[t - 1]!);
        measure.entropies[k] = -row.reduce((sum, lp) => sum + Math.exp(lp) * lp, 0);
        const grad = rowOf(gradient, sample.tokens[t - 1]!, this.vocabulary);
        for (let v = 0; v < row.length; v++) {
          grad[v]! += term.gradient * ((v === sample.tokens[t]! ? 1 : 0) - Math.exp(row[v]!));
        }
      }
      return measure;
    });
    return { loss, grad_norm: adamw(adapter, gradient, request.optimizer), samples };
  }

  #baseRow(previous: number): Float64Array {
    let row = this.#base.get(previous);
    if (!row) {
      row = Float64Array.from(
        { length: this.vocabulary },
        (_, v) => pcg4d(previous, v, 0xb1, 0x6a)[0] / 2 ** 30 - 2,
      );
      this.#base.set(previous, row);
    }
    return row;
  }
}

/** The indices of the trained tokens of a sample. */
export function maskedPositions(sample: TrainingSample): number[] {
  const positions: number[] = [];
  sample.loss_mask.forEach((m, t) => m && positions.push(t));
  return positions;
}

function logSoftmax(logits: Float64Array): Float64Array {
  const top = Math.max(...logits);
  const norm = top + Math.log(logits.reduce((sum, x) => sum + Math.exp(x - top), 0));
  return logits.map((x) => x - norm);
}

/** Sets −∞ for all but the `top_k` most probable tokens and the smallest set with probability `top_p`. */
function truncateSupport(logprobs: Float64Array, sampling: SamplingRequest): Float64Array {
  if (sampling.top_k === 0 && sampling.top_p >= 1) return logprobs;
  const order = [...logprobs.keys()].sort((a, b) => logprobs[b]! - logprobs[a]! || a - b);
  const kept = new Set<number>();
  let mass = 0;
  for (const v of order.slice(0, sampling.top_k || order.length)) {
    if (mass >= sampling.top_p) break;
    kept.add(v);
    mass += Math.exp(logprobs[v]!);
  }
  return logprobs.map((lp, v) => kept.has(v) ? lp : -Infinity);
}

/** For every sample exp(mean of logπ − logπ_old over all masked tokens of its trajectory). */
function sequenceRatios(samples: TrainingSample[], logprobs: Float64Array[]): number[] {
  const sums = new Map<number, { sum: number; count: number }>();
  samples.forEach((sample, i) => {
    const total = sums.get(sample.trajectory) ?? { sum: 0, count: 0 };
    maskedPositions(sample).forEach((t, k) => {
      total.sum += sample.old_logprobs ? logprobs[i]![k]! - sample.old_logprobs[t]! : 0;
      total.count++;
    });
    sums.set(sample.trajectory, total);
  });
  return samples.map((sample) => {
    const { sum, count } = sums.get(sample.trajectory)!;
    return Math.exp(clamp(sum / Math.max(count, 1)));
  });
}

const clamp = (x: number) => Math.max(-20, Math.min(20, x));

/** The terms of all trained tokens, by sample. */
function lossTerms(
  loss: LossRequest,
  samples: TrainingSample[],
  logprobs: Float64Array[],
): LossTerm[][] {
  switch (loss.type) {
    case "sft":
      return samples.map((sample, i) =>
        maskedPositions(sample).map((t, k) => {
          const scale = (sample.weights?.[t] ?? 1) / loss.normalizer;
          return { loss: -scale * logprobs[i]![k]!, gradient: -scale, ratio: 1, clipped: 0, score: null };
        })
      );
    case "policy": {
      const ratios = sequenceRatios(samples, logprobs);
      return samples.map((sample, i) =>
        maskedPositions(sample).map((t, k) =>
          policyTerm(loss, sample, { t, logprob: logprobs[i]![k]!, sequence_ratio: ratios[i]! })
        )
      );
    }
    case "preference":
      return pairTerms(samples, logprobs, loss);
  }
}

/**
 * The policy loss of one token and its derivative.
 *
 * @source GRPO (arXiv 2402.03300, eq. 3 and 4), DAPO (arXiv 2503.14476), GSPO (arXiv 2507.18071, §4.3).
 */
function policyTerm(
  loss: Extract<LossRequest, { type: "policy" }>,
  sample: TrainingSample,
  at: { t: number; logprob: number; sequence_ratio: number },
): LossTerm {
  const weight = sample.weights?.[at.t] ?? 1;
  const advantage = sample.advantages?.[at.t] ?? 0;
  const old = sample.old_logprobs?.[at.t] ?? at.logprob;
  const ratio = loss.importance_sampling_level === "sequence"
    ? at.sequence_ratio
    : Math.exp(clamp(at.logprob - old));
  const clipped = advantage > 0 && ratio > 1 + loss.clip_high
    ? 1
    : advantage < 0 && ratio < 1 - loss.clip_low
    ? -1
    : 0;
  const bounded = Math.max(1 - loss.clip_low, Math.min(1 + loss.clip_high, ratio));
  let value = -weight * Math.min(ratio * advantage, bounded * advantage);
  let gradient = clipped === 0 ? -weight * ratio * advantage : 0;
  if (loss.kl_coefficient > 0) {
    const d = clamp((sample.reference_logprobs?.[at.t] ?? at.logprob) - at.logprob);
    value += loss.kl_coefficient * ratio * (Math.exp(d) - d - 1);
    gradient += loss.kl_coefficient * ratio * (1 - Math.exp(d));
  }
  const { normalizer } = loss;
  return { loss: value / normalizer, gradient: gradient / normalizer, ratio, clipped, score: null };
}

function rowOf(rows: Rows, key: number, width: number): Float64Array {
  let row = rows.get(key);
  if (!row) rows.set(key, row = new Float64Array(width));
  return row;
}

/** Applies one AdamW step and returns the norm of the gradient before clipping. */
function adamw(adapter: BigramAdapter, gradient: Rows, o: OptimizerRequest): number {
  let squares = 0;
  for (const row of gradient.values()) for (const g of row) squares += g * g;
  const norm = Math.sqrt(squares);
  const scale = o.max_grad_norm > 0 && norm > o.max_grad_norm ? o.max_grad_norm / norm : 1;
  const step = ++adapter.step;
  adapter.version++;
  for (const key of new Set([...adapter.delta.keys(), ...gradient.keys()])) {
    const width = (gradient.get(key) ?? adapter.delta.get(key))!.length;
    const delta = rowOf(adapter.delta, key, width);
    const m = rowOf(adapter.first_moment, key, width), v = rowOf(adapter.second_moment, key, width);
    const row = gradient.get(key);
    for (let i = 0; i < width; i++) {
      const g = (row?.[i] ?? 0) * scale;
      m[i] = o.beta1 * m[i]! + (1 - o.beta1) * g;
      v[i] = o.beta2 * v[i]! + (1 - o.beta2) * g * g;
      const direction = m[i]! / (1 - o.beta1 ** step) / (Math.sqrt(v[i]! / (1 - o.beta2 ** step)) + o.eps);
      delta[i] = delta[i]! - o.learning_rate * (direction + o.weight_decay * delta[i]!);
    }
  }
  return norm;
}

/** The metadata key of an adapter's numbers. */
const NUMBERS_KEY = "scripted.numbers";

/** Writes every bit of an adapter to the metadata of a GGUF adapter file without tensors. */
export function serializeAdapter(adapter: BigramAdapter): Uint8Array {
  const text = (value: string) => ({ type: "string" as const, value });
  const metadata = new Map([
    ["general.type", text("adapter")],
    ["general.name", text("adapter")],
    ["adapter.type", text("lora")],
    [NUMBERS_KEY, text(numbersOf(adapter))],
  ]);
  return encodeGgufHeader(metadata, []);
}

function numbersOf(adapter: BigramAdapter): string {
  return JSON.stringify(
    adapter,
    (_, value) =>
      value instanceof Map
        ? { rows: [...value].sort((a, b) => a[0] - b[0]).map(([k, row]) => [k, [...row]]) }
        : value,
  );
}

/** The inverse of {@link serializeAdapter}. */
export function parseAdapter(bytes: Uint8Array): BigramAdapter {
  const text = new TextDecoder().decode(bytes);
  return JSON.parse(
    text.slice(text.indexOf('{"version"')),
    (_, value) =>
      value?.rows
        ? new Map(value.rows.map(([k, row]: [number, number[]]) => [k, Float64Array.from(row)]))
        : value,
  );
}

/** Writes a file atomically, as the real engine does: a write that fails leaves no file. */
export function writeAtomically(path: string, bytes: Uint8Array): void {
  const partial = partialPath(path);
  try {
    Deno.writeFileSync(partial, bytes);
    Deno.renameSync(partial, path);
  } catch (error) {
    if (existsSync(partial)) Deno.removeSync(partial);
    throw error;
  }
}
