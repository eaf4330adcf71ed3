/** The kinds of datasets, and which readers check their rows. */

import { pairOf } from "../../data/pair.ts";
import { scenarioParser } from "../../data/scenario.ts";
import { traceOf } from "../../data/trace.ts";

/** What the rows of a dataset may be: examples, tasks or pairs. */
export const DATASET_KINDS = ["sft", "scenarios", "preference"] as const;

/** A kind of {@link DATASET_KINDS}. */
export type DatasetKind = typeof DATASET_KINDS[number];

/** The place of a row in messages. */
export interface RowPlace {
  path: string;
  line: number;
}

/** The kind that a row's fields tell; null when they tell none. */
export function kindOfRow(row: Record<string, unknown>): DatasetKind | null {
  const has = (...names: string[]) => names.every((name) => Object.hasOwn(row, name));
  if (has("chosen", "rejected")) return "preference";
  if (has("messages") || has("prompt", "completion") || has("text")) return "sft";
  return has("id", "user") ? "scenarios" : null;
}

/**
 * Checks the rows of a file in order, with the readers of training.
 *
 * @returns A function that throws a {@link ServiceError} `data_invalid` with file and line.
 */
export function rowChecker(kind: DatasetKind): (row: Record<string, unknown>, place: RowPlace) => void {
  return { sft: traceOf, preference: pairOf, scenarios: scenarioParser() }[kind];
}
