/** The pieces of a SentencePiece vocabulary, and splitting a text into them. */

import { NumberHeap } from "../number_heap.ts";
import { TOKEN_TYPES, type Vocabulary } from "../vocabulary.ts";

/** The texts that merging can form. */
export interface PieceTable {
  ids: ReadonlyMap<string, number>;
  /** By id: 0 for the highest score; equal scores have equal ranks. */
  ranks: Uint32Array;
  /** UTF-16 units of the longest. */
  longest: number;
  /** By `slotOf` two units: 1 if they are neighbours in some piece. */
  joined: Uint8Array;
}

const SLOTS = 1 << 20;

/** Whether plain text can produce the token: never a control, unknown or byte token. */
export function isPiece(type: number): boolean {
  return type !== TOKEN_TYPES.control && type !== TOKEN_TYPES.unknown && type !== TOKEN_TYPES.byte;
}

/** The pieces of a vocabulary. @param scores By id, numbers. */
export function pieceTable({ tokens, types }: Vocabulary, scores: ArrayLike<number>): PieceTable {
  const ordered = Float64Array.from(new Set(Array.from(scores))).sort().reverse();
  const rank_of = new Map(Array.from(ordered, (score, rank) => [score, rank]));
  const ids = new Map<string, number>();
  const joined = new Uint8Array(SLOTS);
  let longest = 0;
  for (let id = 0; id < tokens.length; id++) {
    if (!isPiece(types[id]!)) continue;
    const text = tokens[id]!;
    ids.set(text, id);
    longest = Math.max(longest, text.length);
    for (let i = 1; i < text.length; i++) joined[slotOf(text.charCodeAt(i - 1), text.charCodeAt(i))] = 1;
  }
  return { ids, ranks: Uint32Array.from(tokens, (_, id) => rank_of.get(scores[id]!)!), longest, joined };
}

/**
 * Splits a text between characters that are neighbours in no piece. Merging never crosses there, so each word can be
 * merged and cached separately.
 */
export function* splitWords(text: string, { joined }: PieceTable): Generator<string, void> {
  let start = 0;
  for (let at = 1; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (joined[slotOf(text.charCodeAt(at - 1), unit)] === 1 || isLowSurrogate(unit)) continue;
    yield text.slice(start, at);
    start = at;
  }
  if (start < text.length) yield text.slice(start);
}

/** Two pairs of UTF-16 units may share a slot; a text is then split in fewer places. */
function slotOf(unit: number, next_unit: number): number {
  return (Math.imul(unit, 0x9e3779b1) >>> 12) ^ next_unit;
}

function isLowSurrogate(unit: number): boolean {
  return unit >= 0xdc00 && unit < 0xe000;
}

/**
 * Merges neighbours whose joined text is a piece, the highest score first, the leftmost among equals, until none is
 * left. Yields from left to right the id of each piece, and other characters as text.
 *
 * Takes O(n log n) for n characters: candidates are in a heap ordered by (rank, position), and those whose neighbours
 * have changed meanwhile are skipped.
 *
 * @source llama.cpp, `llm_tokenizer_spm_session`.
 */
export function* mergePieces(
  text: string,
  { ids, ranks, longest }: PieceTable,
): Generator<number | string, void> {
  const starts = characterStarts(text), length = starts.length - 1;
  // A part is identified by its first character; `length` follows the last.
  const next = Int32Array.from(starts, (_, at) => at + 1),
    previous = Int32Array.from(starts, (_, at) => at - 1);
  const made = new Int32Array(length).fill(-1), pair = new Int32Array(length).fill(-1);
  const heap = new NumberHeap();
  const pieceFrom = (at: number, stop: number) => {
    const start = starts[at]!, end = starts[stop]!;
    return end - start <= longest ? ids.get(text.slice(start, end)) ?? -1 : -1;
  };
  const offer = (at: number) => {
    if (at < 0) return;
    const right = next[at]!;
    const id = pair[at] = right < length ? pieceFrom(at, next[right]!) : -1;
    if (id >= 0) heap.push(ranks[id]! * length + at);
  };
  for (let at = 0; at < length; at++) offer(at);
  for (let least = heap.pop(); least !== undefined; least = heap.pop()) {
    const at = least % length, id = pair[at]!;
    if (id < 0 || ranks[id]! * length + at !== least) continue;
    const gone = next[at]!, after = next[gone]!;
    made[at] = id;
    next[at] = after;
    pair[gone] = -1;
    previous[after] = at;
    offer(previous[at]!);
    offer(at);
  }
  for (let at = 0; at < length; at = next[at]!) {
    const id = made[at]! >= 0 ? made[at]! : pieceFrom(at, next[at]!);
    yield id >= 0 ? id : text.slice(starts[at]!, starts[next[at]!]!);
  }
}

/** The start of each character of a well-formed text in UTF-16 units, and the end of the text. */
function characterStarts(text: string): Uint32Array {
  const starts = new Uint32Array(text.length + 1);
  let count = 0;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    starts[count++] = at;
    if (unit >= 0xd800 && unit < 0xdc00) at++;
  }
  starts[count++] = text.length;
  return starts.subarray(0, count);
}
