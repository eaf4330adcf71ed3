/** The lines of a program's log: JSON, with the request for which code runs, and an output that never blocks. */

import { AsyncLocalStorage } from "node:async_hooks";
import { Buffer } from "node:buffer";
import { type Clock, timestamp } from "./clock.ts";
import { systemRefusal } from "./system_errors.ts";
import { jsonText } from "./text.ts";

const LINE_END = new TextEncoder().encode("\n");

/** The levels of lines, rising. */
export const LOG_LEVELS = ["info", "warning", "error"] as const;

/** How much a line matters. */
export type LogLevel = typeof LOG_LEVELS[number];

/** A line before it has its time: its level, usually `message`, and any other fields. */
export type LogLine = Readonly<Record<string, unknown>>;

const requests = new AsyncLocalStorage<string | null>();

/** Runs work for a request: every line that it logs, however deep and however late, has the request's trace id. */
export function withTrace<T>(trace_id: string, work: () => T): T {
  return requests.run(trace_id, work);
}

/** Runs work that outlives the request which started it: its lines belong to no request. */
export function withoutTrace<T>(work: () => T): T {
  return requests.run(null, work);
}

/** The trace id of the request for which this code runs; null outside of requests. */
export function currentTrace(): string | null {
  return requests.getStore() ?? null;
}

/** Writes some bytes and resolves to their number, as `Deno.stderr.write` does. */
type Write = (bytes: Uint8Array) => Promise<number>;

export interface LogOptions {
  clock: Clock;
  /** Lines below it are left out; a line without a level counts as info. */
  level: LogLevel;
  write: Write;
  /** The most text that waits for a slow reader; absent: {@link MAX_WAITING_BYTES}. */
  max_waiting_bytes?: number;
}

/** The most text of a log that waits for its reader. */
const MAX_WAITING_BYTES = 1 << 20;

/** The most bytes of one write: a reader that stopped holds up at most this. */
const WRITE_BYTES = 1 << 16;

/**
 * A log of JSON lines. Writing a line never waits and never fails: lines wait in memory while the reader is slow, those
 * that find no room, there or on a full disk, are lost, and a line then says how many. After any other failed write
 * nothing more is written.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 * import { systemClock } from "./clock.ts";
 *
 * let text = "";
 * const write = (bytes: Uint8Array) => Promise.resolve((text += new TextDecoder().decode(bytes), bytes.length));
 * const log = new Log({ clock: systemClock, level: "info", write });
 * withTrace("4bf92f3577b34da6a3ce929d0e0e4736", () => log.line({ level: "info", message: "done" }));
 * await log.flushed();
 * assert.equal(JSON.parse(text).trace_id, "4bf92f3577b34da6a3ce929d0e0e4736");
 * ```
 */
export class Log {
  readonly #options: LogOptions;
  #waiting: Uint8Array[] = [];
  #waiting_bytes = 0;
  #lost = 0;
  #writing: Promise<void> | null = null;
  /** Whether the output ends inside of a line, because the disk became full there. */
  #is_torn = false;
  #has_failed = false;

  constructor(options: LogOptions) {
    this.#options = options;
  }

  /** Adds a line. Its time and trace id come first; control characters in its texts are escaped. */
  readonly line = (line: LogLine): void => {
    const { level = "info", ...rest } = line;
    if (this.#has_failed || LOG_LEVELS.indexOf(level as LogLevel) < LOG_LEVELS.indexOf(this.#options.level)) {
      return;
    }
    const bytes = this.#bytesOf({ level, ...rest });
    const { max_waiting_bytes = MAX_WAITING_BYTES } = this.#options;
    if (this.#waiting_bytes + bytes.length > max_waiting_bytes) this.#lost++;
    else this.#add(bytes);
  };

  /** Resolves when everything so far is written, or cannot be written. */
  async flushed(): Promise<void> {
    await this.#writing;
  }

  #bytesOf(line: LogLine): Uint8Array {
    const trace_id = currentTrace(), time = timestamp(this.#options.clock);
    return new TextEncoder().encode(`${jsonText({ time, ...(trace_id ? { trace_id } : {}), ...line })}\n`);
  }

  #add(bytes: Uint8Array): void {
    this.#waiting.push(bytes);
    this.#waiting_bytes += bytes.length;
    this.#writing ??= this.#drain();
  }

  async #drain(): Promise<void> {
    // Lines of the same turn go out together.
    await null;
    try {
      while (this.#waiting.length > 0) {
        const { bytes, lines } = this.#next();
        const is_written = await this.#write(bytes, lines);
        this.#waiting_bytes -= bytes.length;
        if (is_written && this.#lost > 0) this.#reportLost();
      }
    } catch {
      // Nobody is left to read it.
      this.#has_failed = true;
      this.#waiting = [];
    }
    this.#writing = null;
  }

  /** @returns Whether all is written; on a full disk the lines are lost. @throws Any other error. */
  async #write(bytes: Uint8Array, lines: number): Promise<boolean> {
    try {
      if (this.#is_torn) await this.#options.write(LINE_END);
      this.#is_torn = false;
      for (let at = 0; at < bytes.length;) {
        at += await this.#options.write(bytes.subarray(at));
        this.#is_torn = at < bytes.length;
      }
      return true;
    } catch (error) {
      if (systemRefusal(error)?.is_machine !== true) throw error;
      this.#lost += lines;
      return false;
    }
  }

  #next(): { bytes: Uint8Array; lines: number } {
    let lines = 1, bytes = this.#waiting[0]!.length;
    while (lines < this.#waiting.length && bytes < WRITE_BYTES) bytes += this.#waiting[lines++]!.length;
    return { bytes: Buffer.concat(this.#waiting.splice(0, lines)), lines };
  }

  #reportLost(): void {
    const bytes = this.#bytesOf({
      level: "warning",
      message: `Cannot log as fast as requests come, or the disk was full: ${this.#lost} lines are lost`,
      lost_lines: this.#lost,
    });
    this.#lost = 0;
    this.#add(bytes);
  }
}
