/** Low-rank adapters in memory, and the names of their tensors in GGUF and PEFT. */

import { assert } from "../../core/errors.ts";
import { LORA_TARGETS, type LoraTarget } from "../../core/lora_targets.ts";

/** The factors of one linear layer: `y = W·x + (alpha / rank)·B·A·x`. */
export interface LoraPair {
  /** `[rank, in]` f32, row-major. */
  a: Float32Array;
  /** `[out, rank]` f32, row-major. */
  b: Float32Array;
  in: number;
  out: number;
}

/** An adapter: every layer has a pair for every target. */
export interface LoraTensors {
  /** The base model's architecture, such as `qwen3`. */
  architecture: string;
  rank: number;
  alpha: number;
  /** In the order of {@link LORA_TARGETS}. */
  targets: LoraTarget[];
  layers: number;
  /** By {@link loraKey}: layer by layer, targets in order. */
  tensors: Map<string, LoraPair>;
}

/** The key of a pair, such as `blk.0.q_proj`. */
export function loraKey(layer: number, target: LoraTarget): string {
  return `blk.${layer}.${target}`;
}

/** The order in which an adapter's pairs are stored: by layer, then by target. */
export function loraOrder(
  layers: number,
  targets: readonly LoraTarget[],
): { layer: number; target: LoraTarget; key: string }[] {
  return Array.from({ length: layers }, (_, layer) => {
    return targets.map((target) => ({ layer, target, key: loraKey(layer, target) }));
  }).flat();
}

/** Asserts that an adapter in memory is complete: it has all pairs, and their lengths match the shapes. */
export function assertCompleteAdapter({ rank, alpha, targets, layers, tensors }: LoraTensors): void {
  assert(Number.isInteger(rank) && rank > 0 && Number.isFinite(alpha), "an adapter has a rank and a scale");
  const order = loraOrder(layers, targets);
  assert(
    order.length > 0 && tensors.size === order.length,
    "an adapter has a pair for every layer and target",
  );
  for (const { key } of order) {
    const pair = tensors.get(key);
    assert(pair, `an adapter has a pair ${key}`);
    assert(pair.a.length === rank * pair.in && pair.b.length === pair.out * rank, `${key} has its shape`);
  }
}

/** One factor of a pair as stored in a file. */
export interface LoraFactor {
  layer: number;
  target: LoraTarget;
  factor: "a" | "b";
  /** `[rank, in]` for `a`, `[out, rank]` for `b`. */
  shape: readonly number[];
  values: Float32Array;
}

/**
 * Assembles an adapter from the contents of a file.
 *
 * @param fail Throws the error for a reason.
 */
export function assembleLora(
  facts: { architecture: string; alpha: number },
  factors: readonly LoraFactor[],
  fail: (reason: string) => never,
): LoraTensors {
  const found = new Map(
    factors.map((factor) => [`${loraKey(factor.layer, factor.target)}.${factor.factor}`, factor]),
  );
  if (found.size !== factors.length) fail("a tensor occurs twice");
  if (factors.length === 0) fail("it holds no adapter tensors");
  const rank = factors.find(({ factor }) => factor === "a")?.shape[0] ?? 0;
  const layers = factors.reduce((most, { layer }) => Math.max(most, layer + 1), 0);
  const targets = LORA_TARGETS.filter((target) => factors.some((factor) => factor.target === target));
  if (layers * targets.length > factors.length) {
    fail("layers differ in their targets, or a tensor is missing; every layer must have the same targets");
  }
  const tensors = new Map<string, LoraPair>();
  for (const { key } of loraOrder(layers, targets)) {
    const a = found.get(`${key}.a`), b = found.get(`${key}.b`);
    if (!a || !b) return fail(`${key} lacks its tensor ${a ? "B" : "A"}`);
    const [a_rank, width] = a.shape, [out, b_rank] = b.shape;
    if (a.shape.length !== 2 || b.shape.length !== 2 || a_rank !== rank || b_rank !== rank) {
      fail(`${key} has the shapes A [${a.shape}] and B [${b.shape}], which do not have the rank ${rank}`);
    }
    tensors.set(key, { a: a.values, b: b.values, in: width!, out: out! });
  }
  if (!Number.isFinite(facts.alpha)) fail(`its alpha is ${facts.alpha}`);
  return { ...facts, rank, targets, layers, tensors };
}

/** The first difference between two adapters, bit for bit; null when they are equal. */
export function loraDifference(left: LoraTensors, right: LoraTensors): string | null {
  for (const key of ["architecture", "rank", "alpha", "layers"] as const) {
    if (left[key] !== right[key]) return `${key} is ${right[key]}, not ${left[key]}`;
  }
  if (`${left.targets}` !== `${right.targets}`) return `targets are ${right.targets}, not ${left.targets}`;
  for (const [key, pair] of left.tensors) {
    const other = right.tensors.get(key);
    if (!other || other.in !== pair.in || other.out !== pair.out) return `${key} has another shape`;
    if (!sameBits(pair.a, other.a) || !sameBits(pair.b, other.b)) return `${key} has other values`;
  }
  return null;
}

function sameBits(left: Float32Array, right: Float32Array): boolean {
  const words = ({ buffer, byteOffset, length }: Float32Array) => new Uint32Array(buffer, byteOffset, length);
  const a = words(left), b = words(right);
  return a.length === b.length && a.every((word, i) => word === b[i]);
}
