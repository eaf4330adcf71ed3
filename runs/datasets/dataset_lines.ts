/** Reading the lines of a stored dataset. Messages name no path: `dataset` stands for the file. */

import { ServiceError } from "../../core/errors.ts";
import { type BrokenLine, type JsonLine, type LineStart, readAllLines } from "../../data/jsonl.ts";

/** The name of a dataset in the messages of readers. */
export const DATASET_NAME = "dataset";

/** The most characters of a message about a row. */
const MAX_MESSAGE_CHARS = 2000;

/** A message about a row without its place, which is a field of its own. */
function rowReason({ message }: Error): string {
  const place = new RegExp(`^Cannot read ${DATASET_NAME}:\\d+: `);
  return message.replace(place, "").slice(0, MAX_MESSAGE_CHARS);
}

/** The lines from a place on; see {@link readAllLines}. */
export function datasetLines(
  path: string,
  options: { from?: LineStart; onStart?: (start: LineStart) => void } = {},
): AsyncGenerator<JsonLine | BrokenLine> {
  return readAllLines(path, { ...options, name: DATASET_NAME });
}

/** One line; null when the file has no such line or it is blank. @param from The line, or one before it. */
export async function datasetLine(
  path: string,
  { line, from }: { line: number; from: LineStart },
): Promise<JsonLine | BrokenLine | null> {
  for await (const found of datasetLines(path, { from })) {
    if (found.line === line) return found;
    if (found.line > line) return null;
  }
  return null;
}

/** The error, unless it is about a row's data; then its problem. */
export function problemOf(error: unknown): string {
  if (error instanceof ServiceError && error.code === "data_invalid") return rowReason(error);
  throw error;
}
