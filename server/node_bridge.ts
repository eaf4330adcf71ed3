/** Converts messages of `node:http` to a web Request and Response, with streaming bodies in both directions. */

import type { IncomingMessage, ServerResponse } from "node:http";
import type { RequestContext } from "./app.ts";
import type { Bytes } from "./body.ts";
import { requestUrl } from "./router.ts";

/** Headers as sent; a repeated name has all of its values. */
function headerPairs({ rawHeaders }: IncomingMessage): [string, string][] {
  return Array.from(
    { length: rawHeaders.length / 2 },
    (_, i) => [rawHeaders[2 * i]!.toLowerCase(), rawHeaders[2 * i + 1]!],
  );
}

function hasBody({ headers }: IncomingMessage): boolean {
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0;
}

/** How slowly a client may send a body: at least so many bytes for every so long that the server waits for it. */
export interface BodyPaceLimits {
  bytes: number;
  wait_ms: number;
}

/** A large upload may take hours; a client that only holds a connection is cut. */
export const BODY_PACE: BodyPaceLimits = { bytes: 64 << 10, wait_ms: 30_000 };

/** The pace of a body. The time in which the server does not read does not count. */
export class BodyPace {
  #bytes = 0;
  #waited_ms = 0;

  constructor(readonly limits: BodyPaceLimits) {}

  /** How much longer the server waits for bytes. */
  get left_ms(): number {
    return Math.max(0, this.limits.wait_ms - this.#waited_ms);
  }

  /** Counts bytes and the wait for them. */
  add(bytes: number, waited_ms: number): void {
    this.#bytes += bytes;
    this.#waited_ms += waited_ms;
    if (this.#bytes < this.limits.bytes) return;
    this.#bytes = 0;
    this.#waited_ms = 0;
  }
}

/** The body of a message, read from the socket only on demand. A client that is too slow is cut. */
function bodyOf(message: IncomingMessage, limits: BodyPaceLimits): Bytes {
  // Cancelling the body must not close the socket, which the answer still needs.
  const chunks = message.iterator({ destroyOnReturn: false }), pace = new BodyPace(limits);
  return new ReadableStream<Uint8Array<ArrayBuffer>>({
    async pull(controller) {
      const start_ms = performance.now();
      const timer = setTimeout(() => message.destroy(new Error("The client sends too slowly")), pace.left_ms);
      try {
        const { done, value } = await chunks.next();
        if (done) return controller.close();
        pace.add(value.length, performance.now() - start_ms);
        controller.enqueue(new Uint8Array(value));
      } finally {
        clearTimeout(timer);
      }
    },
    async cancel() {
      await chunks.return?.();
    },
  }, { highWaterMark: 0 });
}

/** Converts a message to a request, and keeps what a request would lose. */
export function requestOf(
  message: IncomingMessage,
  signal: AbortSignal,
  pace: BodyPaceLimits = BODY_PACE,
): { request: Request; context: RequestContext } {
  const { method = "GET", url: target = "/", socket } = message;
  const headers = headerPairs(message);
  // A Request does not support TRACE and CONNECT, nor a body of GET and HEAD.
  const is_known = method !== "TRACE" && method !== "CONNECT";
  const body = is_known && method !== "GET" && method !== "HEAD" && hasBody(message)
    ? bodyOf(message, pace)
    : null;
  const request = new Request(requestUrl(target), {
    method: is_known ? method : "GET",
    headers,
    signal,
    body,
  });
  const hosts = headers.filter(([name]) => name === "host").map(([, value]) => value);
  return {
    request,
    context: { method, target, hosts, peer: `${socket.remoteAddress}:${socket.remotePort}` },
  };
}

/** A signal that aborts when the client leaves before it has the entire answer. */
export function leaveSignal(message: IncomingMessage, outgoing: ServerResponse): AbortSignal {
  const controller = new AbortController();
  const leave = () => controller.abort(clientLeft());
  // A broken body fails before the answer closes: its reader must then find the signal aborted.
  message.once("error", leave);
  outgoing.once("close", () => {
    if (!outgoing.writableFinished) leave();
  });
  return controller.signal;
}

function clientLeft(): DOMException {
  return new DOMException("The client left", "AbortError");
}

/**
 * Writes an answer at the client's pace. A client that leaves cancels the body.
 *
 * @throws The body's error, possibly after its first bytes have been sent.
 */
export async function sendResponse(
  response: Response,
  outgoing: ServerResponse,
  message: IncomingMessage,
): Promise<void> {
  const headers = Object.fromEntries(response.headers);
  // The unread rest of a body would be taken for the next request.
  if (hasBody(message) && !message.readableEnded) headers.connection = "close";
  outgoing.writeHead(response.status, headers);
  if (!response.body) return void outgoing.end();
  // The first event of a stream may come late, so send the headers now.
  if (headers["content-length"] === undefined) outgoing.flushHeaders();
  const reader = response.body.getReader();
  let wake = () => {};
  outgoing.on("drain", () => wake());
  outgoing.once("close", () => {
    reader.cancel(clientLeft()).catch(() => {});
    wake();
  });
  while (!outgoing.destroyed) {
    const { done, value } = await reader.read();
    if (done) break;
    const drained = new Promise<void>((resolve) => wake = resolve);
    if (!outgoing.write(value)) await drained;
  }
  if (!outgoing.destroyed) outgoing.end();
}
