/**
 * Every path of the table with every method, media type and token, on things that exist and on things that do not. The
 * expected status follows from the route's declaration and from the contract's order of checks: token, path, method,
 * switched off, the resource of the path, media type, contents.
 */

import assert from "node:assert/strict";
import { PROBLEM_TYPES, type ProblemType } from "./http/problems.ts";
import type { Given, Sent } from "./app_testing.ts";
import { type PopulatedApp, withPopulatedApp } from "./populated_testing.ts";
import { ROUTES } from "./route_table.ts";
import { isApi, pathNames, type Route } from "./routing/route.ts";
import { problemsOf } from "./routing/route_problems.ts";

/** DELETE is last, because then the resource is gone. */
const METHODS = ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "PATCH", "POST", "DELETE"];
const TOKENS = { none: undefined, wrong: "Bearer wrong", other_scheme: "Basic right", right: "Bearer right" };
const TYPES = [
  undefined,
  "text/plain",
  "application/x-www-form-urlencoded",
  "application/json",
  "application/json; charset=latin1",
  "application/merge-patch+json",
  "application/toml",
  "application/x-ndjson",
];
/** A list is JSON, TOML that cannot be read, and one row of a dataset that cannot be used. */
const BODY = "[]";

const PATHS = Map.groupBy(ROUTES, ({ path }) => path);

interface Case {
  /** The routes of the path. */
  routes: readonly Route[];
  method: string;
  token: keyof typeof TOKENS;
  type: string | undefined;
  exists: boolean;
}

/** The media type of the route's declaration that a header names; null: none. */
function acceptedType(route: Route, type: string | undefined): string | null {
  const declared = Object.keys(route.body?.content ?? { "application/json": null });
  const name = type?.endsWith("+json") ? "application/json" : type;
  return name !== undefined && declared.includes(name) ? name : null;
}

/** The statuses that a route can answer with after the checks that every request passes. */
function laterStatuses(route: Route, { exists }: Case): number[] {
  const { unauthorized: _, internal: __, "unsupported-media-type": ___, ...later } = problemsOf(route);
  const problems = (Object.keys(later) as ProblemType[]).map((type) => PROBLEM_TYPES[type].status);
  const statuses = [...Object.keys(route.answers).map(Number), ...problems];
  // What exists has no 404, unless the path names a part of it.
  const is_part = pathNames(route.path).length > 1;
  return exists && !is_part && route.method !== "DELETE"
    ? statuses.filter((status) => status !== 404)
    : statuses;
}

/** The statuses that the contract allows. */
function expected(given: Case): number[] {
  const { routes, method, token, type, exists } = given, { path } = routes[0]!;
  if (isApi(path) && token !== "right") return [401];
  if (method === "OPTIONS") return [204];
  const route = routes.find((entry) => entry.method === (method === "HEAD" ? "GET" : method));
  if (!route) return [405];
  // What the operator switched off says so before anything else is looked at, and a part of the run may be absent.
  const off = "not-implemented" in problemsOf(route) ? [501] : [];
  if (!exists && pathNames(path).length > 0) return [404, ...off];
  const early = pathNames(path).length > 1 ? [404, ...off] : off;
  if (method === "POST" || method === "PATCH") {
    const accepted = acceptedType(route, type);
    if (accepted === null) return [415, ...early];
    if (accepted === "application/json" && route.body) {
      const schema = route.body.content[accepted]!;
      if (!schema.safeParse(JSON.parse(BODY)).success) return [422, ...early];
    }
  }
  if (isApi(path) && route.query && !route.query.safeParse({}).success) return [422, ...early];
  return laterStatuses(route, given);
}

function givenOf({ method, token, type }: Case): Given {
  const takes_body = !["GET", "HEAD", "TRACE"].includes(method);
  return {
    method,
    headers: { authorization: TOKENS[token], "content-type": type },
    // Bytes have no media type of their own.
    ...(takes_body ? { body: new TextEncoder().encode(BODY) } : {}),
  };
}

/** Checks the headers that the contract promises for a status. */
function assertHeaders({ status, headers, json }: Sent, { routes, method }: Case): void {
  assert.match(headers["x-trace-id"]!, /^[0-9a-f]{32}$/);
  assert.deepEqual([headers["x-content-type-options"], headers["cache-control"]], ["nosniff", "no-store"]);
  if (status === 401) assert.equal(headers["www-authenticate"], "Bearer");
  if (status === 405 || method === "OPTIONS" && status === 204) {
    const methods = routes.flatMap((entry) => entry.method === "GET" ? ["GET", "HEAD"] : [entry.method]);
    assert.equal(headers.allow, [...methods, "OPTIONS"].join(", "));
  }
  if (json !== null && status >= 400) assert.equal(json.trace_id, headers["x-trace-id"]);
}

async function check(populated: PopulatedApp, given: Case): Promise<void> {
  const [route] = given.routes, { method, exists } = given;
  const target = exists ? populated.pathOf(route!) : route!.path.replaceAll(/\{\w+\}/g, "absent");
  const handled = given.routes.find((entry) => entry.method === method) ?? route!;
  const sent = await populated.send(handled, target, givenOf(given));
  const statuses = expected(given), { token, type } = given;
  const what = `${method} ${target} with token ${token} and type ${type}`;
  assert.ok(statuses.includes(sent.status), `${what}: ${sent.status}, not ${statuses}: ${sent.body}`);
  assertHeaders(sent, given);
}

for (const exists of [false, true]) {
  Deno.test(`every path × method × media type × token, on what ${exists ? "exists" : "does not exist"}`, async () => {
    await withPopulatedApp('auth_token = "right"\n', async (populated) => {
      let sent = 0;
      for (const method of METHODS) {
        for (const routes of PATHS.values()) {
          for (const token of Object.keys(TOKENS) as (keyof typeof TOKENS)[]) {
            for (const type of TYPES) {
              await check(populated, { routes, method, token, type, exists });
              sent++;
            }
          }
        }
      }
      assert.equal(sent, METHODS.length * PATHS.size * Object.keys(TOKENS).length * TYPES.length);
      assert.deepEqual(populated.logged, []);
    });
  });
}
