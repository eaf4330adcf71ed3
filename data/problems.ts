/** Collects the invalid lines of a data file into one error. */

import { ServiceError } from "../core/errors.ts";
import { Pauses } from "../core/pauses.ts";
import { type JsonLine, readAllLines } from "./jsonl.ts";

/** The number of invalid lines after which reading stops. */
export const MAX_REPORTED_PROBLEMS = 20;

/** The number of rows after which other work on the thread may run. */
const ROWS_BETWEEN_PAUSES = 64;

/** An invalid line and the reason. */
export interface LineProblem {
  line: number;
  message: string;
}

/** The error for a file with invalid lines; `details.problems` lists them. */
export function linesInvalid(path: string, problems: LineProblem[]): ServiceError {
  const message = problems.map((problem) => problem.message).join("\n");
  return new ServiceError("data_invalid", message, { path, problems });
}

/**
 * Applies `read` to every line of a JSONL file, in order.
 *
 * @param options max_rows: the number of lines to read; later lines are ignored. empty: the reason without a line.
 * @throws {ServiceError} `path_not_found`; `data_invalid` with the first {@link MAX_REPORTED_PROBLEMS} lines for which
 * `read` throws this code; any other error of `read` at once.
 */
export async function readRows<T>(
  path: string,
  { max_rows = Infinity, empty = "the file is empty" }: { max_rows?: number | undefined; empty?: string },
  read: (line: JsonLine) => T,
): Promise<T[]> {
  const rows: T[] = [], problems: LineProblem[] = [], pauses = new Pauses(ROWS_BETWEEN_PAUSES);
  const collect = (error: unknown) => {
    if (!(error instanceof ServiceError) || error.code !== "data_invalid") throw error;
    problems.push({ line: Number(error.details.line ?? 0), message: error.message });
  };
  for await (const line of readAllLines(path)) {
    const seen = rows.length + problems.length;
    if (seen >= max_rows || problems.length >= MAX_REPORTED_PROBLEMS) break;
    await pauses.after(1);
    try {
      if ("error" in line) throw line.error;
      rows.push(read(line));
    } catch (error) {
      collect(error);
    }
  }
  if (problems.length === 0 && rows.length === 0) {
    problems.push({ line: 1, message: `Cannot read ${path}: ${empty}` });
  }
  if (problems.length > 0) throw linesInvalid(path, problems);
  return rows;
}
