/**
 * Bodies and parameters of every route, made from its schemas and changed at some places: whatever a client sends, the
 * answer is one that the route declares, and never a failure of ours.
 */

import assert from "node:assert/strict";
import fc from "fast-check";
import { stringify } from "smol-toml";
import { z } from "zod";
import { requestJsonSchema } from "../config/check/request_keys.ts";
import { describeKeys } from "../config/describe.ts";
import { type PopulatedApp, withPopulatedApp } from "./populated_testing.ts";
import { ROUTES } from "./route_table.ts";
import type { Route } from "./routing/route.ts";
import { almostValid, anyJson, type Pools, type ZodJsonSchema } from "./schema_arbitrary_testing.ts";

/** The seed of all requests. */
const SEED = 8;

/** The most requests for a schema of a body, and of parameters. */
const BODIES = 100, PARAMETERS = 40;

/** The time for the requests to a route: those that start a process are fewer. */
const ROUTE_MS = 10_000;

const JSON_TYPE = "application/json", TOML_TYPE = "application/toml";

const jsonSchema = (schema: z.ZodType) => z.toJSONSchema(schema, { io: "input" }) as ZodJsonSchema;

/** The schema of a route's JSON body, in which a complete configuration has the schema that the server publishes. */
function bodySchema(schema: z.ZodType): ZodJsonSchema {
  const body = jsonSchema(schema), { $defs: inner = {}, ...config } = requestJsonSchema() as ZodJsonSchema;
  const $defs = { ...body.$defs, ...inner };
  for (const { properties } of [body, ...Object.values(body.$defs ?? {})]) {
    if (properties?.config) properties.config = config;
  }
  return { ...body, $defs };
}

/** Sends a request; the server's log must stay without failures. */
async function sendOne(
  { send, pathOf, logged }: PopulatedApp,
  route: Route,
  { body, search = "", type = JSON_TYPE }: { body?: string; search?: string; type?: string },
): Promise<void> {
  const { status } = await send(route, `${pathOf(route)}${search}`, {
    method: route.method,
    ...(body === undefined ? {} : { body, headers: { "content-type": type } }),
  });
  // After a request that fails a smaller one is tried, which starts with an empty log.
  const failures = logged.splice(0);
  assert.ok(status !== 500, `${route.method} ${route.path}: ${status}`);
  assert.deepEqual(failures, []);
}

/** Sends many requests to a route. A failure prints the smallest request that fails. */
async function sendMany<T>(
  values: fc.Arbitrary<T>,
  numRuns: number,
  one: (value: T) => Promise<void>,
): Promise<void> {
  await fc.assert(fc.asyncProperty(values, one), { seed: SEED, numRuns, interruptAfterTimeLimit: ROUTE_MS });
}

function poolsOf({ root, pathOf }: PopulatedApp): Pools {
  const ids = ["/v1/runs/{id}", "/v1/datasets/{id}"].map((path) =>
    pathOf({ path } as Route).split("/").at(-1)!
  );
  const files = [
    `${root}/model.gguf`,
    `${root}/absent`,
    root,
    `${root}/../data`,
    "/etc/passwd",
    "~/x",
    "a\0b",
  ];
  return { texts: [...ids, ...files], names: describeKeys().map(({ key }) => key) };
}

/** TOML of a value, if it has a form in TOML. */
function tomlOf(value: unknown): string {
  try {
    return stringify(value);
  } catch {
    return String(value);
  }
}

Deno.test("any JSON as the body of any route is an answer that the route declares", async () => {
  await withPopulatedApp("", async (populated) => {
    const pools = poolsOf(populated);
    for (const route of ROUTES) {
      const schema = route.body?.content[JSON_TYPE];
      if (!schema) continue;
      const values = fc.oneof(
        { weight: 9, arbitrary: almostValid(bodySchema(schema), pools) },
        { weight: 1, arbitrary: anyJson },
      );
      await sendMany(values, BODIES, (value) => sendOne(populated, route, { body: JSON.stringify(value) }));
    }
  });
});

Deno.test("any configuration as TOML is an answer that the route declares", async () => {
  await withPopulatedApp("", async (populated) => {
    const config = requestJsonSchema() as ZodJsonSchema, pools = poolsOf(populated);
    const values = fc.oneof(almostValid(config, pools).map(tomlOf), fc.string());
    const routes = ROUTES.filter(({ body }) => body && TOML_TYPE in body.content);
    assert.ok(routes.length > 0);
    for (const route of routes) {
      await sendMany(values, BODIES, (body) => sendOne(populated, route, { body, type: TOML_TYPE }));
    }
  });
});

Deno.test("any parameters of any route are an answer that the route declares", async () => {
  await withPopulatedApp("", async (populated) => {
    const pools = poolsOf(populated);
    for (const route of ROUTES.filter(({ method, query }) => method === "GET" || query)) {
      const schema: ZodJsonSchema = route.query
        ? jsonSchema(route.query)
        : { type: "object", properties: {} };
      const values = almostValid(schema, pools).filter((value) =>
        typeof value === "object" && value !== null
      );
      // A dataset that is stored already, and no body of any other route.
      const [type] = Object.keys(route.body?.content ?? {});
      const body = type === undefined ? {} : { type, body: '{"text":"a"}\n' };
      await sendMany(values, PARAMETERS, (value) => {
        const pairs = Object.entries(value as object).map(([name, inner]) =>
          [name, typeof inner === "string" ? inner : JSON.stringify(inner)].map((text) => text.toWellFormed())
        );
        const search = `?${new URLSearchParams(pairs as [string, string][])}`;
        return sendOne(populated, route, { search, ...body });
      });
    }
  });
});
