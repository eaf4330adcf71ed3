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

/** Shapes whose depth GPUs cut into several chunks, of 64 steps here. */
export const CHUNK_CASES: readonly MatmulCase[] = [
  {
    name: "one row, four columns, a last chunk of one tile",
    rows: 1,
    depth: 272,
    columns: 4,
    rank: 0,
    residual: false,
  },
  {
    name: "depth no multiple of a chunk or a tile",
    rows: 67,
    depth: 340,
    columns: 68,
    rank: 12,
    residual: true,
  },
  { name: "complete chunks, few columns", rows: 130, depth: 512, columns: 16, rank: 0, residual: true },
  { name: "blocks of all types", rows: 19, depth: 512, columns: 512, rank: 4, residual: false },
];
