/** Server-sent events by `fetch`, because `EventSource` cannot send a token. */

import { EventSourceParserStream } from "eventsource-parser/stream";
import { ApiProblem } from "./api.ts";

/** An event as it came. */
export interface ServerEvent {
  /** Empty where the server gives none. */
  id: string;
  name: string;
  data: string;
}

/** How a stream is opened and how it waits. */
export interface FollowOptions {
  /** Opens the stream after an event's id. */
  open(last_id: string | null, signal: AbortSignal): Promise<Response>;
  /** Each event once, in order. */
  onEvent(event: ServerEvent): void;
  /** Whether events arrive; false while the server is away. */
  onLive?(is_live: boolean): void;
  /** Ends it. */
  signal: AbortSignal;
  /** Waits before the next attempt. */
  wait?(ms: number, signal: AbortSignal): Promise<void>;
  last_id?: string | null;
}

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 15_000;

/** Waits, at most until the signal. */
export function waitFor(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}

/**
 * Follows a stream until the signal, and goes on after the last event when it breaks: after half a second, then twice as
 * long each time, up to 15 seconds. Ends by itself when the server has no more events (204), or refuses (4xx): what is
 * refused now is refused again.
 *
 * @throws {ApiProblem} When the server refuses.
 */
export async function follow(options: FollowOptions): Promise<void> {
  const { open, onEvent, onLive = () => {}, signal, wait = waitFor } = options;
  let last_id = options.last_id ?? null, wait_ms = FIRST_WAIT_MS;
  while (!signal.aborted) {
    try {
      const response = await open(last_id, signal);
      // The stream's end: the client has everything.
      if (response.status === 204) return;
      onLive(true);
      const events = response.body!.pipeThrough(new TextDecoderStream())
        .pipeThrough(new EventSourceParserStream());
      for await (const { id, event, data } of events) {
        wait_ms = FIRST_WAIT_MS;
        last_id = id ?? last_id;
        onEvent({ id: id ?? "", name: event ?? "message", data });
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof ApiProblem && error.problem.status < 500) throw error;
    }
    if (signal.aborted) return;
    onLive(false);
    await wait(wait_ms, signal);
    wait_ms = Math.min(2 * wait_ms, LONGEST_WAIT_MS);
  }
}
