/** The f64 reference of sample_token, written for clarity. Arrays are row-major. */

import { pcg4d } from "../../core/random.ts";

/** −log(E) with E = −log(1 − v), v = (bits + 0.5) · 2^−32. */
export function gumbelReference(bits: number): number {
  return -Math.log(-Math.log1p(-(bits + 0.5) / 2 ** 32));
}

export interface SampleRow {
  logits: Float64Array;
  temperature: number;
  rng_key: readonly [number, number];
  position: number;
  /** 1 if the id is allowed. */
  allowed?: ArrayLike<number>;
  /** Smaller logits are excluded. */
  cutoff?: number;
}

/** The token of a row, its log-probability, and its score's lead over the next. */
export function sampleRowReference(row: SampleRow) {
  const { logits, temperature, rng_key, position, allowed, cutoff = -Infinity } = row;
  const z = logits.map((v, id) => allowed && !allowed[id] || v < cutoff ? -Infinity : v / (temperature || 1));
  const score = z.map((v, id) =>
    temperature === 0 ? v : v + gumbelReference(pcg4d(...rng_key, position, id >> 2)[id & 3]!)
  );
  const token = score.reduce((best, v, id) => v > score[best]! ? id : best, 0);
  const margin = score[token]! -
    score.reduce((next, v, id) => id === token ? next : Math.max(next, v), -Infinity);
  const max = z.reduce((a, b) => Math.max(a, b));
  return { token, margin, logprob: z[token]! - max - Math.log(z.reduce((s, v) => s + Math.exp(v - max), 0)) };
}

/** The lowest logit that remains after top_k and top_p, by sorting. */
export function topCutoffReference(
  logits: Float64Array,
  temperature: number,
  top_k: number,
  top_p: number,
): number {
  const sorted = logits.toSorted().reverse();
  const cut_k = top_k === 0 ? -Infinity : sorted[Math.min(top_k, sorted.length) - 1]!;
  const kept = sorted.filter((v) => v >= cut_k);
  if (top_p >= 1) return cut_k;
  const mass = kept.map((v) => Math.exp((v - kept[0]!) / (temperature || 1)));
  const share = top_p * mass.reduce((s, v) => s + v);
  let sum = 0;
  return kept[mass.findIndex((v) => (sum += v) >= share)]!;
}
