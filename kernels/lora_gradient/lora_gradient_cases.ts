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
  { name: "one row, one rank", rows: 1, columns: 4, rank: 1, q_stride: 1, q_offset: 0 },
  { name: "a column slice of odd rank", rows: 37, columns: 68, rank: 3, q_stride: 9, q_offset: 3 },
  { name: "a model's q of q, k, v", rows: 300, columns: 256, rank: 16, q_stride: 48, q_offset: 16 },
  { name: "a rank more than a tile", rows: 65, columns: 72, rank: 17, q_stride: 17, q_offset: 0 },
  { name: "the largest rank", rows: 130, columns: 128, rank: 64, q_stride: 64, q_offset: 0 },
  { name: "many rows", rows: 4100, columns: 8, rank: 2, q_stride: 2, q_offset: 0 },
];
