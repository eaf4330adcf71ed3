/** A server without a port for tests. Every answer is checked against its route's declaration. */

import assert from "node:assert/strict";
import type { z } from "zod";
import { parseServerConfig } from "../config/server/load.ts";
import { ManualClock } from "../core/clock_fake.ts";
import type { Database } from "./store/database.ts";
import type { Fleet } from "../runs/fleet/fleet.ts";
import type { Serving } from "../runs/serving/serving.ts";
import type { FleetChange } from "../runs/fleet/run_lifecycle.ts";
import type { JobRunner } from "../runs/jobs/job_table.ts";
import { App, type AppOptions, type RequestContext } from "./app.ts";
import { memoryMetaSchema, type ProblemDocument } from "./http/problems.ts";
import { isProblemType, PROBLEM_TYPES, type ProblemType } from "./http/problem_types.ts";
import { assertPublished, assertPublishedProblem } from "./published_schema_testing.ts";
import { PROBLEM_HEADERS } from "./routing/openapi.ts";
import { type AnswerSpec, type EventSpecs, isApi, type Method, type Route } from "./routing/route.ts";
import { problemsOf } from "./routing/route_problems.ts";
import { ROUTES } from "./route_table.ts";
import { requestUrl, Router, splitTarget } from "./routing/router.ts";
import { NO_RUNS, type RunSource } from "./sources/run_source.ts";
import type { ProbedDevice } from "./routing/services.ts";

/** Problems of the checks before routing, which routes do not declare. */
const BEFORE_ROUTES: readonly ProblemType[] = ["unauthorized", "not-found", "method-not-allowed"];

function problemTypeOf(document: ProblemDocument, type_base: string): ProblemType {
  const base = `${type_base.replace(/\/$/, "")}/`;
  assert.ok(document.type.startsWith(base), `${document.type} begins with ${base}`);
  return document.type.slice(base.length) as ProblemType;
}

/** Checks that a problem document is complete, and that the route declares its type and codes. */
function assertDeclaredProblem(
  route: Route | null,
  document: ProblemDocument,
  { status, type_base, routes }: { status: number; type_base: string; routes: readonly Route[] },
): void {
  assertPublishedProblem(document, routes);
  const type = problemTypeOf(document, type_base);
  assert.ok(isProblemType(type), `${type} is a type of problem`);
  const { status: expected, title } = PROBLEM_TYPES[type];
  assert.deepEqual([document.status, document.title], [expected, title], type);
  assert.equal(status, document.status);
  if (type === "insufficient-memory") memoryMetaSchema.parse(document.meta);
  else assert.deepEqual(document.meta, {}, `${type} has no meta`);
  if (!route) return assert.ok(BEFORE_ROUTES.includes(type), `${type} without a route`);
  const codes = problemsOf(route)[type];
  assert.ok(codes, `${route.operation} does not declare the problem ${type}`);
  for (const { code } of document.errors) {
    assert.ok(codes.includes(code), `${route.operation} does not declare ${code} of ${type}`);
  }
}

function assertDeclaredAnswer(route: Route, sent: Sent): void {
  const spec: AnswerSpec | undefined = route.answers[sent.status];
  assert.ok(spec, `${route.operation} does not declare the status ${sent.status}`);
  if (!spec.content) return assert.equal(sent.body, "", `${route.operation} declares no body`);
  const type = sent.headers["content-type"]?.split(";")[0] ?? "";
  const schema: z.ZodType | undefined = spec.content[type];
  assert.ok(schema, `${route.operation} does not declare the type ${type}`);
  if (type === "text/event-stream") return assertDeclaredEvents(route, spec.events, sent.body);
  if (type !== "application/json") return;
  assertPublished(schema, sent.json, `${route.operation} answers`);
}

/** The last event of OpenAI's streams; it is no JSON. */
const DONE = "[DONE]";

/** Checks that each event of a stream has a declared name and data of its schema. @throws {AssertionError} */
export function assertDeclaredEvents(
  { operation }: Pick<Route, "operation">,
  events: EventSpecs | undefined,
  text: string,
): void {
  for (const [, , name = "message", data] of text.matchAll(/^(event: ([^\n]*)\n)?data: ([^\n]*)/gm)) {
    if (data === DONE) continue;
    const schema = events?.[name];
    assert.ok(schema, `${operation} does not declare the event ${name}`);
    assertPublished(schema, JSON.parse(data!), `${operation} sends as ${name}`);
  }
}

/** The headers of every answer, and those that follow from the body. */
const COMMON_HEADERS: ReadonlySet<string> = new Set([
  ...["x-trace-id", "x-content-type-options", "cache-control", "content-type", "content-length"],
]);

/** Those of an answer that the route declares, in small letters. */
function declaredHeaders(route: Route, { status, json }: Sent, type_base: string): string[] {
  const of_problem = status < 400 ? {} : PROBLEM_HEADERS[problemTypeOf(json, type_base)] ?? {};
  const declared = { ...route.answers[status]?.headers, ...of_problem };
  return Object.keys(declared).map((name) => name.toLowerCase());
}

function assertDeclaredHeaders(route: Route, sent: Sent, type_base: string): void {
  const declared = declaredHeaders(route, sent, type_base);
  const more = Object.keys(sent.headers).filter((name) => !COMMON_HEADERS.has(name));
  const unknown = more.filter((name) => !declared.includes(name));
  assert.deepEqual(unknown, [], `${route.operation} sends headers that it does not declare`);
}

/**
 * Checks that the route declares the answer: status, media type, JSON schema, and a problem's type and codes. Outside
 * the API a refusal is plain text.
 *
 * @throws {AssertionError}
 */
export function assertDeclared(
  sent: Sent,
  { method, target, type_base, routes }: {
    method: string;
    target: string;
    type_base: string;
    routes: readonly Route[];
  },
): void {
  const { path } = splitTarget(target);
  if (method === "HEAD" || method === "OPTIONS") return;
  const route = new Router(routes).find(path)?.routes.get(method as Method) ?? null;
  if (sent.status < 400) {
    assert.ok(route, `${path} has a route`);
    assertDeclaredAnswer(route, sent);
    if (isApi(path)) assertDeclaredHeaders(route, sent, type_base);
  } else if (isApi(path)) {
    assert.equal(sent.headers["content-type"], "application/problem+json");
    assertDeclaredProblem(route, sent.json, { status: sent.status, type_base, routes });
    if (route) assertDeclaredHeaders(route, sent, type_base);
  } else {
    assert.equal(sent.headers["content-type"], "text/plain; charset=utf-8");
    if (route) assertDeclaredAnswer(route, sent);
  }
}

/** A test's request besides the target. */
export interface Given {
  method?: string;
  headers?: Record<string, string | undefined>;
  hosts?: readonly string[];
  body?: BodyInit;
  signal?: AbortSignal;
}

/** A complete answer. */
export interface Sent {
  status: number;
  headers: Record<string, string>;
  body: string;
  /** The parsed body of JSON and problems; else null. */
  // deno-lint-ignore no-explicit-any -- tests look into documents of every form
  json: any;
}

export const TEST_DEVICE: ProbedDevice = {
  name: "Test GPU",
  vendor: "",
  subgroup_size: 8,
  webgpu: "deno",
  webgpu_reason: "the one of the runtime",
  backend: "vulkan",
  driver: "1.2.3",
  features: ["shader-f16"],
  limits: { maxBufferSize: 1024 },
  vram_bytes: 1000,
  software: false,
};

export interface TestAppOptions {
  /** The server's configuration. */
  toml?: string;
  probeDevices?: () => Promise<ProbedDevice[]>;
  probeContainers?: NonNullable<AppOptions["probeContainers"]>;
  runs?: RunSource;
  jobs?: JobRunner;
  isDatasetInUse?: (id: string) => Promise<boolean>;
  fleet?: Fleet;
  serving?: Serving;
  changes?: AsyncIterable<FleetChange>;
  database?: Database;
  routes?: readonly Route[];
}

/** Builds a request as the listener does. */
export function testRequest(target: string, given: Given = {}): [Request, RequestContext] {
  const { method = "GET", headers = {}, hosts = ["localhost:8471"], body, signal } = given;
  const sent = Object.entries(headers).filter((pair): pair is [string, string] => pair[1] !== undefined);
  const request = new Request(requestUrl(target), {
    method: method === "TRACE" ? "GET" : method,
    headers: sent,
    ...(body === undefined ? {} : { body }),
    ...(signal === undefined ? {} : { signal }),
  });
  return [request, { method, target, hosts, peer: "127.0.0.1:1" }];
}

/** The request headers that belong to every route: the caller, the body's type and size, and the client's trace. */
const READ_OF_ALL: ReadonlySet<string> = new Set([
  ...[
    "origin",
    "sec-fetch-site",
    "authorization",
    "content-type",
    "content-encoding",
    "content-length",
    "traceparent",
  ],
]);

/** The names of the headers that are read from a request, from now on. */
function watchHeaders({ headers }: Request): ReadonlySet<string> {
  const read = new Set<string>(), get = headers.get.bind(headers);
  headers.get = (name) => {
    read.add(name.toLowerCase());
    return get(name);
  };
  return read;
}

/** Checks that the route declares the headers that were read. @throws {AssertionError} */
function assertDeclaredReads(read: ReadonlySet<string>, target: string, routes: readonly Route[]): void {
  const found = new Router(routes).find(splitTarget(target).path);
  const known = [...found?.routes.values() ?? []].flatMap(({ headers }) => Object.keys(headers ?? {}));
  const declared = known.map((name) => name.toLowerCase());
  const unknown = [...read].filter((name) => !READ_OF_ALL.has(name) && !declared.includes(name));
  assert.deepEqual(unknown, [], `${target} reads request headers that its route does not declare`);
}

/** An app with its own clock, and `send`, which checks every answer with {@link assertDeclared}. */
export function testApp(options: TestAppOptions = {}) {
  const { toml = "", probeDevices, runs = NO_RUNS, routes = ROUTES, jobs, isDatasetInUse, fleet } = options;
  const config = parseServerConfig(toml, { path: "/etc/svc/server.toml" });
  const clock = new ManualClock();
  const logged: Record<string, unknown>[] = [], requests: Record<string, unknown>[] = [];
  const app = new App({
    config,
    clock,
    port: () => 8471,
    probeDevices: probeDevices ?? (() => Promise.resolve([TEST_DEVICE])),
    log: (line) => logged.push(line),
    logRequest: (line) => requests.push(line),
    runs,
    routes,
    ...(options.probeContainers ? { probeContainers: options.probeContainers } : {}),
    ...(jobs ? { jobs } : {}),
    ...(fleet ? { fleet } : {}),
    ...(options.serving ? { serving: options.serving } : {}),
    ...(options.changes ? { changes: options.changes } : {}),
    ...(options.database ? { database: options.database } : {}),
    ...(isDatasetInUse ? { isDatasetInUse } : {}),
  });
  const send = async (target: string, given: Given = {}): Promise<Sent> => {
    const [request, context] = testRequest(target, given), read = watchHeaders(request);
    const response = await app.handle(request, context);
    assertDeclaredReads(read, target, routes);
    const body = await response.text();
    const headers = Object.fromEntries(response.headers);
    const sent: Sent = {
      status: response.status,
      headers,
      body,
      json: body !== "" && /[/+]json\b/.test(headers["content-type"] ?? "") ? JSON.parse(body) : null,
    };
    const type_base = config.problem_type_base;
    assertDeclared(sent, { method: given.method ?? "GET", target, type_base, routes });
    return sent;
  };
  return { app, send, clock, logged, requests };
}

/** A refusal as status, type, and the place and code of each problem. */
export function refusal({ status, json }: Sent): [number, string, string[]] {
  const entries = json.errors.map(({ pointer, code }: Record<string, string>) => `${pointer} ${code}`);
  return [status, json.type.replace("urn:svc:problems/", ""), entries];
}
