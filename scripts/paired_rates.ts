/** Compares the rates of two evaluations for experiments. */

import { evenExample, pairedBootstrap, type PairedDifference } from "../runs/record/paired_comparison.ts";

/** The bootstrap's seed; another seed moves the ends of the interval by some tenths of a point. */
const BOOTSTRAP_SEED = 1;

/** after − before over the same scenarios, with its 95 % interval; the same rates always give the same interval. */
export function pairedRates(before: readonly number[], after: readonly number[]): PairedDifference {
  return pairedBootstrap(before.map(evenExample), after.map(evenExample), { seed: BOOTSTRAP_SEED, bound: 1 });
}
