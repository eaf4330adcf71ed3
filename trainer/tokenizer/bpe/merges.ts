/** Byte-pair merging. */

import { NumberHeap } from "../number_heap.ts";

/** The merges of a vocabulary: the token that two neighbours form, and the priority of each pair. */
export interface MergeTable {
  /** The size of the vocabulary; a pair has the number `left · size + right`. */
  size: number;
  /** The rank of each pair; the lowest merges first. */
  ranks: ReadonlyMap<number, number>;
  /** By rank: the token that the pair forms. */
  results: Uint32Array;
}

/**
 * Merges neighbours by ascending rank, the leftmost among equals first, until none is left.
 *
 * Takes O(n log n) for n tokens: candidates are in a heap ordered by (rank, position), and those whose neighbours have
 * changed meanwhile are skipped.
 */
export function applyMerges(tokens: Uint32Array, table: MergeTable): number[] {
  const length = tokens.length, current = tokens.slice();
  const next = Int32Array.from(tokens, (_, i) => i + 1 < length ? i + 1 : -1);
  const previous = Int32Array.from(tokens, (_, i) => i - 1);
  const heap = new NumberHeap();
  const rankAt = (at: number) => table.ranks.get(current[at]! * table.size + current[next[at]!]!);
  const offer = (at: number) => {
    if (at < 0 || next[at]! < 0) return;
    const rank = rankAt(at);
    if (rank !== undefined) heap.push(rank * length + at);
  };
  for (let at = 0; at < length; at++) offer(at);
  for (let least = heap.pop(); least !== undefined; least = heap.pop()) {
    const at = least % length, rank = (least - at) / length;
    // A merged position is its own predecessor.
    if (previous[at] === at || next[at]! < 0 || rankAt(at) !== rank) continue;
    const gone = next[at]!, after = next[gone]!;
    current[at] = table.results[rank]!;
    next[at] = after;
    previous[gone] = gone;
    if (after >= 0) previous[after] = at;
    offer(previous[at]!);
    offer(at);
  }
  const merged: number[] = [];
  for (let at = length > 0 ? 0 : -1; at >= 0; at = next[at]!) merged.push(current[at]!);
  return merged;
}
