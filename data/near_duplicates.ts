/** Finds texts that say almost the same. */

/** Texts whose shingles agree to at least this share (Jaccard) are near-duplicates. */
export const NEAR_DUPLICATE_SIMILARITY = 0.7;

/** Words of a shingle: shorter texts are compared as one. */
const SHINGLE_WORDS = 3;

/** Letters and digits in lower case, without accents' forms, punctuation and repeated spaces. */
export function normalizedText(text: string): string {
  return text.normalize("NFKC").toLowerCase().replace(/[^\p{L}\p{N}]+/gu, " ").trim();
}

/** All runs of {@link SHINGLE_WORDS} words of a normalised text. */
function shinglesOf(text: string): Set<string> {
  const words = normalizedText(text).split(" ");
  const last = Math.max(0, words.length - SHINGLE_WORDS);
  return new Set(Array.from({ length: last + 1 }, (_, i) => words.slice(i, i + SHINGLE_WORDS).join(" ")));
}

/**
 * Texts of which no two are near-duplicates.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * const texts = new DistinctTexts();
 * assert.equal(texts.add("Write the word `piano` to map.dat and submit it."), true);
 * assert.equal(texts.add("write the word PIANO to map.dat, and submit it"), false);
 * ```
 */
export class DistinctTexts {
  /** The number of shingles of each text. */
  readonly #sizes: number[] = [];
  /** The texts with a shingle. */
  readonly #having = new Map<string, number[]>();

  /** Adds a text; false when it is a near-duplicate of an earlier one, and was not added. */
  add(text: string): boolean {
    const shingles = shinglesOf(text), shared = new Map<number, number>();
    for (const shingle of shingles) {
      for (const other of this.#having.get(shingle) ?? []) shared.set(other, (shared.get(other) ?? 0) + 1);
    }
    for (const [other, n] of shared) {
      if (n / (shingles.size + this.#sizes[other]! - n) >= NEAR_DUPLICATE_SIMILARITY) return false;
    }
    const own = this.#sizes.push(shingles.size) - 1;
    for (const shingle of shingles) {
      const having = this.#having.get(shingle);
      if (having) having.push(own);
      else this.#having.set(shingle, [own]);
    }
    return true;
  }
}
