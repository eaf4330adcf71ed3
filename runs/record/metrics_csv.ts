/** Metrics as CSV, one line for each sample, from the event log. */

import { ServiceError } from "../../core/errors.ts";
import { writeFileAtomic } from "../../core/files.ts";
import type { RunEvent } from "./event.ts";
import { readEvents } from "./event_log.ts";

/** The header of the metrics as CSV. */
export const METRICS_CSV_HEADER = "seq,time,update,step,name,value\n";

/** The samples of a metrics event as CSV lines; names and numbers need no quotes. */
function metricsCsvLines(event: RunEvent): string {
  if (event.kind !== "metrics") return "";
  const { seq, time, update, step, values } = event;
  return Object.entries(values).map(([name, value]) => `${seq},${time},${update},${step},${name},${value}\n`)
    .join("");
}

/**
 * Writes all metrics of an event log to a file, which appears only when complete.
 *
 * @throws {ServiceError} Names the event log, which still has the metrics.
 */
export async function writeMetricsCsv(events_path: string, csv_path: string): Promise<void> {
  try {
    await writeFileAtomic(csv_path, csvOf(events_path));
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    const message =
      `${error.message}. The metrics are in ${events_path}; resume the run with --resume to write the file`;
    throw new ServiceError(error.code, message, error.details, { cause: error });
  }
}

async function* csvOf(events_path: string): AsyncGenerator<Uint8Array> {
  const encoder = new TextEncoder();
  yield encoder.encode(METRICS_CSV_HEADER);
  for await (const event of readEvents(events_path)) {
    const lines = metricsCsvLines(event);
    if (lines !== "") yield encoder.encode(lines);
  }
}
