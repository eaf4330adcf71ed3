/** Random texts under a schema, and whether masks allow given values, for tests and benches. */

import { ok } from "node:assert/strict";
import type { Rng } from "../../core/random.ts";
import type { Tokenizer } from "../tokenizer/tokenizer.ts";
import type { Grammar } from "./grammar.ts";
import { GrammarMask } from "./grammar_mask.ts";
import { MaskTable } from "./mask_table.ts";
import type { MatchState } from "./matcher.ts";
import { type Regex, RegexArena } from "./regex.ts";
import { TokenTrie } from "./token_trie.ts";

/** Tokens of a walk before it takes the shortest way to an end, and at most. */
const FREE_TOKENS = 30, MAX_TOKENS = 5000;

/** A vocabulary with what masks keep for it. */
export interface WalkedVocabulary {
  tokenizer: Tokenizer;
  table: MaskTable;
  /** A token of each byte. */
  bytes: number[];
}

export function walkedVocabulary(tokenizer: Tokenizer): WalkedVocabulary {
  const bytes: number[] = [];
  for (let id = 0; id < tokenizer.size; id++) {
    const [byte, ...rest] = tokenizer.isControl(id) ? [] : tokenizer.bytesOf(id);
    if (byte !== undefined && rest.length === 0) bytes[byte] = id;
  }
  return { tokenizer, table: new MaskTable(new TokenTrie(tokenizer), new RegexArena()), bytes };
}

const wordsOf = ({ tokenizer }: WalkedVocabulary) => Math.ceil(tokenizer.size / 32);
const allows = (bits: Uint32Array, id: number) => (bits[id >>> 5]! >>> (id & 31) & 1) === 1;

/** A random one of the allowed ids. */
function pick(bits: Uint32Array, rng: Rng): number {
  const ids: number[] = [];
  for (let word = 0; word < bits.length; word++) {
    for (let left = bits[word]!; left !== 0; left &= left - 1) {
      ids.push(32 * word + 31 - Math.clz32(left & -left));
    }
  }
  return ids[rng.below(ids.length)]!;
}

/** What matches an expression in the fewest bytes, without control characters. */
function shortest(arena: RegexArena, regex: Regex): number[] {
  const texts = new Map<Regex, number[]>([[regex, []]]);
  for (const [state, text] of texts) {
    if (text.length > 0 && state.is_nullable) return text;
    for (let byte = 0x20; byte < 0xf8; byte++) {
      const next = arena.next(state, byte);
      if (next !== arena.none && !texts.has(next)) texts.set(next, [...text, byte]);
    }
  }
  throw new Error("an expression has no match");
}

/** The first byte on the way to the end of the text: closing a container, or the shortest expression. */
export function towardsEnd(arena: RegexArena, { threads }: MatchState): number {
  const texts = threads.map(({ regex }) => shortest(arena, regex));
  const cost = (text: number[]) => {
    const first = String.fromCharCode(text[0]!);
    return "}]".includes(first) ? 0 : "[{ ".includes(first) ? 1000 : text.length;
  };
  return texts.sort((a, b) => cost(a) - cost(b))[0]![0]!;
}

/** A text that random allowed tokens make. */
export function walk(vocabulary: WalkedVocabulary, grammar: Grammar, rng: Rng): string {
  const { tokenizer, table, bytes } = vocabulary, ids: number[] = [];
  const mask = new GrammarMask(grammar, table, wordsOf(vocabulary));
  while (ids.length < MAX_TOKENS) {
    const { state } = mask, bits = mask.bits(), is_free = ids.length < FREE_TOKENS;
    const can_go_on = bits.some((word) => word !== 0);
    if (state.is_end && (!is_free || !can_go_on || rng.below(4) === 0)) {
      return tokenizer.decode(ids, { special: false });
    }
    const id = is_free ? pick(bits, rng) : bytes[towardsEnd(grammar.arena, state)]!;
    ok(allows(bits, id));
    ids.push(id);
    mask.advance(id);
  }
  throw new Error(`the walk does not end: ${tokenizer.decode(ids, { special: false })}`);
}

/** Whether the tokens of the value's text are allowed one after the other, and the end after them. */
export function generates(vocabulary: WalkedVocabulary, grammar: Grammar, value: unknown): boolean {
  const mask = new GrammarMask(grammar, vocabulary.table, wordsOf(vocabulary));
  for (const id of vocabulary.tokenizer.encode(JSON.stringify(value), { special: false })) {
    if (!allows(mask.bits(), id)) return false;
    mask.advance(id);
  }
  return mask.state.is_end;
}
