/** The kinds of datasets, and which readers check their rows. */

import { DATA_KINDS, type DataKind } from "../../config/algorithms.ts";
import { pairOf } from "../../data/pair.ts";
import { scenarioParser } from "../../data/scenario.ts";
import { traceOf } from "../../data/trace.ts";

/** What the rows of a dataset may be: the data of an algorithm. */
export const DATASET_KINDS: readonly DatasetKind[] = DATA_KINDS.map(({ kind }) => kind);

/** A kind of {@link DATASET_KINDS}. */
export type DatasetKind = DataKind;

/** The place of a row in messages. */
export interface RowPlace {
  path: string;
  line: number;
}

/** The kind that a row's fields tell, of several the last; null when they tell none. */
export function kindOfRow(row: Record<string, unknown>): DatasetKind | null {
  const found = DATA_KINDS.findLast(({ fields }) =>
    fields.some((names) => names.every((name) => Object.hasOwn(row, name)))
  );
  return found?.kind ?? null;
}

/** The kinds with their fields, for a row that has those of none. */
export function kindsText(): string {
  return DATA_KINDS.map(({ kind, fields }) =>
    `${kind} with ${fields.map((names) => `{${names.join(", ")}}`).join(" or ")}`
  ).join(", ");
}

/** A new kind has its reader here, and its renderer in `rendered_dataset_row.ts`. */
const ROW_CHECKERS: Record<DatasetKind, () => (row: Record<string, unknown>, place: RowPlace) => void> = {
  sft: () => traceOf,
  preference: () => pairOf,
  scenarios: scenarioParser,
};

/**
 * Checks the rows of a file in order, with the readers of training.
 *
 * @returns A function that throws a {@link ServiceError} `data_invalid` with file and line.
 */
export function rowChecker(kind: DatasetKind): (row: Record<string, unknown>, place: RowPlace) => void {
  return ROW_CHECKERS[kind]();
}
