/** Metrics as CSV: a line per sample, read back from the event log. */

import { writeFileAtomic } from "../core/files.ts";
import type { RunEvent } from "./event.ts";
import { readEvents } from "./event_log.ts";

export const METRICS_CSV_HEADER = "seq,time,update,step,name,value\n";

/** The samples of a metrics event as CSV lines; names and numbers need no quotes. */
export function metricsCsvLines(event: RunEvent): string {
  if (event.kind !== "metrics") return "";
  const { seq, time, update, step, values } = event;
  return Object.entries(values).map(([name, value]) => `${seq},${time},${update},${step},${name},${value}\n`)
    .join("");
}

/** Writes all metrics of an event log to a file, which appears whole. */
export async function writeMetricsCsv(events_path: string, csv_path: string): Promise<void> {
  const encoder = new TextEncoder();
  await writeFileAtomic(
    csv_path,
    (async function* () {
      yield encoder.encode(METRICS_CSV_HEADER);
      for await (const event of readEvents(events_path)) {
        const lines = metricsCsvLines(event);
        if (lines !== "") yield encoder.encode(lines);
      }
    })(),
  );
}
