/**
 * The interface of listeners: HTTP on a socket, answered by a handler of web requests. Both kinds pass
 * `listener_contract.ts`.
 */

import type { Clock } from "../../core/clock.ts";
import type { LogLine } from "../../core/log.ts";
import type { RequestContext } from "../app.ts";
import type { BodyPace } from "./body_pace.ts";

/** Limits on clients. */
export interface ConnectionLimits {
  /** Further connections are closed at once. `Deno.serve` has no such limit. */
  max_connections: number;
  /** The time for a request's headers. `Deno.serve` has no such limit. */
  headers_ms: number;
  /** The time for open requests to finish after the server was asked to stop. */
  close_grace_ms: number;
  /** A client that sends its body more slowly is answered with 408. */
  body_pace: BodyPace;
  /** A client that does not read from a full connection for longer is cut off. */
  stall_ms: number;
}

/** The pace is that of a very slow line, so that only clients are cut off that occupy connections on purpose. */
export const CONNECTION_LIMITS: ConnectionLimits = {
  max_connections: 10_000,
  headers_ms: 10_000,
  // Runs have 8 seconds to shut down, and readers get their last events then.
  close_grace_ms: 9000,
  body_pace: { idle_ms: 25_000, bytes_per_second: 1024 },
  stall_ms: 25_000,
};

export interface ListenerOptions {
  host: string;
  /** 0: a free one. */
  port: number;
  /** Never rejects; the body of its answer can fail. */
  handle(request: Request, context: RequestContext): Promise<Response>;
  log: (line: LogLine) => void;
  clock: Clock;
  limits: ConnectionLimits;
}

/** A listening socket. */
export interface Listener {
  host: string;
  port: number;
  /**
   * Waits until open requests are answered, for at most `close_grace_ms`, and closes all connections. Those without an
   * open request do not delay it. Resolves when everything is closed.
   */
  close(): Promise<void>;
}

/** The reason of a signal that aborts because the client disconnected before it had the entire answer. */
export function clientDisconnected(): DOMException {
  return new DOMException("The client disconnected", "AbortError");
}

/** The error of a body whose client is too slow. */
export function slowBody(): Error {
  return new Error("The client sends its body too slowly");
}
