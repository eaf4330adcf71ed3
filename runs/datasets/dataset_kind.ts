/** The kinds of datasets, and how the kind of a row is recognised. */

import { DATA_KINDS, type DataKind } from "../../config/algorithms.ts";

/** The kinds of rows that a dataset may have: the data of the algorithms. */
export const DATASET_KINDS: readonly DataKind[] = DATA_KINDS.map(({ kind }) => kind);

/** The kind whose fields a row has; the last one if it has those of several, null if it has those of none. */
export function kindOfRow(row: Record<string, unknown>): DataKind | null {
  const found = DATA_KINDS.findLast(({ fields }) =>
    fields.some((names) => names.every((name) => Object.hasOwn(row, name)))
  );
  return found?.kind ?? null;
}

/** The kinds with their fields as text, for the message about a row that fits none. */
export function kindsText(): string {
  return DATA_KINDS.map(({ kind, fields }) =>
    `${kind} with ${fields.map((names) => `{${names.join(", ")}}`).join(" or ")}`
  ).join(", ");
}
