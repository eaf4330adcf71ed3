/** Packs groups of sequences into rows: each prompt once, followed by its members. */

import { roundUp } from "../shape.ts";

/** The length of a prompt and of the members that continue it, in rows. */
export interface PackedGroup {
  prompt: number;
  members: readonly number[];
}

/** A run of rows: `length` rows from `start`. */
export interface PackedSegment {
  start: number;
  length: number;
}

export interface PackedRows {
  /** The number of rows, including padding. */
  count: number;
  /** `[count, 4]`: prefix_start, prefix_length, own_start, subtree_end. */
  rows: Uint32Array;
  /** The positions of each group's prompt and members. A prompt of length 0 has no rows. */
  groups: { prompt: PackedSegment; members: PackedSegment[] }[];
}

/**
 * Packs groups one after the other. A segment starts at a multiple of `alignment`; the rows in between are padding,
 * which attends only to itself.
 *
 * @param alignment `attentionRowAlignment` of the device.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * // A prompt of 3 rows, and two members of 2 rows that continue it.
 * const { count, rows, groups } = packRows([{ prompt: 3, members: [2, 2] }], 4);
 * assert.equal(count, 12);
 * assert.deepEqual(groups[0].members, [{ start: 4, length: 2 }, { start: 8, length: 2 }]);
 * // Row 9 sees the prompt's rows 0 to 2, and its own member's from 8 on.
 * assert.deepEqual([...rows.subarray(4 * 9, 4 * 10)], [0, 3, 8, 10]);
 * ```
 */
export function packRows(groups: readonly PackedGroup[], alignment: number): PackedRows {
  let count = 0;
  const place = (length: number): PackedSegment => {
    const start = count;
    count = roundUp(count + length, alignment);
    return { start, length };
  };
  const placed = groups.map(({ prompt, members }) => ({
    prompt: place(prompt),
    members: members.map(place),
  }));
  const rows = new Uint32Array(4 * count);
  for (let i = 0; i < count; i++) rows.set([0, 0, i, i + 1], 4 * i);
  for (const { prompt, members } of placed) {
    const groupEnd = Math.max(prompt.start + prompt.length, ...members.map((m) => m.start + m.length));
    for (let i = 0; i < prompt.length; i++) {
      rows.set([0, 0, prompt.start, groupEnd], 4 * (prompt.start + i));
    }
    for (const { start, length } of members) {
      for (let i = 0; i < length; i++) {
        rows.set([prompt.start, prompt.length, start, start + length], 4 * (start + i));
      }
    }
  }
  return { count, rows, groups: placed };
}
