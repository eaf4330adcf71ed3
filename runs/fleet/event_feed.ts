/** The durable events of a run, for any number of readers, each at its own pace. */

import { assert } from "../../core/errors.ts";
import { Waiters } from "../../core/waiters.ts";
import type { RunEvent } from "../record/event.ts";
import { linesFrom } from "../record/log_lines.ts";
import { LOG_START, type LogPlace } from "../record/log_lines.ts";
import { offsetBefore } from "../record/log_place.ts";

/** Bytes of the newest events that stay in memory, so that readers of new events need not read the file. */
export const KEPT_BYTES = 1 << 20;

/** Size of a piece for a reader; a larger event is a piece of its own. A reader holds one piece at a time. */
export const PIECE_BYTES = 1 << 16;

/** A line of the log. */
export interface FeedLine {
  seq: number;
  kind: RunEvent["kind"];
  /** The JSON text. */
  text: string;
  /** The offset of its end in the log. */
  end: number;
}

/** How far a reader is. It has no offset until it has its first piece. */
type ReaderPlace = Pick<LogPlace, "seq"> & Partial<LogPlace>;

export class EventFeed {
  readonly #path: string;
  #newest: FeedLine[] = [];
  #newest_bytes = 0;
  #closed: "now" | "at_last_event" | null = null;
  /** How far the file has been read. */
  #read: LogPlace;
  readonly #readers = new Waiters();
  #reading: Promise<unknown> = Promise.resolve();

  /**
   * @param path The log; it may not exist yet.
   * @param read The place up to which it is on disk. Nothing before it is read until a reader asks for it.
   */
  constructor(path: string, read: LogPlace = LOG_START) {
    this.#path = path;
    this.#read = read;
  }

  /** The number of the last event that readers get. */
  get last_seq(): number {
    return this.#read.seq;
  }

  /** The end of the last event that readers get: what follows in the log may not be on disk yet. */
  get place(): LogPlace {
    return this.#read;
  }

  /** Reads the log up to an event that is on disk, and wakes the readers. @returns The new events. */
  advance(seq: number): Promise<RunEvent[]> {
    const reading = this.#reading.then(async () => {
      const events: RunEvent[] = [];
      for await (const { line, end } of linesFrom(this.#path, this.#read.offset)) {
        const event: RunEvent = JSON.parse(line);
        if (event.seq > seq) break;
        checkNext(event, this.#read.seq);
        this.#keep({ seq: event.seq, kind: event.kind, text: line, end });
        events.push(event);
      }
      if (events.length > 0) this.#readers.wake();
      return events;
    });
    this.#reading = reading.catch(() => {});
    return reading;
  }

  /**
   * The lines after an event, in order and in pieces, then new lines as they are written. Ends when the signal aborts or
   * the feed is closed.
   *
   * @param since The number of the last event that the reader has, at most {@link last_seq}.
   */
  async *follow(since: number, signal: AbortSignal): AsyncGenerator<FeedLine[]> {
    let at: ReaderPlace = { seq: since };
    while (!signal.aborted && this.#closed !== "now") {
      const piece = this.#fromMemory(at.seq) ?? await this.#fromFile(at);
      if (piece.length > 0) {
        const { seq, end: offset } = piece.at(-1)!;
        at = { seq, offset };
        yield piece;
      } else if (this.#closed) return;
      else await this.#readers.wait(signal);
    }
  }

  #keep(line: FeedLine): void {
    this.#read = { seq: line.seq, offset: line.end };
    this.#newest.push(line);
    this.#newest_bytes += line.text.length;
    let dropped = 0;
    while (this.#newest_bytes > KEPT_BYTES && dropped < this.#newest.length - 1) {
      this.#newest_bytes -= this.#newest[dropped++]!.text.length;
    }
    if (dropped > 0) this.#newest = this.#newest.slice(dropped);
  }

  /**
   * Closes the feed: present and later calls of {@link follow} end. `now` ends them without the remaining events,
   * `at_last_event` after the last event of the log.
   */
  close(when: "now" | "at_last_event"): void {
    this.#closed = when;
    this.#readers.wake();
  }

  /** The lines after an event; null when they are not in memory. */
  #fromMemory(since: number): FeedLine[] | null {
    if (since >= this.#read.seq) return [];
    const first = this.#newest[0];
    if (!first || first.seq > since + 1) return null;
    const lines: FeedLine[] = [];
    let bytes = 0;
    for (let i = since + 1 - first.seq; i < this.#newest.length && bytes < PIECE_BYTES; i++) {
      lines.push(this.#newest[i]!);
      bytes += this.#newest[i]!.text.length;
    }
    return lines;
  }

  /** The lines after a place, about {@link PIECE_BYTES} in all. */
  async #fromFile({ seq: since, offset }: ReaderPlace): Promise<FeedLine[]> {
    const read = this.#read, lines: FeedLine[] = [];
    const from = offset ?? await offsetBefore(this.#path, { seq: since, end: read.offset });
    let bytes = 0;
    for await (const { line, end } of linesFrom(this.#path, from)) {
      const { seq, kind }: RunEvent = JSON.parse(line);
      if (seq > read.seq || bytes >= PIECE_BYTES) break;
      if (seq <= since) continue;
      checkNext({ seq }, lines.at(-1)?.seq ?? since);
      lines.push({ seq, kind, text: line, end });
      bytes += line.length;
    }
    return lines;
  }
}

/** A log with a gap is damaged; readers must not lose events silently. */
function checkNext({ seq }: Pick<RunEvent, "seq">, before: number): void {
  assert(seq === before + 1, `event ${seq} follows ${before}`);
}
