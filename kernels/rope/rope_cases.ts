/** The shapes for rope's tests and bench. */

import type { RopeInput } from "./rope_reference.ts";

export interface RopeCase extends Omit<RopeInput, "positions" | "x"> {
  name: string;
  /** Row n has position `last − 7n`, or 0 if that is negative. */
  last: number;
}

export const CASES: readonly RopeCase[] = [
  { name: "one pair", pairing: "half", rows: 1, heads: 1, width: 2, base: 10_000, last: 3 },
  {
    name: "half a head narrower than a vector",
    pairing: "half",
    rows: 3,
    heads: 2,
    width: 6,
    base: 10_000,
    last: 40,
  },
  { name: "a model's heads", pairing: "half", rows: 33, heads: 8, width: 64, base: 10_000, last: 1023 },
  {
    name: "an odd number of heads",
    pairing: "half",
    rows: 5,
    heads: 3,
    width: 128,
    base: 1_000_000,
    last: 500,
  },
  { name: "far positions", pairing: "half", rows: 4, heads: 2, width: 16, base: 1_000_000, last: 32_767 },
  { name: "one adjacent pair", pairing: "adjacent", rows: 1, heads: 1, width: 2, base: 10_000, last: 3 },
  { name: "adjacent pairs", pairing: "adjacent", rows: 33, heads: 5, width: 64, base: 10_000, last: 1023 },
  {
    ...{
      name: "adjacent pairs with factors",
      pairing: "adjacent",
      rows: 4,
      heads: 2,
      width: 8,
      base: 500_000,
    },
    ...{ last: 9000, factors: [1, 1, 4.5, 8] },
  },
];
