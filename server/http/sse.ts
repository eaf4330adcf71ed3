/** Server-sent events: numbered events of a source that may be live, and comments, so that proxies do not time out. */

import { z } from "zod";
import type { Clock } from "../../core/clock.ts";
import { invalidRequest } from "./problems.ts";

/** A stream that waits for an event sends a comment at least this often. */
const KEEP_ALIVE_MS = 15_000;

const ENCODER = new TextEncoder(), COMMENT = ENCODER.encode(":\n\n");

/** The streams that wait for an event: one timer wakes all of them. It runs while there are any. */
class KeepAlive {
  readonly #clock: Clock;
  readonly #waiting = new Set<() => void>();
  #timer: AbortController | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** @param wake Called once, after {@link KEEP_ALIVE_MS} or earlier. */
  add(wake: () => void): void {
    this.#waiting.add(wake);
    if (this.#timer) return;
    const timer = this.#timer = new AbortController();
    this.#clock.sleep(KEEP_ALIVE_MS, timer.signal).then(() => this.#beat(), () => {});
  }

  delete(wake: () => void): void {
    this.#waiting.delete(wake);
    if (this.#waiting.size > 0) return;
    this.#timer?.abort();
    this.#timer = null;
  }

  #beat(): void {
    const all = [...this.#waiting];
    this.#waiting.clear();
    this.#timer = null;
    for (const wake of all) wake();
  }
}

const KEEP_ALIVES = new WeakMap<Clock, KeepAlive>();

function keepAliveOf(clock: Clock): KeepAlive {
  const found = KEEP_ALIVES.get(clock) ?? new KeepAlive(clock);
  KEEP_ALIVES.set(clock, found);
  return found;
}

const eventId = z.string().regex(/^(0|[1-9]\d{0,15})$/, { error: "must be the id of an event" });

/** The query parameter of every stream. */
export const sinceQuery = {
  since: eventId.optional().meta({
    description: "The id of the last event that the client has; the header Last-Event-ID says the same.",
  }),
};

/** The request header of every stream of numbered events. */
export const LAST_EVENT_ID = {
  "Last-Event-ID": eventId.optional().meta({
    description: "The id of the last event that the client has. It counts before since.",
  }),
};

/** An event as it is sent. */
export interface SentEvent {
  id: number;
  event: string;
  /** JSON on one line. */
  data: string;
}

/**
 * The id after which a client wants to continue: from its header, else from its `since`, else 0.
 *
 * @param last The newest id.
 * @throws {Problem} `invalid-request` for an id from the future.
 */
export function resumeId(
  { since, headers }: { since: string | undefined; headers: Headers },
  last: number,
): number {
  // A client that reconnects automatically repeats its query. Its header has the newer id.
  const header = headers.get("last-event-id"), given = header ?? since ?? null;
  if (given === null) return 0;
  const id = Number(given);
  if (id <= last) return id;
  const message = `must be at most ${last}, the newest event's id`;
  throw invalidRequest([
    header === null
      ? { pointer: "/query/since", code: "out_of_range", message }
      : { pointer: "", code: "out_of_range", message: `the header Last-Event-ID ${message}` },
  ]);
}

/**
 * The text of a stream. It ends with its source. When the client disconnects, the source is ended.
 *
 * @param events Pieces of events. They are read only as fast as the client reads, and emptied when they are sent, so a
 * client that is slow or waits costs no memory.
 */
export function eventStream(
  events: AsyncGenerator<SentEvent[]>,
  end: StreamEnd,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  const texts = async function* () {
    for await (const piece of events) yield piece.splice(0).map(eventText).join("");
  };
  return textEventStream(texts(), end);
}

/** The clock for a stream's pauses, and the controller that it aborts when its client disconnects. */
export interface StreamEnd {
  clock: Clock;
  stop: AbortController;
}

/** The controller of a stream's end, which also aborts when the client disconnects. */
export function streamStop(client: AbortSignal): AbortController {
  const stop = new AbortController();
  if (client.aborted) stop.abort();
  else client.addEventListener("abort", () => stop.abort(), { once: true });
  return stop;
}

/** The same for events as text. */
export function textEventStream(
  events: AsyncGenerator<string>,
  { clock, stop }: StreamEnd,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  const beat = keepAliveOf(clock);
  let next: Promise<IteratorResult<string>> | null = null, is_ready = false, wake = () => {};
  const ready = () => {
    is_ready = true;
    wake();
  };
  return new ReadableStream<Uint8Array<ArrayBuffer>>({
    async pull(controller) {
      if (!next) {
        is_ready = false;
        next = events.next();
        // Once for each event: a race at each comment would pile up at an event that does not come.
        next.then(ready, ready);
      }
      if (!is_ready) {
        await new Promise<void>((resolve) => beat.add(wake = resolve));
        beat.delete(wake);
      }
      if (!is_ready) return controller.enqueue(COMMENT);
      const result = await next;
      next = null;
      if (result.done) return controller.close();
      controller.enqueue(ENCODER.encode(result.value));
    },
    async cancel() {
      beat.delete(wake);
      stop.abort();
      await events.return(undefined);
    },
  }, { highWaterMark: 0 });
}

function eventText({ id, event, data }: SentEvent): string {
  return `id: ${id}\nevent: ${event}\ndata: ${data}\n\n`;
}
