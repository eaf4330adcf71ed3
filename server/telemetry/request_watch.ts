/** Counts requests and writes a line of the log for each, from its start until its answer is sent. */

import type { Clock } from "../../core/clock.ts";
import type { LogLine } from "../../core/log.ts";
import { Counter, type Family, Histogram } from "./exposition.ts";

/** Upper limits of the buckets, in seconds. */
const DURATION_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60];

/** The status, in logs and metrics, of a request whose client disconnected before the answer; nginx uses the same. */
export const CLIENT_DISCONNECTED = 499;

/** The name in metrics of all paths that have no route. */
const NO_ROUTE = "none";

/** Methods of HTTP. Clients may invent others, which must not make new metrics. */
const METHODS = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"]);

/** The longest path in a line of the log, in characters. */
const MAX_PATH_CHARS = 1024;

/** The facts of a request that are known at its start. */
interface Begun {
  method: string;
  /** As sent, without the query, which may have the signature of a link. */
  path: string;
  peer: string;
  trace_id: string;
  /** The id of the distributed trace to which the request belongs; null for none. */
  otel_trace_id: string | null;
}

/** How an answer ended: it was sent completely, the client disconnected, or it failed before its end. */
type Ended = "complete" | "disconnected" | "failed";

type Body = ReadableStream<Uint8Array<ArrayBuffer>>;

/** A request that is being answered. */
export class WatchedRequest {
  /** The pattern of its route; null for a path without one. */
  route: string | null = null;
  /** The paths that its answer shows shortened. */
  shortened: () => readonly string[] = () => [];
  /** Called when its answer has ended, with its status and the bytes that were sent. */
  readonly #end: (sent: { status: number; bytes: number; ended: Ended }) => void;

  constructor(end: (sent: { status: number; bytes: number; ended: Ended }) => void) {
    this.#end = end;
  }

  /** Ends the request with an answer that has a body of bytes, or no body. */
  sends(status: number, bytes: number): void {
    this.#end({ status, bytes, ended: status === CLIENT_DISCONNECTED ? "disconnected" : "complete" });
  }

  /** Watches an answer whose body is a stream. The request ends with the stream. */
  streams(status: number, body: Body): Body {
    const reader = body.getReader();
    let bytes = 0;
    const end = (ended: Ended) => this.#end({ status, bytes, ended });
    return new ReadableStream({
      async pull(controller) {
        try {
          const { done, value } = await reader.read();
          if (!done) {
            bytes += value.length;
            return controller.enqueue(value);
          }
          controller.close();
          end("complete");
        } catch (error) {
          end("failed");
          throw error;
        }
      },
      async cancel(reason) {
        end("disconnected");
        await reader.cancel(reason);
      },
    }, { highWaterMark: 0 });
  }
}

interface RequestWatchOptions {
  clock: Clock;
  /** Gets a line for each request at its end. */
  log: (line: LogLine) => void;
}

export class RequestWatch {
  readonly #options: RequestWatchOptions;
  readonly #counts = new Counter();
  readonly #durations = new Map<string, { method: string; route: string; histogram: Histogram }>();
  readonly #open = new Set<WatchedRequest>();
  readonly #bytes = new Counter();

  constructor(options: RequestWatchOptions) {
    this.#options = options;
  }

  /** The number of open requests of a route. */
  open(route: string): number {
    return [...this.#open].filter((request) => request.route === route).length;
  }

  start(begun: Begun): WatchedRequest {
    const started_ms = this.#options.clock.monotonic_ms();
    const request = new WatchedRequest((sent) => {
      if (!this.#open.delete(request)) return;
      const duration_ms = this.#options.clock.monotonic_ms() - started_ms;
      this.#count(begun.method, request.route ?? NO_ROUTE, { ...sent, duration_ms });
      this.#log(begun, request, { ...sent, duration_ms });
    });
    this.#open.add(request);
    return request;
  }

  #count(
    given: string,
    route: string,
    { status, bytes, duration_ms }: { status: number; bytes: number; duration_ms: number },
  ): void {
    const method = METHODS.has(given) ? given : "other", key = `${method} ${route}`;
    this.#counts.add({ method, route, status: String(status) });
    this.#bytes.add({ method, route }, bytes);
    let durations = this.#durations.get(key);
    if (!durations) {
      durations = { method, route, histogram: new Histogram(DURATION_BUCKETS) };
      this.#durations.set(key, durations);
    }
    durations.histogram.add(duration_ms / 1000);
  }

  #log(
    { method, path, peer, trace_id, otel_trace_id }: Begun,
    { route, shortened }: WatchedRequest,
    { status, bytes, duration_ms, ended }: {
      status: number;
      bytes: number;
      duration_ms: number;
      ended: Ended;
    },
  ): void {
    const paths = shortened();
    this.#options.log({
      level: status === 500 || ended === "failed" ? "error" : "info",
      trace_id,
      ...(otel_trace_id === null ? {} : { otel_trace_id }),
      message: "request",
      method,
      path: path.length > MAX_PATH_CHARS ? `${path.slice(0, MAX_PATH_CHARS)}…` : path,
      route,
      status,
      ended,
      duration_ms: Math.round(duration_ms * 1000) / 1000,
      bytes,
      ...(paths.length > 0 ? { paths } : {}),
      peer,
    });
  }

  families(): Family[] {
    const open = new Map<string, number>();
    for (const { route } of this.#open) open.set(route ?? NO_ROUTE, (open.get(route ?? NO_ROUTE) ?? 0) + 1);
    return [
      {
        name: "svc_http_requests_total",
        type: "counter",
        help:
          "Requests whose answer has ended, by method, route and status; 499: the client disconnected before it.",
        samples: this.#counts.samples(),
      },
      {
        name: "svc_http_request_duration_seconds",
        type: "histogram",
        help:
          "Time from a request's start to the end of its answer; event streams last as long as they are read.",
        samples: [...this.#durations.values()].flatMap(({ method, route, histogram }) =>
          histogram.samples({ method, route })
        ),
      },
      {
        name: "svc_http_response_bytes_total",
        type: "counter",
        help: "Bytes of the bodies of answers.",
        samples: this.#bytes.samples(),
      },
      {
        name: "svc_http_requests_in_progress",
        type: "gauge",
        help: "Requests that are being answered, event streams included.",
        samples: [...open].map(([route, value]) => ({ labels: { route }, value })),
      },
    ];
  }
}
