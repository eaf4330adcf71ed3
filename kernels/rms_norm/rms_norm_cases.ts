/** The shapes for rms_norm's tests and bench. */

export interface RmsNormCase {
  name: string;
  rows: number;
  width: number;
  eps: number;
  /** A factor on every x: for small numbers eps dominates. */
  scale: number;
}

export const CASES: readonly RmsNormCase[] = [
  { name: "one row of one", rows: 1, width: 1, eps: 1e-6, scale: 1 },
  { name: "narrower than a vector", rows: 3, width: 3, eps: 1e-6, scale: 1 },
  { name: "a head of a row more than a workgroup", rows: 65, width: 64, eps: 1e-6, scale: 1 },
  { name: "odd and long", rows: 7, width: 1027, eps: 1e-5, scale: 1 },
  { name: "small numbers, where eps counts", rows: 4, width: 256, eps: 1e-6, scale: 1e-3 },
  { name: "large numbers", rows: 4, width: 256, eps: 1e-6, scale: 1e4 },
  { name: "more items than the largest workgroup", rows: 2, width: 4096, eps: 1e-6, scale: 1 },
];
