/** `events.jsonl`: appended by one process, flushed in batches, followed by any number of readers. */

import { dirname } from "node:path";
import { type Clock, timestamp } from "../../core/clock.ts";
import { doing, ServiceError, systemError } from "../../core/errors.ts";
import { syncDirectory } from "../../core/files.ts";
import type { EventData, RunEvent } from "./event.ts";
import { linesFrom, LOG_START, type LogPlace } from "./log_lines.ts";

/** The longest time until an event is on disk. */
export const BATCH_MS = 50;

const POLL_MS = 100;

export interface EventLogOptions {
  /** The run's id, part of every event. */
  run: string;
  clock: Clock;
  /** Receives the events of a batch once they are durable. */
  on_durable?: (events: RunEvent[]) => void;
  /** The place up to which the log was read already, and is as it should be. Absent: its start. */
  checked?: LogPlace;
}

export class EventLog {
  readonly #file: Deno.FsFile;
  readonly #path: string;
  readonly #options: EventLogOptions;
  #last_seq: number;
  /** The end of what is durable. */
  #place: LogPlace;
  #batch: RunEvent[] = [];
  #timer: AbortController | null = null;
  #writing: Promise<void> = Promise.resolve();
  #failure: unknown = null;

  private constructor(
    { file, path }: { file: Deno.FsFile; path: string },
    place: LogPlace,
    options: EventLogOptions,
  ) {
    this.#file = file;
    this.#path = path;
    this.#last_seq = place.seq;
    this.#place = place;
    this.#options = options;
  }

  /**
   * Opens or creates the log. Cuts off an incomplete last line, which a crash leaves; numbering continues after the
   * last complete one. What the log then holds is on disk.
   *
   * @throws {ServiceError} `format_invalid` when another line is invalid or out of order.
   */
  static async open(path: string, options: EventLogOptions): Promise<EventLog> {
    return await doing(`open the event log ${path}`, async () => {
      const place = await inspect(path, options.checked);
      const file = await Deno.open(path, { write: true, create: true });
      await file.truncate(place.offset);
      // A killed process may have written its last events without flushing them.
      await file.syncData();
      await file.seek(0, Deno.SeekMode.End);
      await syncDirectory(dirname(path));
      return new EventLog({ file, path }, place, options);
    });
  }

  /** The number of the newest event, durable or not; 0 when there is none. */
  get last_seq(): number {
    return this.#last_seq;
  }

  /** The end of what is durable. */
  get place(): LogPlace {
    return this.#place;
  }

  /**
   * Numbers and timestamps an event; it is durable within {@link BATCH_MS}.
   *
   * @throws The error of an earlier failed write, after which no event is accepted.
   */
  append(data: EventData): RunEvent {
    if (this.#failure) throw this.#failure;
    const { run, clock } = this.#options;
    const event = { seq: ++this.#last_seq, time: timestamp(clock), run, ...data };
    this.#batch.push(event);
    if (!this.#timer) {
      const timer = this.#timer = new AbortController();
      clock.sleep(BATCH_MS, timer.signal).then(() => this.flush()).catch(() => {});
    }
    return event;
  }

  /** Resolves when all appended events are durable. */
  flush(): Promise<void> {
    this.#timer?.abort();
    this.#timer = null;
    const batch = this.#batch;
    this.#batch = [];
    this.#writing = this.#writing.then(() => this.#write(batch));
    return this.#writing;
  }

  async close(): Promise<void> {
    try {
      await this.flush();
    } finally {
      this.#file.close();
    }
  }

  async #write(batch: RunEvent[]): Promise<void> {
    if (this.#failure) throw this.#failure;
    if (batch.length === 0) return;
    try {
      const bytes = new TextEncoder().encode(batch.map((event) => JSON.stringify(event) + "\n").join(""));
      for (let at = 0; at < bytes.length;) at += await this.#file.write(bytes.subarray(at));
      await this.#file.syncData();
      this.#place = { seq: batch.at(-1)!.seq, offset: this.#place.offset + bytes.length };
    } catch (error) {
      this.#failure = systemError(`write the event log ${this.#path}`, error);
      throw this.#failure;
    }
    this.#options.on_durable?.(batch);
  }
}

/** The end of the last complete line. Reads what is after a place, unless the log has become shorter. */
async function inspect(path: string, checked: LogPlace | undefined): Promise<LogPlace> {
  const is_there = checked !== undefined && (await Deno.stat(path)).size >= checked.offset;
  let { seq, offset } = is_there ? checked : LOG_START, broken_at = 0;
  for await (const { line, end } of linesFrom(path, offset)) {
    const event = parseEvent(line);
    if (broken_at > 0) throw damaged(path, broken_at, "it is followed by further lines");
    if (event === null) {
      broken_at = seq + 1;
      continue;
    }
    if (event.seq !== seq + 1) throw damaged(path, seq + 1, `its number is ${event.seq}`);
    seq = event.seq;
    offset = end;
  }
  return { seq, offset };
}

function damaged(path: string, line: number, reason: string): ServiceError {
  return new ServiceError(
    "format_invalid",
    `Cannot open the event log ${path}: line ${line} is damaged, and ${reason}`,
    { path, line },
  );
}

/** The event of a line; null when it is damaged. */
export function parseEvent(line: string): RunEvent | null {
  try {
    const value = JSON.parse(line);
    return typeof value?.seq === "number" && typeof value.kind === "string" ? value : null;
  } catch {
    return null;
  }
}

export interface ReadEventsOptions {
  /** Only events with a larger number. */
  since?: number;
  /** Waits for more events until the signal aborts. Absent: stops at the end of the file. */
  follow?: { clock: Clock; signal: AbortSignal };
}

/**
 * The complete lines of a log in order. An incomplete last line is left for later.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 * import { systemClock } from "../../core/clock.ts";
 *
 * const folder = await Deno.makeTempDir(), path = `${folder}/events.jsonl`;
 * const log = await EventLog.open(path, { run: "run_1", clock: systemClock });
 * log.append({ kind: "log", level: "info", message: "hello" });
 * await log.close();
 * const events = await Array.fromAsync(readEvents(path));
 * assert.deepEqual(events.map(({ seq, kind }) => [seq, kind]), [[1, "log"]]);
 * await Deno.remove(folder, { recursive: true });
 * ```
 */
export async function* readEvents(path: string, options: ReadEventsOptions = {}): AsyncGenerator<RunEvent> {
  const { since = 0, follow } = options;
  let offset = 0;
  while (true) {
    for await (const { line, end } of linesFrom(path, offset)) {
      const event = parseEvent(line);
      if (event === null) break;
      offset = end;
      if (event.seq > since) yield event;
    }
    if (!follow || follow.signal.aborted) return;
    try {
      await follow.clock.sleep(POLL_MS, follow.signal);
    } catch {
      return;
    }
  }
}
