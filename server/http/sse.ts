/** Server-sent events: numbered events of a source that may be live, and comments, so that proxies do not time out. */

import { z } from "zod";
import type { Clock } from "../../core/clock.ts";
import { invalidRequest } from "./problems.ts";

/** A comment is sent when a stream has sent nothing for this long. */
const KEEP_ALIVE_MS = 15_000;

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
 * @param events Pieces of events. They are read only as fast as the client reads, so a slow client costs no memory.
 */
export function eventStream(
  events: AsyncGenerator<readonly SentEvent[]>,
  end: StreamEnd,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  const texts = async function* () {
    for await (const piece of events) yield piece.map(eventText).join("");
  };
  return textEventStream(texts(), end);
}

/** The clock for a stream's pauses, and the controller that it aborts when its client disconnects. */
export interface StreamEnd {
  clock: Clock;
  stop: AbortController;
}

/** The same for events as text. */
export function textEventStream(
  events: AsyncGenerator<string>,
  { clock, stop }: StreamEnd,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  const encoder = new TextEncoder();
  let next: Promise<IteratorResult<string>> | null = null;
  return new ReadableStream<Uint8Array<ArrayBuffer>>({
    async pull(controller) {
      next ??= events.next();
      const timer = new AbortController();
      const silence = clock.sleep(KEEP_ALIVE_MS, timer.signal).then(() => null, () => null);
      const result = await Promise.race([next, silence]);
      timer.abort();
      if (result === null) return controller.enqueue(encoder.encode(":\n\n"));
      next = null;
      if (result.done) return controller.close();
      controller.enqueue(encoder.encode(result.value));
    },
    async cancel() {
      stop.abort();
      await events.return(undefined);
    },
  }, { highWaterMark: 0 });
}

function eventText({ id, event, data }: SentEvent): string {
  return `id: ${id}\nevent: ${event}\ndata: ${data}\n\n`;
}
