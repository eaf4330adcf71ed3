/** The tokens of a vocabulary by their bytes. */

import type { Tokenizer } from "../tokenizer/tokenizer.ts";

/** The members of a tokenizer that masks use. */
export type TokenBytes = Pick<Tokenizer, "size" | "bytesOf" | "isControl">;

/**
 * A trie in preorder: the nodes of a subtree are adjacent, and node 0 is the root. A node's token list goes on with
 * `same`, because several tokens may have equal bytes.
 */
export class TokenTrie {
  readonly bytes: Uint8Array;
  /** By node: its distance from the root. */
  readonly depths: Uint16Array;
  /** By node: the node after its subtree. */
  readonly ends: Uint32Array;
  /** By node: the first token that ends there, or -1. */
  readonly first: Int32Array;
  /** By token: the next token with equal bytes, or -1. */
  readonly same: Int32Array;
  readonly max_depth: number;

  /** Control tokens and tokens without bytes are left out. */
  constructor(readonly vocabulary: TokenBytes) {
    const tokens = sortedTokens(vocabulary);
    const bytes: number[] = [0], depths: number[] = [0], first: number[] = [-1];
    this.same = new Int32Array(vocabulary.size).fill(-1);
    let previous = "", last = -1;
    for (const { id, text } of tokens) {
      let common = 0;
      while (common < previous.length && previous.charCodeAt(common) === text.charCodeAt(common)) common++;
      if (common === text.length) this.same[last] = id;
      for (let i = common; i < text.length; i++) {
        bytes.push(text.charCodeAt(i));
        depths.push(i + 1);
        first.push(i + 1 === text.length ? id : -1);
      }
      previous = text;
      last = id;
    }
    this.bytes = Uint8Array.from(bytes);
    this.depths = Uint16Array.from(depths);
    this.first = Int32Array.from(first);
    this.ends = subtreeEnds(this.depths);
    this.max_depth = this.depths.reduce((a, b) => Math.max(a, b), 0);
  }
}

/** The tokens with their bytes as the characters of a text, in the order of these texts. */
function sortedTokens(vocabulary: TokenBytes): { id: number; text: string }[] {
  const tokens: { id: number; text: string }[] = [];
  for (let id = 0; id < vocabulary.size; id++) {
    const bytes = vocabulary.isControl(id) ? null : vocabulary.bytesOf(id);
    if (bytes && bytes.length > 0) tokens.push({ id, text: String.fromCharCode(...bytes) });
  }
  return tokens.sort((a, b) => a.text < b.text ? -1 : a.text > b.text ? 1 : a.id - b.id);
}

function subtreeEnds(depths: Uint16Array): Uint32Array {
  const ends = new Uint32Array(depths.length), open: number[] = [];
  for (let node = 0; node <= depths.length; node++) {
    const depth = depths[node] ?? -1;
    while (open.length > 0 && depths[open.at(-1)!]! >= depth) ends[open.pop()!] = node;
    open.push(node);
  }
  return ends;
}
