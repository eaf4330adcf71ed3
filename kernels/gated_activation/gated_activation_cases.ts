/** The shapes for the gated activation's tests and bench. */

export interface GatedActivationCase {
  name: string;
  rows: number;
  width: number;
  /** A factor on every gate: far from zero the sigmoid is 0 or 1. */
  scale: number;
}

export const CASES: readonly GatedActivationCase[] = [
  { name: "one element", rows: 1, width: 1, scale: 1 },
  { name: "narrower than a vector", rows: 3, width: 3, scale: 1 },
  { name: "an item more than a workgroup", rows: 5, width: 52, scale: 1 },
  { name: "saturated gates", rows: 3, width: 64, scale: 100 },
];
