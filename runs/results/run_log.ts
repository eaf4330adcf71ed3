/** The log from which a run's metrics are read. */

import { join } from "node:path";
import { OBSERVE_INDEX } from "../../agent/results/observed.ts";
import { ServiceError } from "../../core/errors.ts";
import { openRegularFile } from "../../core/regular_file.ts";
import { eventsPathOf } from "../directory/run_directory.ts";
import type { RunEvent } from "../record/event.ts";
import { parseEvent } from "../record/event_log.ts";
import { eventEntry, type LogEntry, observedEntry } from "../record/log_entry.ts";

/** A file of lines that only grows, until the run is removed or its writer cuts off an incomplete last line. */
export interface RunLog {
  run: string;
  path: string;
  /** The offset that ends what may be read, because more may not be on disk yet. Absent: the file's end. */
  end?: number | undefined;
  /** Incomplete lines are left out and counted; else one ends the log, because the log's writer cuts it off. */
  skips_damaged: boolean;
  /** The entry of a line; null when it is damaged. @param n Counts the lines from 1. */
  entryOf(line: string, n: number): LogEntry | null;
}

/** Where a run's files are. */
interface RunPlaces {
  /** The run directory; null when only trajectories are there. */
  directory: string | null;
  /** The bytes of its event log that may be read; absent: all. */
  log_bytes?: number;
  /** The observe directory. */
  trajectories: string | null;
}

/** The event log of a run, else the index of its observe directory; null when there is neither. */
export function runLogOf(run: string, { directory, log_bytes, trajectories }: RunPlaces): RunLog | null {
  if (directory !== null) {
    return { run, path: eventsPathOf(directory), end: log_bytes, skips_damaged: false, entryOf: eventEntry };
  }
  if (trajectories === null) return null;
  return { run, path: join(trajectories, OBSERVE_INDEX), skips_damaged: true, entryOf: observedEntry };
}

/** Where a line is in a log, in bytes. */
export interface LogLinePlace {
  start: number;
  bytes: number;
}

/**
 * The events at places of an event log.
 *
 * @throws {ServiceError} `format_invalid` when another event is there, because the log was replaced.
 */
export async function* readEventsAt<K extends RunEvent["kind"]>(
  path: string,
  kind: K,
  places: readonly LogLinePlace[],
): AsyncGenerator<Extract<RunEvent, { kind: K }>> {
  if (places.length === 0) return;
  using file = await openRegularFile(path);
  for (const { start, bytes } of places) {
    file.seek(start);
    const line = new Uint8Array(bytes);
    for (let at = 0, n: number | null = 0; at < bytes && n !== null; at += n ?? 0) {
      n = await file.read(line.subarray(at));
    }
    const event = parseEvent(new TextDecoder().decode(line));
    if (event?.kind !== kind) {
      throw new ServiceError("format_invalid", `Cannot read ${path}: it was replaced`);
    }
    yield event as Extract<RunEvent, { kind: K }>;
  }
}
