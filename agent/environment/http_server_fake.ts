/** An environment server for tests: attempts in folders with the toolset `files`, and routes that answer as a test says. */

import { assert, ServiceError } from "../../core/errors.ts";
import type { Clock } from "../../core/clock.ts";
import { parseScenario } from "../../data/scenario.ts";
import { FILES_TOOLSET } from "../tools/builtin/files.ts";
import type { Environment } from "./environment.ts";
import { localEnvironments } from "./local.ts";

/** A route without the id that its path may have. */
export type ServerRoute = "/tools" | "/reset" | "/step" | "/state" | "/close";

/** A request that the server got. */
export interface GotRequest {
  route: ServerRoute;
  /** With the id of `/state`. */
  path: string;
  headers: Headers;
  /** Null: it had no body. */
  // deno-lint-ignore no-explicit-any -- tests look into it
  body: any;
  /** How many requests of this route came before. */
  earlier: number;
}

type Answer = (request: GotRequest, signal: AbortSignal) => Response | Promise<Response>;

export interface FakeServer {
  /** With the prefix `/env`. */
  base_url: string;
  /** In the order in which they came. */
  requests: GotRequest[];
  /** Resolves when `count` requests of a route came. */
  came(route: ServerRoute, count?: number): Promise<void>;
  end(): Promise<void>;
}

/** Tools in the form of MCP. */
export const mcpTools = FILES_TOOLSET.tools.map(({ name, description, parameters: inputSchema }) => ({
  name,
  description,
  inputSchema,
}));

/** Answers of a server whose calls all have a result and no reward. */
const PLAIN: Readonly<Record<ServerRoute, Answer>> = {
  "/tools": () => Response.json({ tools: mcpTools }),
  "/reset": ({ earlier }) => Response.json({ env_id: `env ${earlier}/é`, observation: null }),
  "/step": ({ body }) => Response.json({ result: "ok", reward: null, done: body.call.name === "submit" }),
  "/state": () => Response.json({ left: true }),
  "/close": () => new Response(null, { status: 204 }),
};

/** Starts a server on a free port of this machine. */
export function fakeServer(answers: Partial<Record<ServerRoute, Answer>> = {}): FakeServer {
  const requests: GotRequest[] = [];
  let changed = Promise.withResolvers<void>();
  const ended = new AbortController();
  const serve = { hostname: "127.0.0.1", port: 0, onListen() {}, signal: ended.signal };
  const server = Deno.serve(serve, async (request) => {
    const path = new URL(request.url).pathname.replace(/^\/env/, "");
    const route = path.replace(/^(\/\w+).*/, "$1") as ServerRoute;
    const text = await request.text();
    const got = {
      ...{ route, path, headers: request.headers, body: text === "" ? null : JSON.parse(text) },
      earlier: requests.filter((earlier) => earlier.route === route).length,
    };
    requests.push(got);
    changed.resolve();
    changed = Promise.withResolvers();
    return await (answers[route] ?? PLAIN[route])(got, ended.signal);
  });
  return {
    base_url: `http://127.0.0.1:${server.addr.port}/env`,
    requests,
    async came(route, count = 1) {
      while (requests.filter((request) => request.route === route).length < count) await changed.promise;
    },
    async end() {
      ended.abort();
      await server.finished;
    },
  };
}

/** Never answers, until the server ends. */
export const hang: Answer = (_, signal) =>
  new Promise((resolve) =>
    signal.addEventListener("abort", () => resolve(new Response(null, { status: 503 })))
  );

/** A server whose attempts are local environments in `directory`, for scenarios with `metadata.env`. */
export function filesServer({ directory, clock }: { directory: string; clock: Clock }) {
  const environments = localEnvironments({
    ...{ allow_unsandboxed: true, tools: { default: "files" }, scenario_toolsets: [] },
    ...{ limits: { exec_timeout_secs: 30 }, clock, directory },
    // Its texts do not depend on what this machine has.
    findIsolation: () => Promise.resolve({ isolation: null, reason: "a test's server" }),
  });
  const { signal } = new AbortController();
  const live = new Map<string, Environment>();
  const environmentOf = (id: string) => {
    const environment = live.get(id);
    assert(environment, `the server has the environment ${id}`);
    return environment;
  };
  let made = 0;
  const server = fakeServer({
    "/reset": answering(async ({ body: { scenario, seed } }) => {
      const parsed = parseScenario(scenario, { path: "request", line: 1 });
      const environment = await environments.open(parsed, { seed, signal });
      const env_id = `files-${++made}`;
      live.set(env_id, environment);
      return Response.json({ env_id, observation: null });
    }),
    "/step": answering(async ({ body: { env_id, call } }) =>
      Response.json(await environmentOf(env_id).call(call, signal))
    ),
    "/state": answering(async ({ path }) => {
      const { value } = await environmentOf(path.replace("/state/", "")).state(signal);
      return value === null ? new Response(null, { status: 404 }) : Response.json(value);
    }),
    "/close": answering(async ({ body: { env_id } }) => {
      await environmentOf(env_id).close();
      live.delete(env_id);
      return new Response();
    }),
  });
  return { ...server, live };
}

/** Failures of the service's own code are answers with status 500. */
function answering(answer: (request: GotRequest) => Promise<Response>): Answer {
  return (request) =>
    answer(request).catch((error) => {
      if (!(error instanceof ServiceError)) throw error;
      return new Response(error.message, { status: 500 });
    });
}
