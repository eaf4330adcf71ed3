/** Converts messages of `node:http` to a web Request and Response, with streaming bodies in both directions. */

import type { IncomingMessage, ServerResponse } from "node:http";
import type { Clock } from "../../core/clock.ts";
import type { RequestContext } from "../app.ts";
import type { Bytes } from "../routing/body.ts";
import type { PaceWatch } from "./body_pace.ts";
import { requestUrl } from "../routing/router.ts";
import type { Span } from "../telemetry/trace.ts";
import { clientDisconnected, slowBody } from "./listener.ts";

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

/** The body of a message, read from the socket only on demand. */
function bodyOf(message: IncomingMessage, pace: PaceWatch): Bytes {
  // Cancelling the body must not close the socket, which the answer still needs.
  const chunks = message.iterator({ destroyOnReturn: false });
  return new ReadableStream<Uint8Array<ArrayBuffer>>({
    async pull(controller) {
      const { done, value } = await pace.next(chunks.next());
      if (done) controller.close();
      else controller.enqueue(new Uint8Array(value));
    },
    async cancel() {
      await chunks.return?.();
    },
  }, { highWaterMark: 0 });
}

/** Converts a message to a request, and keeps what a request would lose. */
export function requestOf(
  message: IncomingMessage,
  { signal, pace }: { signal: AbortSignal; pace: PaceWatch },
): { request: Request; context: RequestContext } {
  const { method = "GET", url: target = "/", socket } = message;
  const headers = headerPairs(message);
  // A Request does not support TRACE and CONNECT, nor a body of GET and HEAD.
  const is_known = method !== "TRACE" && method !== "CONNECT";
  const takes_body = is_known && method !== "GET" && method !== "HEAD" && hasBody(message);
  const body = takes_body ? bodyOf(message, pace) : null;
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

/** A signal that aborts when the client disconnects before it has the entire answer. */
export function disconnectSignal(message: IncomingMessage, outgoing: ServerResponse): AbortSignal {
  const controller = new AbortController();
  const abort = () => controller.abort(clientDisconnected());
  // A broken body fails before the answer closes: its reader must then find the signal aborted.
  message.once("error", abort);
  outgoing.once("close", () => {
    if (!outgoing.writableFinished) abort();
  });
  return controller.signal;
}

/** The span that Deno keeps of an answer, which `node:http` does not make the active one; null without OpenTelemetry. */
export function spanOf(outgoing: ServerResponse): Span | null {
  const key = Object.getOwnPropertySymbols(outgoing).find(({ description }) => description === "kOtelSpan");
  return key ? (outgoing as unknown as Record<symbol, Span | null | undefined>)[key] ?? null : null;
}

/** Closes the connection of a client whose body is too slow, with 408 and no body where no answer has begun. */
export function refuseSlowBody(message: IncomingMessage, outgoing: ServerResponse): void {
  const slow = slowBody();
  if (outgoing.headersSent) {
    outgoing.destroy();
    return void message.destroy(slow);
  }
  outgoing.writeHead(408, { connection: "close" });
  outgoing.end(() => message.destroy(slow));
}

/** How long a client may read nothing from a full connection. */
export interface WritePace {
  clock: Clock;
  stall_ms: number;
}

/** When the wait for a client was longer than this, its connection is closed after the answer. */
const LATE_MS = 4000;

/**
 * Writes an answer at the client's pace. The body is cancelled when the client disconnects or stops reading. The
 * connection of a slow client is closed after the answer.
 *
 * @returns Whether the connection takes another request.
 * @throws The body's error, possibly after its first bytes have been sent.
 */
export async function sendResponse(
  response: Response,
  [message, outgoing]: [message: IncomingMessage, outgoing: ServerResponse],
  { clock, stall_ms }: WritePace,
): Promise<boolean> {
  const headers = Object.fromEntries(response.headers);
  // The unread rest of a body would be taken for the next request.
  if (!message.complete) headers.connection = "close";
  outgoing.writeHead(response.status, headers);
  const reader = response.body?.getReader();
  // The first event of a stream may come late, so send the headers now.
  if (reader && headers["content-length"] === undefined) outgoing.flushHeaders();
  let wake = () => {}, is_late = false;
  const taken = async (all: Promise<void>) => {
    const started_ms = clock.monotonic_ms();
    await untilTaken(all, outgoing, { clock, stall_ms });
    is_late ||= clock.monotonic_ms() - started_ms > LATE_MS;
  };
  const cancel = () => {
    reader?.cancel(clientDisconnected()).catch(() => {});
    wake();
  };
  outgoing.on("drain", () => wake());
  outgoing.once("close", cancel);
  // The client may have disconnected before.
  if (outgoing.destroyed) cancel();
  while (reader && !outgoing.destroyed) {
    const { done, value } = await reader.read();
    if (done) break;
    const drained = new Promise<void>((resolve) => wake = resolve);
    if (!outgoing.write(value)) await taken(drained);
  }
  if (outgoing.destroyed) return false;
  const finished = new Promise<void>((resolve) => wake = resolve);
  outgoing.once("finish", () => wake());
  outgoing.end();
  await taken(finished);
  // The system has all bytes of the answer, so closing the connection loses none.
  if (is_late) message.socket.destroy();
  return headers.connection !== "close" && !is_late;
}

/** Waits until the written bytes are sent. A client that reads nothing for `stall_ms` is cut off. */
async function untilTaken(
  taken: Promise<void>,
  outgoing: ServerResponse,
  { clock, stall_ms }: WritePace,
): Promise<void> {
  const done = new AbortController();
  taken.then(() => done.abort());
  await clock.sleep(stall_ms, done.signal).then(() => outgoing.destroy(), () => {});
}
