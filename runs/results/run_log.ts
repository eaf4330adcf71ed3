/** The log from which a run's metrics are read. */

import { join } from "node:path";
import { OBSERVE_INDEX } from "../../agent/results/observe.ts";
import { eventsPathOf } from "../directory/run_directory.ts";
import { eventEntry, type LogEntry, observedEntry } from "../record/log_entry.ts";

/** A file of lines that only grows, until the run is removed or its writer cuts off an incomplete last line. */
export interface RunLog {
  run: string;
  path: string;
  /** Lines that are not whole are left out and counted; else they end the log, because its writer cuts them off. */
  skips_damaged: boolean;
  /** The entry of a line; null when it is damaged. @param n Counts the lines from 1. */
  entryOf(line: string, n: number): LogEntry | null;
}

/** Where a run's files are. */
interface RunPlaces {
  /** The run directory; null when only trajectories are there. */
  directory: string | null;
  /** The observe directory. */
  trajectories: string | null;
}

/** The event log of a run, else the index of its observe directory; null when there is neither. */
export function runLogOf(run: string, { directory, trajectories }: RunPlaces): RunLog | null {
  if (directory !== null) {
    return { run, path: eventsPathOf(directory), skips_damaged: false, entryOf: eventEntry };
  }
  if (trajectories === null) return null;
  return { run, path: join(trajectories, OBSERVE_INDEX), skips_damaged: true, entryOf: observedEntry };
}
