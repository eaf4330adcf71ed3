/** How groups of sequences lie in packed rows: a prompt once, its members behind it. */

import { roundUp } from "../shape.ts";

/** A prompt's length and those of the members that continue it; all lengths in rows. */
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
  /** Rows in all, padding included. */
  count: number;
  /** `[count, 4]`: prefix_start, prefix_length, own_start, subtree_end. */
  rows: Uint32Array;
  /** Where each group's prompt and members lie. A prompt of length 0 has no rows. */
  groups: { prompt: PackedSegment; members: PackedSegment[] }[];
}

/**
 * Lays groups out one behind the other. A segment starts at a multiple of `alignment`; the rows up to the next one
 * are padding, which attends to itself only.
 *
 * @param alignment `attentionRowAlignment` of the device.
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
