/** The durable events of a run, for any number of readers at their own pace. */

import { assert } from "../../core/errors.ts";
import type { RunEvent } from "../record/event.ts";
import { linesFrom } from "../record/log_lines.ts";

/** Bytes of the newest events in memory: readers that keep up need no file. */
export const KEPT_BYTES = 1 << 20;

/** Bytes of a piece for a reader, which holds one at a time: at least one event. */
export const PIECE_BYTES = 1 << 16;

/** Bytes of a log between two remembered places. */
export const INDEX_BYTES = 1 << 18;

/** A line of the log. */
export interface FeedLine {
  seq: number;
  kind: RunEvent["kind"];
  /** The JSON text. */
  text: string;
}

interface Place {
  seq: number;
  offset: number;
}

export class EventFeed {
  readonly #path: string;
  /** Places in the file, about {@link INDEX_BYTES} apart; a place is before the line after its event. */
  readonly #places: Place[] = [{ seq: 0, offset: 0 }];
  #newest: FeedLine[] = [];
  #newest_bytes = 0;
  #closed: "now" | "at_last_event" | null = null;
  /** How far the file has been read. */
  #read: Place = { seq: 0, offset: 0 };
  #waiting: PromiseWithResolvers<void> = Promise.withResolvers();
  #reading: Promise<unknown> = Promise.resolve();

  /** @param path The log; it may not exist yet. */
  constructor(path: string) {
    this.#path = path;
  }

  /** The number of the last event that readers get. */
  get last_seq(): number {
    return this.#read.seq;
  }

  /** Reads the log up to an event that is on disk, and wakes the readers. @returns The new events. */
  advance(seq: number): Promise<RunEvent[]> {
    const reading = this.#reading.then(async () => {
      const events: RunEvent[] = [];
      for await (const { line, end } of linesFrom(this.#path, this.#read.offset)) {
        const event: RunEvent = JSON.parse(line);
        if (event.seq > seq) break;
        assert(event.seq === this.#read.seq + 1, `event ${event.seq} follows ${this.#read.seq}`);
        this.#keep({ seq: event.seq, kind: event.kind, text: line }, end);
        events.push(event);
      }
      if (events.length > 0) this.#wake();
      return events;
    });
    this.#reading = reading.catch(() => {});
    return reading;
  }

  /**
   * The lines after an event, in order, in pieces; then those to come, until the signal aborts or the feed is closed.
   *
   * @param since The number of the last event that the reader has, at most {@link last_seq}.
   */
  async *follow(since: number, signal: AbortSignal): AsyncGenerator<FeedLine[]> {
    const { promise: aborted, resolve } = Promise.withResolvers<void>();
    signal.addEventListener("abort", () => resolve(), { once: true });
    let at = since;
    while (!signal.aborted && this.#closed !== "now") {
      const piece = this.#fromMemory(at) ?? await this.#fromFile(at);
      if (piece.length > 0) {
        at = piece.at(-1)!.seq;
        yield piece;
      } else if (this.#closed) return;
      else await Promise.race([this.#waiting.promise, aborted]);
    }
  }

  #keep(line: FeedLine, end: number): void {
    this.#read = { seq: line.seq, offset: end };
    if (end - this.#places.at(-1)!.offset >= INDEX_BYTES) this.#places.push(this.#read);
    this.#newest.push(line);
    this.#newest_bytes += line.text.length;
    let dropped = 0;
    while (this.#newest_bytes > KEPT_BYTES && dropped < this.#newest.length - 1) {
      this.#newest_bytes -= this.#newest[dropped++]!.text.length;
    }
    if (dropped > 0) this.#newest = this.#newest.slice(dropped);
  }

  /** Ends all readers, of now and later: at once, or when they have the last event. */
  close(when: "now" | "at_last_event"): void {
    this.#closed = when;
    this.#wake();
  }

  #wake(): void {
    this.#waiting.resolve();
    this.#waiting = Promise.withResolvers();
  }

  /** The lines after an event; null when they are no longer in memory. */
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

  /** Some lines after an event, about {@link PIECE_BYTES} of them. */
  async #fromFile(since: number): Promise<FeedLine[]> {
    const place = this.#places.findLast(({ seq }) => seq <= since)!, lines: FeedLine[] = [];
    const last = this.#read.seq;
    let bytes = 0;
    for await (const { line } of linesFrom(this.#path, place.offset)) {
      const { seq, kind }: RunEvent = JSON.parse(line);
      if (seq > last || bytes >= PIECE_BYTES) break;
      if (seq <= since) continue;
      lines.push({ seq, kind, text: line });
      bytes += line.length;
    }
    return lines;
  }
}
