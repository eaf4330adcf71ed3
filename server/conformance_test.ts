/**
 * Every path of the table with every method, media type and token, on things that exist and on things that do not, with
 * serving switched off and on. One status is right for each, by the contract's order of checks: token, path, method,
 * switched off, the resource of the path, media type, contents, state.
 */

import assert from "node:assert/strict";
import type { Given, Sent } from "./app_testing.ts";
import { type PopulatedApp, withPopulatedApp } from "./populated_testing.ts";
import { ROUTES } from "./route_table.ts";
import { isApi, pathNames, type Route } from "./routing/route.ts";

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
/** A list is JSON of the wrong form, TOML that cannot be read, and one row of a dataset that cannot be used. */
const BODY = "[]";

/** The status of a body with an accepted type; that of others is 422, because their body is no object. */
const WITH_BODY: Readonly<Record<string, number>> = {
  create_dataset: 201,
  link_artifact: 200,
  // The run has completed.
  ...{ pause_run: 409, resume_run: 409, create_checkpoint: 409 },
};

const PATHS = Map.groupBy(ROUTES, ({ path }) => path);

interface Case {
  /** The routes of the path. */
  routes: readonly Route[];
  method: string;
  token: keyof typeof TOKENS;
  type: string | undefined;
  exists: boolean;
  serving: boolean;
}

/** The media type of the route's declaration that a header names; null: none. */
function acceptedType(route: Route, type: string | undefined): string | null {
  const declared = Object.keys(route.body?.content ?? { "application/json": null });
  const name = type?.endsWith("+json") ? "application/json" : type;
  return name !== undefined && declared.includes(name) ? name : null;
}

/** The status that the contract asks for. @param deleted The paths of what was deleted. */
function expected(given: Case, deleted: ReadonlySet<string>): number {
  const { routes, method, token, type, exists, serving } = given, { path } = routes[0]!;
  if (isApi(path) && token !== "right") return 401;
  if (method === "OPTIONS") return 204;
  const route = routes.find((entry) => entry.method === (method === "HEAD" ? "GET" : method));
  if (!route) return 405;
  if (route.offReason && !serving) return 501;
  if (pathNames(path).length > 0 && (!exists || deleted.has(path))) return 404;
  if (method === "DELETE") return 204;
  if (method === "POST" || method === "PATCH") {
    return acceptedType(route, type) === null ? 415 : WITH_BODY[route.operation] ?? 422;
  }
  return isApi(path) && route.query?.safeParse({}).success === false ? 422 : 200;
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

async function check(populated: PopulatedApp, given: Case, deleted: Set<string>): Promise<void> {
  const [route] = given.routes, { method, exists, token, type } = given, { path } = route!;
  const target = exists ? populated.pathOf(route!) : path.replaceAll(/\{\w+\}/g, "absent");
  const sent = await populated.send(route!, target, givenOf(given));
  const what = `${method} ${target} with token ${token} and type ${type}`;
  assert.equal(sent.status, expected(given, deleted), `${what}: ${sent.body}`);
  if (method === "DELETE" && sent.status === 204) deleted.add(path);
  assertHeaders(sent, given);
  assert.ok(!sent.body.includes(populated.folder), `${what}: ${sent.body}`);
}

/** All paths, and those of serving with serving switched on. */
const CASES = [
  { exists: true, serving: false, paths: [...PATHS.values()] },
  { exists: false, serving: false, paths: [...PATHS.values()] },
  {
    ...{ exists: true, serving: true },
    paths: [...PATHS.values()].filter((routes) => routes.some(({ offReason }) => offReason)),
  },
];

for (const { exists, serving, paths } of CASES) {
  const what = serving ? "the paths of serving" : exists ? "what exists" : "what does not exist";
  Deno.test(`every path × method × media type × token, on ${what}`, async () => {
    await withPopulatedApp('auth_token = "right"\nredact_error_paths = true\n', async (populated) => {
      let sent = 0;
      const deleted = new Set<string>();
      for (const method of METHODS) {
        for (const routes of paths) {
          for (const token of Object.keys(TOKENS) as (keyof typeof TOKENS)[]) {
            for (const type of TYPES) {
              await check(populated, { routes, method, token, type, exists, serving }, deleted);
              sent++;
            }
          }
        }
      }
      assert.equal(sent, METHODS.length * paths.length * Object.keys(TOKENS).length * TYPES.length);
      assert.deepEqual(populated.logged, []);
    }, { serving });
  });
}
