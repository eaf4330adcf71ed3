/** A server without a port for tests. Every answer is checked against its route's declaration. */

import assert from "node:assert/strict";
import type { z } from "zod";
import { parseServerConfig } from "../config/server/load.ts";
import { ManualClock } from "../core/clock_fake.ts";
import type { Database } from "./store/database.ts";
import type { Fleet } from "../runs/fleet/fleet.ts";
import type { Serving } from "../runs/serving/serving.ts";
import type { FleetChange } from "../runs/fleet/run_keeper.ts";
import type { JobRunner } from "../runs/jobs/job_table.ts";
import { App, type RequestContext } from "./app.ts";
import { type ProblemDocument, problemSchema } from "./http/problems.ts";
import { isProblemType, PROBLEM_TYPES, type ProblemType } from "./http/problem_types.ts";
import { type AnswerSpec, isApi, type Method, type Route } from "./routing/route.ts";
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
  { status, type_base }: { status: number; type_base: string },
): void {
  problemSchema.parse(document);
  const type = problemTypeOf(document, type_base);
  assert.ok(isProblemType(type), `${type} is a type of problem`);
  const { status: expected, title } = PROBLEM_TYPES[type];
  assert.deepEqual([document.status, document.title], [expected, title], type);
  assert.equal(status, document.status);
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
  if (type !== "application/json") return;
  const { error } = schema.safeParse(sent.json);
  assert.equal(error, undefined, `${route.operation} answers what its schema does not allow: ${error}`);
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
  } else if (isApi(path)) {
    assert.equal(sent.headers["content-type"], "application/problem+json");
    assertDeclaredProblem(route, sent.json, { status: sent.status, type_base });
  } else assert.equal(sent.headers["content-type"], "text/plain; charset=utf-8");
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
    ...(jobs ? { jobs } : {}),
    ...(fleet ? { fleet } : {}),
    ...(options.serving ? { serving: options.serving } : {}),
    ...(options.changes ? { changes: options.changes } : {}),
    ...(options.database ? { database: options.database } : {}),
    ...(isDatasetInUse ? { isDatasetInUse } : {}),
  });
  const send = async (target: string, given: Given = {}): Promise<Sent> => {
    const response = await app.handle(...testRequest(target, given));
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
