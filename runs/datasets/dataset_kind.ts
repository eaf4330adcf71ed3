/** The kinds of datasets, and which of them a row is. */

import { DATA_KINDS, type DataKind } from "../../config/algorithms.ts";

/** What the rows of a dataset may be: the data of an algorithm. */
export const DATASET_KINDS: readonly DatasetKind[] = DATA_KINDS.map(({ kind }) => kind);

/** A kind of {@link DATASET_KINDS}. */
export type DatasetKind = DataKind;

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
