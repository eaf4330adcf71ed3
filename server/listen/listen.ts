/** The listener: `node:http`, because it has timeouts for headers and bodies. */

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { parseBind, type ServerConfig } from "../../config/server/schema.ts";
import { systemClock } from "../../core/clock.ts";
import { assert, ServiceError } from "../../core/errors.ts";
import { App, type AppOptions } from "../app.ts";
import { type BodyPace, PaceWatch } from "./body_pace.ts";
import { leaveSignal, refuseSlowBody, requestOf, sendResponse } from "./node_bridge.ts";

/** Limits of the parser. It answers violations (400, 408, 431) before a request reaches the app. */
const PARSER_LIMITS = {
  headersTimeout: 10_000,
  // A body has a slowest pace instead of a time for all of it: an upload may be large.
  requestTimeout: 0,
  keepAliveTimeout: 60_000,
  maxHeaderSize: 16_384,
  connectionsCheckingInterval: 500,
} as const;

export interface ConnectionLimits {
  /** Further connections are closed at once. */
  max_connections: number;
  /** The time for open requests to finish after the server was asked to stop. */
  close_grace_ms: number;
  /** A client that sends its body more slowly is answered with 408. */
  body_pace: BodyPace;
  /** A client that leaves a full connection unread for longer is cut off. */
  stall_ms: number;
}

/** The pace is that of a very slow line, so that only clients which hold connections are cut. */
const CONNECTION_LIMITS: ConnectionLimits = {
  max_connections: 10_000,
  // Runs have 8 seconds to leave, and readers get their last events then.
  close_grace_ms: 9000,
  body_pace: { idle_ms: 30_000, bytes_per_second: 1024 },
  stall_ms: 30_000,
};

export interface ListeningServer {
  /** The bound address, such as `127.0.0.1:8471`. */
  address: string;
  /**
   * Accepts no new connections and waits for open requests. Resolves when all are closed, and what happened to the runs
   * of the fleet, which the caller closes at the same time, is stored.
   */
  close(): Promise<void>;
}

type Services =
  & Pick<AppOptions, "probeDevices" | "log">
  & Partial<
    Pick<
      AppOptions,
      | "assumedDevice"
      | "clock"
      | "routes"
      | "runs"
      | "trajectories"
      | "fleet"
      | "changes"
      | "jobs"
      | "isDatasetInUse"
      | "database"
    >
  >;

type Exchange = [message: IncomingMessage, outgoing: ServerResponse];

async function answer(
  app: App,
  [message, outgoing]: Exchange,
  { log, clock, body_pace, stall_ms }:
    & Pick<AppOptions, "log" | "clock">
    & Pick<ConnectionLimits, "body_pace" | "stall_ms">,
): Promise<void> {
  let trace_id: string | null = null;
  try {
    const cut = () => refuseSlowBody(message, outgoing);
    const pace = new PaceWatch({ pace: body_pace, clock, cut });
    const { request, context } = requestOf(message, { signal: leaveSignal(message, outgoing), pace });
    const response = await app.handle(request, context);
    trace_id = response.headers.get("x-trace-id");
    await sendResponse(response, [message, outgoing], { clock, stall_ms });
  } catch (error) {
    const reason = error instanceof Error ? error.stack ?? error.message : String(error);
    if (!outgoing.destroyed) log({ level: "error", trace_id, message: reason });
    // Cut off an answer that cannot be completed, so that a client does not take a part for all of it.
    outgoing.destroy();
  }
}

/**
 * Listens at `config.bind`.
 *
 * @throws {ServiceError} `config_invalid` when the address cannot be bound.
 */
export async function listen(
  config: ServerConfig,
  services: Services,
  limits: Partial<ConnectionLimits> = {},
): Promise<ListeningServer> {
  const { max_connections, close_grace_ms, body_pace, stall_ms } = { ...CONNECTION_LIMITS, ...limits };
  const { log, clock = systemClock } = services;
  // Otherwise Deno would bind this variable's address instead of the configured one.
  Deno.env.delete("DENO_SERVE_ADDRESS");
  const { host, port } = parseBind(config.bind)!;
  const app = new App({ config, port: () => bound.port, ...services, clock });
  const server = createServer(PARSER_LIMITS, (message, outgoing) => {
    answer(app, [message, outgoing], { log, clock, body_pace, stall_ms });
  });
  server.maxConnections = max_connections;
  await new Promise<void>((resolve, reject) => {
    server.once("error", (error: Error & { code?: string }) => {
      const reason = error.code === "EADDRINUSE" ? "another program listens there" : error.message;
      reject(new ServiceError("config_invalid", `Cannot listen at ${config.bind}: ${reason}`));
    });
    server.listen(port, host, resolve);
  });
  const bound = server.address() as AddressInfo;
  assert(port === 0 || bound.port === port, `bound port ${bound.port} instead of ${port}`);
  return {
    address: bound.family === "IPv6" ? `[${bound.address}]:${bound.port}` : `${bound.address}:${bound.port}`,
    async close() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeIdleConnections();
      const timer = setTimeout(() => server.closeAllConnections(), close_grace_ms);
      await closed;
      clearTimeout(timer);
      await app.ended;
    },
  };
}
