/** The shapes for attention's tests and bench. */

import type { PackedGroup } from "./packed_rows.ts";

export interface AttentionCase {
  name: string;
  groups: readonly PackedGroup[];
  heads: number;
  kv_heads: number;
  width: number;
  /** A factor on standard normal queries: scores far beyond the range of exp. */
  size: number;
  window?: number;
  soft_cap?: number;
}

const shape = (heads: number, kv_heads: number, width: number) => ({ heads, kv_heads, width, size: 1 });

export const CASES: readonly AttentionCase[] = [
  { name: "one row of one head", groups: [{ prompt: 1, members: [] }], ...shape(1, 1, 4) },
  {
    name: "no shared prefix, three segments",
    groups: [{ prompt: 0, members: [7, 1, 41] }],
    ...shape(2, 2, 8),
  },
  { name: "a group, seven heads to one", groups: [{ prompt: 13, members: [9, 1, 34] }], ...shape(14, 2, 16) },
  { name: "a width of three vectors", groups: [{ prompt: 3, members: [2, 2] }], ...shape(3, 1, 12) },
  {
    name: "two groups, eight heads to one, a prompt of one",
    groups: [{ prompt: 1, members: [5, 12] }, { prompt: 33, members: [8, 16] }],
    ...shape(8, 1, 16),
  },
  { name: "heads of 32", groups: [{ prompt: 9, members: [7, 8] }], ...shape(2, 1, 32) },
  { name: "the tiny model's heads", groups: [{ prompt: 45, members: [17, 30] }], ...shape(8, 2, 64) },
  { name: "seven heads of 64 to one", groups: [{ prompt: 9, members: [4] }], ...shape(7, 1, 64) },
  { name: "heads of 256", groups: [{ prompt: 3, members: [35, 6] }], ...shape(2, 1, 256) },
  { name: "heads of 128", groups: [{ prompt: 11, members: [21, 6] }], ...shape(4, 2, 128) },
  {
    name: "more rows than a part has, and more keys than are summed at once",
    groups: [{ prompt: 300, members: [40, 290] }],
    ...shape(2, 1, 8),
  },
  {
    name: "scores in the thousands",
    groups: [{ prompt: 20, members: [10, 10] }],
    ...shape(4, 2, 16),
    size: 1000,
  },
  {
    // Members see a part of their prompt, or none of it; blocks and tiles lie before all windows.
    name: "a window shorter than the prompt",
    groups: [{ prompt: 45, members: [17, 70, 3] }, { prompt: 3, members: [40] }],
    ...shape(2, 1, 8),
    window: 20,
  },
  {
    name: "a window of one",
    groups: [{ prompt: 5, members: [3, 9] }, { prompt: 0, members: [40] }],
    ...shape(2, 2, 8),
    window: 1,
  },
  {
    name: "a window longer than everything",
    groups: [{ prompt: 13, members: [9, 34] }],
    ...shape(2, 1, 8),
    window: 1000,
  },
  {
    name: "a small cap",
    groups: [{ prompt: 9, members: [7, 8] }],
    ...shape(4, 2, 16),
    size: 10,
    soft_cap: 0.5,
  },
  {
    name: "a window and a cap that scores in the thousands meet",
    groups: [{ prompt: 33, members: [70, 10] }],
    ...shape(4, 2, 16),
    ...{ size: 1000, window: 33, soft_cap: 50 },
  },
  {
    name: "heads of 64 with window and cap",
    groups: [{ prompt: 70, members: [9, 21] }],
    ...shape(4, 2, 64),
    ...{ window: 24, soft_cap: 50 },
  },
];

/** The shape of a training micro-batch of the tiny model: a group of eight on one prompt. */
export const BENCH_CASE: AttentionCase = {
  name: "a group of eight",
  groups: [{ prompt: 320, members: Array(8).fill(110) }],
  ...shape(8, 2, 64),
};
