/** The server on a socket: `Deno.serve` on loopback, and beyond it a listener that has limits for clients. */

import { isLoopback, parseBind, type ServerConfig } from "../../config/server/schema.ts";
import { systemClock } from "../../core/clock.ts";
import { assert, ServiceError } from "../../core/errors.ts";
import { App, type AppOptions } from "../app.ts";
import { listenDeno } from "./deno_listener.ts";
import { CONNECTION_LIMITS, type ConnectionLimits } from "./listener.ts";
import { listenNode } from "./node_listener.ts";

/** A server that answers requests. */
export interface ListeningServer {
  /** The bound address, such as `127.0.0.1:8471`. */
  address: string;
  /**
   * Waits for open requests, at most the grace time. The caller closes the fleet at the same time. Resolves when all
   * requests are closed and the last changes of the fleet's runs are stored.
   */
  close(): Promise<void>;
}

type Services = Omit<AppOptions, "config" | "port" | "clock"> & Partial<Pick<AppOptions, "clock">>;

function bindError(bind: string, error: unknown): ServiceError {
  const is_taken = error instanceof Deno.errors.AddrInUse ||
    (error as { code?: string }).code === "EADDRINUSE";
  const reason = is_taken ? "another program listens there" : (error as Error).message;
  return new ServiceError("config_invalid", `Cannot listen at ${bind}: ${reason}`);
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
  const { log, clock = systemClock } = services, { host, port } = parseBind(config.bind)!;
  // With this variable Deno would bind its address, instead of the configured one or besides it.
  Deno.env.delete("DENO_SERVE_ADDRESS");
  let bound_port = port;
  const app = new App({ config, port: () => bound_port, ...services, clock });
  const options = {
    ...{ host, port, log, clock, limits: { ...CONNECTION_LIMITS, ...limits } },
    handle: app.handle.bind(app),
  };
  const listenAt = isLoopback(host) ? listenDeno : listenNode;
  try {
    const listener = await listenAt(options);
    assert(port === 0 || listener.port === port, `bound port ${listener.port} instead of ${port}`);
    bound_port = listener.port;
    const name = listener.host.includes(":") ? `[${listener.host}]` : listener.host;
    const close = async () => {
      await listener.close();
      await app.ended;
    };
    return { address: `${name}:${listener.port}`, close };
  } catch (error) {
    throw bindError(config.bind, error);
  }
}
