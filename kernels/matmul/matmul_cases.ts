/** The shapes that matmul is tested on. */

export interface MatmulCase {
  name: string;
  rows: number;
  depth: number;
  columns: number;
  rank: number;
  residual: boolean;
}

export const CASES: readonly MatmulCase[] = [
  { name: "one row, one vector deep", rows: 1, depth: 4, columns: 4, rank: 0, residual: false },
  { name: "a row more than a lane group", rows: 9, depth: 32, columns: 36, rank: 4, residual: true },
  { name: "depth no multiple of a staged step", rows: 33, depth: 20, columns: 68, rank: 12, residual: false },
  { name: "a row less than a tile", rows: 127, depth: 64, columns: 132, rank: 8, residual: true },
  { name: "model size", rows: 70, depth: 256, columns: 512, rank: 8, residual: true },
];
