/** Caches the tokens of words. */

/** The most words in each of the two generations of a cache. */
export const MAX_CACHED_WORDS = 32_768;
/** Longer words are not cached, because they rarely occur again. */
export const MAX_CACHED_WORD_CHARS = 64;

/**
 * A bounded cache of two generations. A used word of the old one moves to the young one. When the young one is full it
 * becomes the old one, and the rest is dropped.
 */
export class WordCache {
  #young = new Map<string, readonly number[]>();
  #old = new Map<string, readonly number[]>();

  /** The tokens of a word, encoded unless they are cached. */
  tokensOf(word: string, encode: (word: string) => readonly number[]): readonly number[] {
    const young = this.#young.get(word);
    if (young) return young;
    const tokens = this.#old.get(word) ?? encode(word);
    this.#keep(word, tokens);
    return tokens;
  }

  #keep(word: string, tokens: readonly number[]): void {
    if (word.length > MAX_CACHED_WORD_CHARS) return;
    if (this.#young.size >= MAX_CACHED_WORDS) {
      this.#old = this.#young;
      this.#young = new Map();
    }
    this.#young.set(word, tokens);
  }

  /** The number of cached words, at most twice {@link MAX_CACHED_WORDS}. */
  get size(): number {
    return this.#young.size + this.#old.size;
  }
}
