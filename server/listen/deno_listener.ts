/** The listener on loopback: `Deno.serve` (docs/decisions/listeners.md says what it can and cannot do). */

import type { RequestContext } from "../app.ts";
import type { Bytes } from "../routing/body.ts";
import { requestUrl } from "../routing/router.ts";
import { PaceWatch } from "./body_pace.ts";
import { clientDisconnected, type Listener, type ListenerOptions, slowBody } from "./listener.ts";

/** An answer of at most this size fits in the buffers of a socket, so a client that does not read it delays nothing. */
const UNPACED_BYTES = 65_536;

/**
 * The request target as sent. `Deno.serve` puts scheme and authority before it, which are removed again. A full URL from
 * a proxy has no such prefix, and is unchanged when its authority differs from the Host header.
 */
export function targetOf(url: string, host: string | null): string {
  const [, scheme, authority, target] = /^([a-z][a-z0-9+.-]*):\/\/([^/?#]*)(.*)$/is.exec(url)!;
  return host === null || host === "" || (scheme === "http" && authority === host) ? target! : url;
}

function hasBody({ method, headers }: Request): boolean {
  if (method === "GET" || method === "HEAD" || method === "TRACE" || method === "CONNECT") return false;
  return headers.has("transfer-encoding") || Number(headers.get("content-length") ?? 0) > 0;
}

/** The statuses of answers that never have a body. */
const NO_BODY_STATUS: readonly number[] = [204, 205, 304];

/**
 * An answer to HEAD, with the length of the body that GET has, or none. `Deno.serve` adds a length of 0 to an answer
 * without a body, but GET may have a stream, whose length is unknown.
 */
function answerToHead(response: Response): Response {
  const { body, headers, status } = response;
  if (body || headers.has("content-length") || NO_BODY_STATUS.includes(status)) return response;
  return new Response(new Blob([]).stream(), { status, headers });
}

/** A request and its answer, until the answer is sent or the client disconnects. */
class Exchange {
  readonly #options: ListenerOptions;
  readonly #disconnected = new AbortController();
  /** Only of a request with a body. */
  #slow: AbortController | null = null;

  constructor(options: ListenerOptions) {
    this.#options = options;
  }

  async answer(request: Request, peer: Deno.NetAddr): Promise<Response> {
    // Deno aborts it only when the client disconnects: deno.json switches its older behaviour off.
    request.signal.addEventListener("abort", () => this.#abort(), { once: true });
    const answering = this.#options.handle(...this.#convert(request, peer)), slow = this.#slow;
    const is_slow = slow &&
      new Promise<null>((resolve) =>
        slow.signal.addEventListener("abort", () => resolve(null), { once: true })
      );
    const response = await (is_slow ? Promise.race([answering, is_slow]) : answering);
    if (response) return request.method === "HEAD" ? answerToHead(response) : this.#paced(response);
    answering.then(({ body }) => body?.cancel()).catch(() => {});
    return new Response(null, { status: 408, headers: { connection: "close" } });
  }

  #convert(sent: Request, { hostname, port }: Deno.NetAddr): [Request, RequestContext] {
    const { method, headers } = sent, host = headers.get("host"), target = targetOf(sent.url, host);
    const request = new Request(requestUrl(target), {
      // A Request does not support these two.
      method: method === "TRACE" || method === "CONNECT" ? "GET" : method,
      headers,
      signal: this.#disconnected.signal,
      body: hasBody(sent) ? this.#bodyOf(sent) : null,
    });
    // Two Host headers never come here: Deno answers 400.
    return [request, { method, target, hosts: host === null ? [] : [host], peer: `${hostname}:${port}` }];
  }

  #abort(): void {
    this.#disconnected.abort(clientDisconnected());
  }

  #bodyOf(sent: Request): Bytes {
    const { clock, limits: { body_pace } } = this.#options;
    // The body is requested late, because Deno then expects that it is read.
    let reader: ReadableStreamDefaultReader<Uint8Array<ArrayBuffer>> | null = null;
    const slow = this.#slow = new AbortController();
    const cut = () => {
      this.#abort();
      slow.abort(slowBody());
      reader!.cancel().catch(() => {});
    };
    const pace = new PaceWatch({ pace: body_pace, clock, cut });
    return new ReadableStream({
      pull: async (controller) => {
        try {
          reader ??= sent.body!.getReader();
          const { done, value } = await pace.next(reader.read());
          // A cancelled body must not count as a complete one.
          slow.signal.throwIfAborted();
          if (done) controller.close();
          else controller.enqueue(value);
        } catch (error) {
          // A body fails only when its client disconnects.
          this.#abort();
          throw error;
        }
      },
      cancel: (reason) => reader?.cancel(reason),
    }, { highWaterMark: 0 });
  }

  /** The answer with a body that ends when its client stops reading, or sends its own body too slowly. */
  #paced(response: Response): Response {
    const { headers, status } = response, { log, clock, limits: { stall_ms } } = this.#options;
    const bytes = headers.get("content-length");
    // Reading `body` makes a stream of the bytes, which takes Deno longer to send.
    if (bytes !== null && Number(bytes) <= UNPACED_BYTES) return response;
    const { body } = response;
    if (!body) return response;
    const reader = body.getReader(), disconnected = this.#disconnected.signal, slow = this.#slow?.signal;
    let waiting = new AbortController(), cut = (_reason: unknown) => {};
    slow?.addEventListener("abort", () => cut(slow.reason), { once: true });
    // Deno may drop a body without cancelling its stream. The wait for the client must end all the same.
    disconnected.addEventListener("abort", () => waiting.abort(), { once: true });
    const paced = new ReadableStream<Uint8Array<ArrayBuffer>>({
      start(controller) {
        cut = (reason) => {
          reader.cancel(clientDisconnected()).catch(() => {});
          controller.error(reason);
        };
      },
      async pull(controller) {
        waiting.abort();
        try {
          const { done, value } = await reader.read();
          if (done) return controller.close();
          controller.enqueue(value);
        } catch (error) {
          const reason = error instanceof Error ? error.stack ?? error.message : String(error);
          if (!disconnected.aborted) {
            log({ level: "error", trace_id: headers.get("x-trace-id"), message: reason });
          }
          throw error;
        }
        if (disconnected.aborted) return;
        waiting = new AbortController();
        clock.sleep(stall_ms, waiting.signal).then(() => cut(clientDisconnected()), () => {});
      },
      cancel: async (reason) => {
        waiting.abort();
        // Deno does not abort the request's signal when it cannot write.
        this.#abort();
        await reader.cancel(reason);
      },
    }, { highWaterMark: 0 });
    return new Response(paced, { status, headers });
  }
}

/** Listens with `Deno.serve`. @throws {Error} When the address cannot be bound. */
export function listenDeno(options: ListenerOptions): Listener {
  const { host: hostname, port, clock, limits: { close_grace_ms } } = options;
  const stop = new AbortController(), idle = Promise.withResolvers<false>();
  let open = 0, is_closing = false;
  const end = () => {
    if (--open === 0 && is_closing) idle.resolve(false);
  };
  const server = Deno.serve({
    hostname,
    port,
    signal: stop.signal,
    onListen() {},
    // Only bodies of answers fail, which are logged.
    onError: () => new Response(null, { status: 500 }),
  }, async (request, { remoteAddr, completed }) => {
    open++;
    completed.then(end, end);
    const response = await new Exchange(options).answer(request, remoteAddr);
    if (is_closing) response.headers.set("connection", "close");
    return response;
  });
  return {
    host: server.addr.hostname,
    port: server.addr.port,
    async close() {
      is_closing = true;
      if (open === 0) idle.resolve(false);
      const closed = new AbortController();
      const late = clock.sleep(close_grace_ms, closed.signal).then(() => true, () => true);
      if (await Promise.race([idle.promise, late])) {
        stop.abort();
        await server.finished;
      } else {
        // An answer counts as completed before its bytes are sent, and aborting would lose them. Deno cannot abort after
        // a shutdown, so a client that takes too long keeps its connection until the process ends.
        await Promise.race([server.shutdown(), late]);
      }
      closed.abort();
    },
  };
}
