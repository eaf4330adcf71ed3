/** Listeners on free ports for tests, and clients that write and read bytes. */

import assert from "node:assert/strict";
import { parseServerConfig } from "../../config/server/load.ts";
import { type Clock, systemClock } from "../../core/clock.ts";
import type { LogLine } from "../../core/log.ts";
import { TestFleet } from "../../runs/fleet/fleet_testing.ts";
import { App } from "../app.ts";
import type { Route } from "../routing/route.ts";
import { listen } from "./listen.ts";
import { CONNECTION_LIMITS, type ConnectionLimits, type Listener, type ListenerOptions } from "./listener.ts";

/** Starts a listener. */
export type Listen = (options: ListenerOptions) => Listener | Promise<Listener>;

interface Serving {
  clock?: Clock;
  limits?: Partial<ConnectionLimits>;
}

/** Listens in front of a handler while `body` runs. */
export async function withHandler(
  { listen, handle, clock = systemClock, limits = {} }:
    & Serving
    & Pick<ListenerOptions, "handle">
    & { listen: Listen },
  body: (address: string, logged: Record<string, unknown>[], listener: Listener) => Promise<void>,
): Promise<void> {
  const logged: Record<string, unknown>[] = [];
  const listener = await listen({
    ...{ host: "127.0.0.1", port: 0, handle, clock, limits: { ...CONNECTION_LIMITS, ...limits } },
    log: (line) => logged.push(line),
  });
  try {
    await body(`127.0.0.1:${listener.port}`, logged, listener);
  } finally {
    await listener.close();
  }
}

/** A server with a token and a fleet of scripted runs, on a real listener. */
export interface ListeningFleet {
  test: TestFleet;
  /** The address of its API, up to `/v1`. */
  url: string;
  folder: string;
}

/** The headers of a request to a {@link ListeningFleet}. */
export const FLEET_TOKEN = { authorization: "Bearer secret" };

/** Runs a test with such a server, which logs nothing. @param bind Loopback, or all addresses for the other listener. */
export async function withListeningFleet(
  bind: string,
  body: (listening: ListeningFleet) => Promise<void>,
): Promise<void> {
  const config = parseServerConfig(`bind = "${bind}"\nauth_token = "secret"\n`, { path: "server.toml" });
  const folder = await Deno.realPath(await Deno.makeTempDir());
  const test = await TestFleet.open({ folder }), logged: LogLine[] = [];
  const server = await listen(config, {
    ...{ probeDevices: () => Promise.resolve([]), log: (line) => void logged.push(line) },
    ...{ fleet: test.fleet, changes: test.relayed },
  });
  const url = `http://127.0.0.1:${server.address.split(":").at(-1)}/v1`;
  try {
    await body({ test, url, folder });
  } finally {
    await Promise.all([server.close(), test.close()]);
    await Deno.remove(folder, { recursive: true });
  }
  assert.deepEqual(logged, []);
}

type Body = Parameters<typeof withHandler>[1];

/** Listens in front of an app of some routes while `body` runs. */
export type WithRoutes = (routes: readonly Route[], body: Body, clock?: Clock) => Promise<void>;

/** Apps in front of which a kind of listener listens. */
export function withRoutesOn(listen: Listen): WithRoutes {
  return async (routes, body, clock = systemClock) => {
    const config = parseServerConfig("", { path: "server.toml" });
    const logged: Record<string, unknown>[] = [], log = (line: LogLine) => void logged.push(line);
    const app = new App({
      config,
      clock,
      port: () => 0,
      probeDevices: () => Promise.resolve([]),
      routes,
      log,
    });
    await withHandler({ listen, handle: app.handle.bind(app), clock }, body);
    assert.deepEqual(logged, [], "the app itself logs nothing");
  };
}

/** A connection to an address. */
export function connect(address: string): Promise<Deno.TcpConn> {
  const [hostname, port] = address.split(":");
  return Deno.connect({ hostname: hostname!, port: Number(port) });
}

/** Sends raw bytes and returns everything until the server closes the connection. */
export async function sendRaw(address: string, text: string): Promise<string> {
  using connection = await connect(address);
  await connection.write(new TextEncoder().encode(text));
  return await new Response(connection.readable).text();
}

/** Reads from a connection until all of it contains the text. */
export function reader(connection: Deno.TcpConn) {
  const decoder = new TextDecoder(), buffer = new Uint8Array(4096);
  let seen = "";
  return async (text: string) => {
    while (!seen.includes(text)) {
      const count = await connection.read(buffer);
      assert.ok(count !== null, `the connection ends before ${text}: ${seen}`);
      seen += decoder.decode(buffer.subarray(0, count));
    }
    return seen;
  };
}
