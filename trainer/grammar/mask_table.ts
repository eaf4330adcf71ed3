/**
 * Which tokens an expression admits. The part of the answer that does not depend on what follows the expression is
 * found once by walking the trie of tokens, and kept.
 */

import type { Regex, RegexArena } from "./regex.ts";
import type { TokenTrie } from "./token_trie.ts";

/** The rests of tokens after an expression has ended inside them, as a trie. */
export interface TokenRest {
  readonly children: Map<number, TokenRest>;
  /** The tokens that end here. */
  readonly tokens: number[];
}

/** The tokens that an expression admits. */
export interface ExpressionMask {
  /** Tokens that lie inside the expression, or end with it: a list when they are few, else bits. */
  readonly tokens: readonly number[];
  readonly bits: Uint32Array | null;
  /** Tokens that go on after the expression has ended: their rests, and nodes of the trie with many such tokens. */
  readonly rest: TokenRest | null;
  readonly exits: readonly number[];
}

/** Above this many, tokens are kept as bits. */
const MAX_LIST = 512;
/** Words of the masks that are kept: about 100 MB. They are found again after that. */
const MAX_KEPT_WORDS = 1 << 24;
/** Words that a mask and a node of a {@link TokenRest} take besides their tokens. */
const MASK_WORDS = 64, REST_WORDS = 32;
/** Larger subtrees of the trie are not copied. */
const MAX_COPIED = 256;
/**
 * Where the length of a string is bounded, longer tokens are left out near the bounds: there are few, and each number
 * of bytes up to the longest would need a mask of its own.
 */
const COMMON_BYTES = 32;

export class MaskTable {
  readonly #masks = new Map<Regex, ExpressionMask>();
  readonly #short_masks = new Map<Regex, ExpressionMask>();
  #kept_words = 0;

  constructor(readonly trie: TokenTrie, readonly arena: RegexArena) {}

  /** The mask of an expression. */
  mask(regex: Regex): ExpressionMask {
    const { arena, trie } = this;
    const whole = arena.shorten(regex, trie.max_depth), short = arena.shorten(whole, COMMON_BYTES);
    const masks = short === whole ? this.#masks : this.#short_masks;
    let mask = masks.get(short);
    if (!mask) {
      if (this.#kept_words > MAX_KEPT_WORDS) this.#forget();
      mask = this.#walk(short, short === whole ? trie.max_depth : COMMON_BYTES);
      this.#kept_words += MASK_WORDS + mask.tokens.length + mask.exits.length + (mask.bits?.length ?? 0);
      masks.set(short, mask);
    }
    return mask;
  }

  #forget(): void {
    this.#masks.clear();
    this.#short_masks.clear();
    this.#kept_words = 0;
  }

  #walk(root: Regex, max_depth: number): ExpressionMask {
    const { trie, arena } = this, { bytes, depths, ends, first, same } = trie;
    const states: Regex[] = [root], tokens: number[] = [], exits: number[] = [];
    for (let node = 1; node < bytes.length;) {
      const depth = depths[node]!;
      const state = depth > max_depth ? arena.none : arena.next(states[depth - 1]!, bytes[node]!);
      if (state === arena.none) {
        node = ends[node]!;
        continue;
      }
      states[depth] = state;
      for (let token = first[node]!; token >= 0; token = same[token]!) tokens.push(token);
      if (state.is_nullable && ends[node]! > node + 1) exits.push(node);
      node++;
    }
    const is_large = (exit: number) => ends[exit]! - exit > MAX_COPIED;
    const small = exits.filter((exit) => !is_large(exit));
    return {
      tokens: tokens.length <= MAX_LIST ? tokens : [],
      bits: tokens.length <= MAX_LIST ? null : this.#bits(tokens),
      rest: small.length === 0 ? null : this.#rest(small),
      exits: exits.filter(is_large),
    };
  }

  #bits(tokens: readonly number[]): Uint32Array {
    const bits = new Uint32Array(Math.ceil(this.trie.vocabulary.size / 32));
    for (const token of tokens) bits[token >>> 5]! |= 1 << (token & 31);
    return bits;
  }

  /** The subtrees below some nodes, laid over each other. */
  #rest(exits: readonly number[]): TokenRest {
    const { bytes, depths, ends, first, same } = this.trie;
    const root: TokenRest = { children: new Map(), tokens: [] };
    for (const exit of exits) {
      const path = [root], base = depths[exit]!;
      for (let node = exit + 1; node < ends[exit]!; node++) {
        const depth = depths[node]! - base, above = path[depth - 1]!;
        let child = above.children.get(bytes[node]!);
        if (!child) {
          above.children.set(bytes[node]!, child = { children: new Map(), tokens: [] });
          this.#kept_words += REST_WORDS;
        }
        path[depth] = child;
        for (let token = first[node]!; token >= 0; token = same[token]!) child.tokens.push(token);
      }
    }
    return root;
  }
}
