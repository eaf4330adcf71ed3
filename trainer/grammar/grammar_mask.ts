/** The tokens that may follow a text under a grammar. */

import { ServiceError } from "../../core/errors.ts";
import type { Grammar } from "./grammar.ts";
import { type MatchState, Stack } from "./matcher.ts";
import type { MaskTable, TokenRest } from "./mask_table.ts";

export class GrammarMask {
  readonly #stack: Stack;
  readonly #bits: Uint32Array;
  #state: MatchState;
  #is_current = false;

  /** @param words Words of the bits: at least those of the vocabulary. */
  constructor(grammar: Grammar, private readonly table: MaskTable, words: number) {
    this.#stack = new Stack(grammar.arena);
    this.#state = this.#stack.begin(grammar.symbols);
    this.#bits = new Uint32Array(words);
  }

  /** The alternatives that may follow, and whether the text may end here. */
  get state(): MatchState {
    return this.#state;
  }

  /** Bit `id % 32` of word `id / 32` is 1 if the token may follow. The array changes with the next call. */
  bits(): Uint32Array {
    if (this.#is_current) return this.#bits;
    this.#bits.fill(0);
    const after = new Map<number, MatchState>();
    for (const { regex, below } of this.#state.threads) {
      const mask = this.table.mask(regex);
      for (const token of mask.tokens) this.#allow(token);
      if (mask.bits) { for (let i = 0; i < mask.bits.length; i++) this.#bits[i]! |= mask.bits[i]!; }
      if (!mask.rest && mask.exits.length === 0) continue;
      const id = below?.id ?? -1;
      let state = after.get(id);
      if (!state) after.set(id, state = this.#stack.after(below));
      if (mask.rest) this.#allowRest(mask.rest, state);
      for (const exit of mask.exits) this.#allowBelow(exit, state);
    }
    this.#is_current = true;
    return this.#bits;
  }

  #allow(token: number): void {
    this.#bits[token >>> 5]! |= 1 << (token & 31);
  }

  #allowRest({ children }: TokenRest, state: MatchState): void {
    if (state.threads.length === 0) return;
    for (const [byte, child] of children) {
      const next = this.#stack.next(state, byte);
      if (next.threads.length === 0 && !next.is_end) continue;
      for (const token of child.tokens) this.#allow(token);
      this.#allowRest(child, next);
    }
  }

  /** The tokens in the subtree of a node of the trie. */
  #allowBelow(exit: number, begin: MatchState): void {
    const { bytes, depths, ends, first, same } = this.table.trie, base = depths[exit]!;
    const states = [begin];
    for (let node = exit + 1; node < ends[exit]!;) {
      const depth = depths[node]! - base, state = this.#stack.next(states[depth - 1]!, bytes[node]!);
      if (state.threads.length === 0 && !state.is_end) {
        node = ends[node]!;
        continue;
      }
      states[depth] = state;
      for (let token = first[node]!; token >= 0; token = same[token]!) this.#allow(token);
      node++;
    }
  }

  /** @throws {ServiceError} When the token may not follow. */
  advance(token: number): void {
    const { vocabulary } = this.table.trie,
      has_text = token < vocabulary.size && !vocabulary.isControl(token);
    const bytes = has_text ? vocabulary.bytesOf(token) : [];
    let state = this.#state;
    for (const byte of bytes) state = this.#stack.next(state, byte);
    if (bytes.length === 0 || (state.threads.length === 0 && !state.is_end)) {
      throw new ServiceError(
        "internal",
        `Cannot go on after token ${token}: the JSON schema does not allow it`,
      );
    }
    this.#state = state;
    this.#is_current = false;
  }
}
