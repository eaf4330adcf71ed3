/** The shapes for lora_gradient's tests and bench. */

export interface LoraGradientCase {
  name: string;
  rows: number;
  columns: number;
  rank: number;
  q_stride: number;
  q_offset: number;
}

export const CASES: readonly LoraGradientCase[] = [
  { name: "one row, the least rank", rows: 1, columns: 4, rank: 4, q_stride: 4, q_offset: 0 },
  { name: "a column slice", rows: 37, columns: 68, rank: 8, q_stride: 24, q_offset: 8 },
  { name: "a model's q of q, k, v", rows: 300, columns: 256, rank: 16, q_stride: 48, q_offset: 16 },
  {
    name: "two groups of ranks, the second one not full",
    rows: 165,
    columns: 132,
    rank: 20,
    q_stride: 20,
    q_offset: 0,
  },
  { name: "two groups of ranks", rows: 65, columns: 72, rank: 32, q_stride: 32, q_offset: 0 },
  { name: "four groups of ranks", rows: 210, columns: 128, rank: 64, q_stride: 64, q_offset: 0 },
  { name: "ranks of two workgroups", rows: 130, columns: 136, rank: 76, q_stride: 152, q_offset: 76 },
  { name: "many rows", rows: 4100, columns: 8, rank: 12, q_stride: 12, q_offset: 0 },
];
