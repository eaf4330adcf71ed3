/** The newest events of each kind in a log, read from its end. */

import { basename } from "node:path";
import type { ArtifactEvent, EndEvent, RunEvent, UpdateEvent } from "./event.ts";

/** Bytes to read at a time, from the end backwards. */
const PIECE_BYTES = 1 << 18;

/** The facts about a run that are read from the end of its log. */
export interface LogTail {
  /** The number of the last complete event; 0 for an empty log. */
  seq: number;
  /** The bytes of the log up to the end of that event. */
  offset: number;
  /** The last change of the state. */
  state: Extract<RunEvent, { kind: "state" }> | null;
  /** The metrics of the last update and of evaluations since, by name. */
  metrics: Record<string, number>;
  /** The optimiser steps so far. */
  step: number;
  summary: UpdateEvent | null;
  /** The last event, when it is an `end`. */
  end: EndEvent | null;
  /** Finished updates. */
  update: number;
}

/**
 * Reads a log backwards until all facts are known, or to its start. An incomplete last line is skipped. A missing log
 * counts as empty.
 */
export async function lastEvents(path: string): Promise<LogTail> {
  const nothing = { state: null, metrics: {}, step: 0, summary: null, end: null, update: 0 };
  const tail: LogTail = { seq: 0, offset: 0, ...nothing };
  let is_last = true, is_measured = false, update: number | null = null;
  for await (const { event, end } of eventsBackwards(path)) {
    if (is_last) {
      [tail.seq, tail.offset] = [event.seq, end];
      tail.end = event.kind === "end" ? event : null;
      is_last = false;
    }
    // A resumed run continues from its checkpoint, which may be older than its last update.
    if (event.kind === "state" || event.kind === "update") update ??= event.update;
    if (event.kind === "state") tail.state ??= event;
    if (event.kind === "update") tail.summary ??= event;
    if (event.kind === "metrics") {
      tail.metrics = { ...event.values, ...tail.metrics };
      tail.step = Math.max(tail.step, event.step);
      // An update's metrics come before its summary, an evaluation's after it.
      is_measured = tail.summary !== null;
    }
    if (tail.state && is_measured) break;
  }
  return { ...tail, update: update ?? 0 };
}

/** The event of a file that the run's end wrote, by the file's name; null when the log has none. */
export async function writtenFile(path: string, name: string): Promise<ArtifactEvent | null> {
  for await (const { event } of eventsBackwards(path)) {
    if (event.kind === "artifact" && basename(event.path) === name) return event;
    // A run writes its files after its last update.
    if (event.kind === "update") return null;
  }
  return null;
}

async function* eventsBackwards(path: string): AsyncGenerator<{ event: RunEvent; end: number }> {
  for await (const { line, end } of linesBackwards(path)) {
    if (line === "") continue;
    try {
      const event = JSON.parse(line);
      if (typeof event?.seq === "number") yield { event, end };
    } catch { /* a damaged line: it is reported when the log is opened for writing */ }
  }
}

/** The complete lines of a file, the last first, each with the offset of its end. */
async function* linesBackwards(path: string): AsyncGenerator<{ line: string; end: number }> {
  let file: Deno.FsFile;
  try {
    file = await Deno.open(path, { read: true });
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return;
    throw error;
  }
  using _closing = file;
  const decoder = new TextDecoder();
  let at = (await file.stat()).size, rest = new Uint8Array(0), is_first = true;
  while (at > 0) {
    const from = Math.max(0, at - PIECE_BYTES);
    const bytes = new Uint8Array(at - from + rest.length);
    await file.seek(from, Deno.SeekMode.Start);
    for (let n = 0; n < at - from;) n += await file.read(bytes.subarray(n, at - from)) ?? Infinity;
    bytes.set(rest, at - from);
    at = from;
    let end = bytes.length;
    for (
      let newline = bytes.lastIndexOf(10, end - 1);
      newline >= 0;
      newline = bytes.lastIndexOf(10, end - 1)
    ) {
      // What follows the last newline of the file is incomplete.
      if (!is_first) yield { line: decoder.decode(bytes.subarray(newline + 1, end)), end: from + end + 1 };
      is_first = false;
      end = newline;
      if (end === 0) break;
    }
    rest = bytes.slice(0, end);
  }
  if (!is_first) yield { line: decoder.decode(rest), end: rest.length + 1 };
}
