/** Remembers the tokens of words. */

/** Most words in each of the two generations of a cache. */
export const MAX_CACHED_WORDS = 32_768;
/** Longer words are not remembered: they hardly come again. */
export const MAX_CACHED_WORD_CHARS = 64;

/**
 * A bounded cache of two generations: words of the old one that are asked for move to the young one, and when that
 * is full it becomes the old one and the rest is forgotten.
 */
export class WordCache {
  #young = new Map<string, readonly number[]>();
  #old = new Map<string, readonly number[]>();

  get(word: string): readonly number[] | undefined {
    const found = this.#young.get(word);
    if (found) return found;
    const old = this.#old.get(word);
    if (old) this.set(word, old);
    return old;
  }

  set(word: string, tokens: readonly number[]): void {
    if (word.length > MAX_CACHED_WORD_CHARS) return;
    if (this.#young.size >= MAX_CACHED_WORDS) {
      this.#old = this.#young;
      this.#young = new Map();
    }
    this.#young.set(word, tokens);
  }

  /** Words that are remembered, at most twice {@link MAX_CACHED_WORDS}. */
  get size(): number {
    return this.#young.size + this.#old.size;
  }
}
