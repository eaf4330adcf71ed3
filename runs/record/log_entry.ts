/** The entries of an index: one for each line of a run's log. */

import { OBSERVE_FORMAT, type ObservedUpdate } from "../../agent/results/observed.ts";
import type { MetricsEvent, RunEvent } from "./event.ts";
import { isLive } from "./run.ts";

/** The values of a `metrics` event. */
interface SampleEntry {
  kind: "samples";
  time_ms: number;
  update: number;
  step: number;
  values: Record<string, number>;
}

/** The run continues from this update. It repeats the later updates of the log, whose events no longer count. */
interface PositionEntry {
  kind: "position";
  update: number;
}

/** An event that readers look up by its name. */
interface PlaceEntry {
  kind: "evaluation" | "checkpoint";
  /** The number of the evaluation, or the checkpoint's name. */
  name: string;
  update: number;
}

/** The entry of a line in an index. */
export type LogEntry = { seq: number } & (SampleEntry | PositionEntry | PlaceEntry | { kind: "other" });

/** The start of every line that an `EventLog` writes. */
const HEAD = /^\{"seq":(\d+),"time":"[^"]*","run":"[^"]*","kind":"([a-z]+)"/;

/** Kinds whose lines are not parsed: those of updates can be long. */
const SKIPPED = ["update", "artifact", "log", "warning", "command", "end"];

/** The entry of a line of `events.jsonl`; null when it is damaged. */
export function eventEntry(line: string): LogEntry | null {
  const head = HEAD.exec(line.slice(0, 256));
  if (head && SKIPPED.includes(head[2]!)) return { seq: Number(head[1]), kind: "other" };
  try {
    const event: RunEvent = JSON.parse(line);
    return Number.isSafeInteger(event.seq) ? { seq: event.seq, ...partOf(event) } : null;
  } catch {
    return null;
  }
}

function partOf(event: RunEvent): SampleEntry | PositionEntry | PlaceEntry | { kind: "other" } {
  switch (event.kind) {
    case "metrics":
      return samplesOf(event);
    case "evaluation":
      return { kind: "evaluation", name: String(event.n), update: event.update };
    case "checkpoint":
      return { kind: "checkpoint", name: event.name, update: event.update };
    case "state":
      return isLive(event.state) ? { kind: "position", update: event.update } : { kind: "other" };
    default:
      return { kind: "other" };
  }
}

/** The entry of a line of an observe directory's index; null when it is damaged. */
export function observedEntry(line: string, seq: number): LogEntry | null {
  try {
    const { format, time, update, step, metrics }: ObservedUpdate = JSON.parse(line);
    if (format !== OBSERVE_FORMAT) return null;
    return { seq, ...samplesOf({ time, update, step, values: metrics }) };
  } catch {
    return null;
  }
}

function samplesOf(
  { time, update, step, values }: Pick<MetricsEvent, "update" | "step"> & {
    time: string;
    values: Record<string, number | null>;
  },
): SampleEntry {
  // A value that is not finite is null in JSON.
  const finite = Object.entries(values).filter((pair): pair is [string, number] =>
    typeof pair[1] === "number"
  );
  return {
    kind: "samples",
    time_ms: Date.parse(time) || 0,
    update,
    step,
    values: Object.fromEntries(finite),
  };
}
