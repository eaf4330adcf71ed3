/** Counter-based randomness: a value depends on its key and counter only, not on earlier draws. */

/** The key of a random sequence: two words that {@link rngKey} computes from a seed and a path. */
export type RngKey = readonly [number, number];

/**
 * pcg4d: four words in, four mixed words out. In WGSL it is `kernels/shared/pcg4d.wgsl`.
 *
 * @source Jarzynski and Olano, "Hash Functions for GPU Rendering", JCGT 9(3), 2020.
 */
export function pcg4d(a: number, b: number, c: number, d: number): [number, number, number, number] {
  let x = (Math.imul(a, 1664525) + 1013904223) >>> 0;
  let y = (Math.imul(b, 1664525) + 1013904223) >>> 0;
  let z = (Math.imul(c, 1664525) + 1013904223) >>> 0;
  let w = (Math.imul(d, 1664525) + 1013904223) >>> 0;
  const mix = () => {
    x = (x + Math.imul(y, w)) >>> 0;
    y = (y + Math.imul(z, x)) >>> 0;
    z = (z + Math.imul(x, y)) >>> 0;
    w = (w + Math.imul(y, z)) >>> 0;
  };
  mix();
  x ^= x >>> 16, y ^= y >>> 16, z ^= z >>> 16, w ^= w >>> 16;
  mix();
  return [x >>> 0, y >>> 0, z >>> 0, w >>> 0];
}

/**
 * The key of a seed and a path such as `(seed, update, scenario, member, turn)`. Numbers are integers below 2^53. Text
 * counts by its UTF-8 bytes, so a scenario keeps its key when the order of the file changes.
 */
export function rngKey(seed: number, ...path: readonly (number | string)[]): RngKey {
  let [x, y] = pcg4d(seed >>> 0, Math.floor(seed / 2 ** 32) >>> 0, path.length, 0x5eed);
  const absorb = (low: number, high: number, kind: number) => {
    const mixed = pcg4d(x, y, low, high ^ kind);
    x = mixed[0];
    y = mixed[1];
  };
  for (const part of path) {
    if (typeof part === "number") {
      absorb(part >>> 0, Math.floor(part / 2 ** 32) >>> 0, 0);
      continue;
    }
    const bytes = new TextEncoder().encode(part);
    for (let i = 0; i < bytes.length; i += 4) {
      const word = bytes[i]! | (bytes[i + 1] ?? 0) << 8 | (bytes[i + 2] ?? 0) << 16 |
        (bytes[i + 3] ?? 0) << 24;
      absorb(word >>> 0, 0, 0x80000000);
    }
    absorb(bytes.length, 0, 0xc0000000);
  }
  return [x, y];
}

/**
 * A sequence of random numbers from one key; `position` is its only state.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * const key = rngKey(42, "shuffle");
 * const order = new Rng(key).shuffle([1, 2, 3, 4]);
 * assert.deepEqual(new Rng(key).shuffle([1, 2, 3, 4]), order);
 * ```
 */
export class Rng {
  constructor(readonly key: RngKey, public position = 0) {}

  /** The next 32 random bits. */
  word(): number {
    const at = this.position++;
    return pcg4d(this.key[0], this.key[1], at >>> 0, Math.floor(at / 2 ** 32))[0];
  }

  /** Uniform in [0, 1), 53 bits. */
  uniform(): number {
    const high = this.word() >>> 5, low = this.word() >>> 6;
    return (high * 67108864 + low) / 9007199254740992;
  }

  /** Standard normal by Box and Muller; two uniforms for each value. */
  normal(): number {
    const radius = Math.sqrt(-2 * Math.log(1 - this.uniform()));
    return radius * Math.cos(2 * Math.PI * this.uniform());
  }

  /** Uniform integer in [0, bound). */
  below(bound: number): number {
    return Math.floor(this.uniform() * bound);
  }

  /** A new array with the items in random order (Fisher and Yates). */
  shuffle<T>(items: readonly T[]): T[] {
    const out = [...items];
    for (let i = out.length - 1; i > 0; i--) {
      const j = this.below(i + 1);
      [out[i], out[j]] = [out[j]!, out[i]!];
    }
    return out;
  }
}
