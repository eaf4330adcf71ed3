/** Finds the special tokens in a text. */

/** A special token in a text, UTF-16 units [start, end). */
export interface FoundToken {
  id: number;
  start: number;
  end: number;
}

/** A node of the trie is a number; its child for a UTF-16 unit has the key `node · 2^16 + unit`. */
const UNITS = 1 << 16;

/**
 * A set of texts with ids. A search takes at most as many steps at each position of a text as the longest has units,
 * however many texts there are.
 */
export class SpecialTokens {
  readonly #begins = new Uint8Array(UNITS);
  readonly #children = new Map<number, number>();
  /** By node: the id of the text that ends there, or -1. */
  readonly #ids: number[] = [-1];

  /** No text is empty. */
  constructor(tokens: Iterable<readonly [text: string, id: number]>) {
    for (const [text, id] of tokens) {
      let node = 0;
      for (let i = 0; i < text.length; i++) {
        const key = node * UNITS + text.charCodeAt(i);
        let child = this.#children.get(key);
        if (child === undefined) {
          child = this.#ids.push(-1) - 1;
          this.#children.set(key, child);
        }
        node = child;
      }
      this.#ids[node] = id;
      this.#begins[text.charCodeAt(0)] = 1;
    }
  }

  /** The tokens in a text from left to right, the longest at each position, without overlaps. */
  *find(text: string): Generator<FoundToken, void> {
    if (this.#children.size === 0) return;
    for (let at = this.#nextBegin(text, 0); at < text.length;) {
      const found = this.#longestAt(text, at);
      if (found) yield found;
      at = this.#nextBegin(text, found?.end ?? at + 1);
    }
  }

  /** The next position from `at` on where a token may start, or the text's end. */
  #nextBegin(text: string, at: number): number {
    const begins = this.#begins;
    while (at < text.length && begins[text.charCodeAt(at)] === 0) at++;
    return at;
  }

  #longestAt(text: string, start: number): FoundToken | null {
    let found: FoundToken | null = null, node: number | undefined = 0;
    for (let end = start; end < text.length;) {
      node = this.#children.get(node * UNITS + text.charCodeAt(end++));
      if (node === undefined) break;
      const id = this.#ids[node]!;
      if (id >= 0) found = { id, start, end };
    }
    return found;
  }
}
