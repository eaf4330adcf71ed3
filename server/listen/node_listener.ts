/** The listener beyond loopback: `node:http`, which has limits for headers, idle connections and their number. */

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { PaceWatch } from "./body_pace.ts";
import type { Listener, ListenerOptions } from "./listener.ts";
import { disconnectSignal, refuseSlowBody, requestOf, sendResponse, spanOf } from "./node_bridge.ts";

/** Limits of the parser. It answers violations (400, 408, 431) before a request reaches the app. */
const PARSER_LIMITS = {
  // There is no time limit for a body, because an upload may be large. It has a slowest pace instead.
  requestTimeout: 0,
  // A client that does not read a short answer is idle, too: the system's buffers took it.
  keepAliveTimeout: 25_000,
  maxHeaderSize: 16_384,
  connectionsCheckingInterval: 500,
} as const;

/** Requests that wait on a connection for the answer to an earlier one. With more of them the connection is closed. */
export const MAX_WAITING = 32;

type Exchange = [message: IncomingMessage, outgoing: ServerResponse];

/** Answers a request. @returns Whether its connection takes another one. */
async function answer(
  [message, outgoing]: Exchange,
  options: ListenerOptions & { isClosing: () => boolean },
): Promise<boolean> {
  const { log, clock, limits: { body_pace, stall_ms } } = options;
  let trace_id: string | null = null;
  const encoding = message.headers["transfer-encoding"];
  // The parser refuses other encodings only when the body is read, after a command would have been carried out.
  if (encoding !== undefined && encoding.toLowerCase() !== "chunked") {
    outgoing.writeHead(400, { connection: "close" }).end();
    return false;
  }
  try {
    const cut = () => refuseSlowBody(message, outgoing);
    const pace = new PaceWatch({ pace: body_pace, clock, cut });
    const { request, context } = requestOf(message, { signal: disconnectSignal(message, outgoing), pace });
    const response = await options.handle(request, { ...context, span: spanOf(outgoing) });
    trace_id = response.headers.get("x-trace-id");
    if (options.isClosing()) response.headers.set("connection", "close");
    return await sendResponse(response, [message, outgoing], { clock, stall_ms });
  } catch (error) {
    const reason = error instanceof Error ? error.stack ?? error.message : String(error);
    if (!outgoing.destroyed) log({ level: "error", trace_id, message: reason });
    // Cut off an answer that cannot be completed, so that a client does not take a part for all of it.
    outgoing.destroy();
    return false;
  }
}

/**
 * The requests of each connection, which begin one after the other: one whose answer cannot be sent any more, because
 * the answer before it ended the connection, must not be carried out.
 */
class Connections {
  readonly #open = new WeakMap<object, { unanswered: number; last: Promise<boolean> }>();

  /** Calls `begin` when the requests before are answered, unless the connection has ended. */
  async take([message, outgoing]: Exchange, begin: () => Promise<boolean>): Promise<void> {
    const { socket } = message;
    const connection = this.#open.get(socket) ?? { unanswered: 0, last: Promise.resolve(true) };
    this.#open.set(socket, connection);
    if (connection.unanswered > MAX_WAITING) {
      outgoing.destroy();
      return void socket.destroy();
    }
    connection.unanswered++;
    connection.last = connection.last.then((goes_on) => {
      if (goes_on && !socket.destroyed) return begin();
      outgoing.destroy();
      return false;
    });
    await connection.last;
    connection.unanswered--;
  }
}

/** Listens with `node:http`. @throws {Error} When the address cannot be bound. */
export async function listenNode(options: ListenerOptions): Promise<Listener> {
  const { headers_ms, max_connections, close_grace_ms } = options.limits;
  const limits = { ...PARSER_LIMITS, headersTimeout: headers_ms };
  let open = 0, is_closing = false;
  const isClosing = () => is_closing, connections = new Connections();
  const end = () => {
    if (--open === 0 && is_closing) server.closeAllConnections();
  };
  const server = createServer(limits, (message, outgoing) => {
    open++;
    outgoing.once("close", end);
    const exchange: Exchange = [message, outgoing];
    void connections.take(exchange, () => answer(exchange, { ...options, isClosing }));
  });
  server.maxConnections = max_connections;
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(options.port, options.host, resolve);
  });
  const { address, port } = server.address() as AddressInfo;
  return {
    host: address,
    port,
    async close() {
      is_closing = true;
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      if (open === 0) server.closeAllConnections();
      else server.closeIdleConnections();
      const timer = new AbortController();
      options.clock.sleep(close_grace_ms, timer.signal).then(() => server.closeAllConnections(), () => {});
      await closed;
      timer.abort();
    },
  };
}
