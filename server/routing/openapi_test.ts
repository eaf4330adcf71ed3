import assert from "node:assert/strict";
import { z } from "zod";
import { openApiDocument, openApiText } from "./openapi.ts";
import { PROBLEM_TYPES } from "../http/problem_types.ts";
import { pathNames, type Route, route } from "./route.ts";
import { problemsOf } from "./route_problems.ts";
import { ROUTES } from "../route_table.ts";
import { testApp } from "../app_testing.ts";

// deno-lint-ignore no-explicit-any -- a document of many forms
type Json = any;

/** All objects in a document, with their places. */
function* objectsOf(value: Json, place = "#"): Generator<[string, Record<string, Json>]> {
  if (typeof value !== "object" || value === null) return;
  if (!Array.isArray(value)) yield [place, value];
  for (const [key, inner] of Object.entries(value)) yield* objectsOf(inner, `${place}/${key}`);
}

function resolves(document: Json, ref: string): boolean {
  if (!ref.startsWith("#/")) return false;
  return ref.slice(2).split("/").reduce((at, part) => at?.[part], document) !== undefined;
}

interface Operation {
  name: string;
  path: string;
  method: string;
  operation: Json;
}

function operationsOf(document: Json): Operation[] {
  return Object.entries(document.paths as Json).flatMap(([path, item]) =>
    Object.entries(item as Json).map(([method, operation]) => ({
      name: `${method} ${path}`,
      path,
      method,
      operation,
    }))
  );
}

/** Checks properties of any valid document of this API. */
function assertSound(document: Json): void {
  assert.match(document.openapi, /^3\.1\.\d+$/);
  for (const [place, object] of objectsOf(document)) {
    if (typeof object.$ref === "string") {
      assert.ok(resolves(document, object.$ref), `${place}: ${object.$ref}`);
    }
    for (const key of ["$id", "$schema", "$defs"]) {
      assert.ok(!Object.hasOwn(object, key), `${place} has ${key}`);
    }
  }
  const operations = operationsOf(document);
  const ids = operations.map(({ operation }) => operation.operationId);
  assert.deepEqual(ids.filter((id, i) => ids.indexOf(id) !== i), []);
  for (const { name, path, operation } of operations) {
    const declared = (operation.parameters ?? []) as Json[];
    const in_path = declared.filter((parameter) => parameter.in === "path");
    assert.deepEqual(in_path.map((parameter) => parameter.name), pathNames(path), name);
    assert.ok(in_path.every((parameter) => parameter.required === true), name);
    const keys = declared.map((parameter) => `${parameter.in} ${parameter.name}`);
    assert.equal(new Set(keys).size, keys.length, name);
    assert.ok(declared.every(({ schema }) => typeof schema === "object"), name);
    const answers = Object.entries(operation.responses as Json) as [string, Json][];
    assert.ok(answers.length > 0, name);
    for (const [status, answer] of answers) {
      assert.match(status, /^[1-5]\d\d$/);
      assert.ok(answer.description.length > 0, `${name} ${status}`);
      const bodies = Object.values(answer.content ?? {}) as Json[];
      assert.ok(bodies.length > 0 || ["204", "304"].includes(status), `${name} ${status} has no schema`);
      assert.ok(bodies.every(({ schema }) => typeof schema === "object"), `${name} ${status}`);
    }
  }
}

Deno.test("the document of the table is sound, and has every route once", () => {
  const document = openApiDocument(ROUTES);
  assertSound(document);
  const names = operationsOf(document).map(({ name }) => name).sort();
  assert.deepEqual(names, ROUTES.map(({ method, path }) => `${method.toLowerCase()} ${path}`).sort());
});

Deno.test("the stored copy is the document of the table", async () => {
  const stored = await Deno.readTextFile(new URL("../../api/openapi.json", import.meta.url));
  assert.equal(stored, openApiText(ROUTES));
  assert.deepEqual(JSON.parse(stored), openApiDocument(ROUTES));
  const operations = stored.split("\n").filter((line) =>
    /^ {3}"(?:get|post|put|patch|delete)": \{.*\},?$/.test(line)
  );
  assert.equal(operations.length, ROUTES.length, "an operation is a line");
});

Deno.test("the server answers with the document, each time", async () => {
  const { send } = testApp();
  for (let i = 0; i < 2; i++) {
    const { status, headers, json } = await send("/v1/openapi.json");
    assert.deepEqual([status, headers["content-type"]], [200, "application/json"]);
    assert.deepEqual(json, JSON.parse(openApiText(ROUTES)));
  }
});

Deno.test("every operation has a success answer, and 501 where it can be switched off", () => {
  const document: Json = openApiDocument(ROUTES);
  for (const { method, path, offReason } of ROUTES) {
    const { responses } = document.paths[path][method.toLowerCase()];
    const succeeds = Object.keys(responses).some((status) => status.startsWith("2"));
    assert.ok(succeeds, path);
    assert.equal("501" in responses, offReason !== undefined, path);
  }
});

Deno.test("the codes of problems are those that some route declares, each under its status", () => {
  const document: Json = openApiDocument(ROUTES);
  const listed: string[] = document.components.schemas.ProblemError.properties.code.enum;
  const declared = new Set(ROUTES.flatMap((entry) => Object.values(problemsOf(entry)).flat()));
  // The 404 of an unknown path, which belongs to no operation.
  declared.add("not_found");
  assert.deepEqual([...listed].sort(), [...declared].sort());
  for (const { name, operation } of operationsOf(document)) {
    for (const [status, answer] of Object.entries(operation.responses as Json) as [string, Json][]) {
      for (const type of Object.keys(answer["x-problems"] ?? {})) {
        assert.equal(String(PROBLEM_TYPES[type as keyof typeof PROBLEM_TYPES].status), status, name);
      }
    }
  }
});

Deno.test("named schemas have names of their own, and integers their smallest value", () => {
  const { schemas } = openApiDocument(ROUTES).components as Record<string, Json>;
  // A schema that contains itself gets a name like this when nobody gives it one.
  assert.deepEqual(Object.keys(schemas).filter((name) => !/^[A-Z]\w+$/.test(name)), []);
  const found = [...objectsOf(schemas)].filter(([, { type, minimum }]) =>
    type === "integer" && !(minimum >= 0)
  );
  // The status of a program, which some systems count from below 0.
  assert.deepEqual(found.map(([place]) => place), ["#/TrajectoryVerification/properties/code/anyOf/0"]);
});

/** Places of answers that may hold anything, with the reason. */
const ANY_VALUE: Readonly<Record<string, string>> = {
  "get_config_schema 200{}": "a JSON Schema",
  "OpenApi.paths{}{}": "OpenAPI's own schema describes it",
  "OpenApi.components{}{}": "OpenAPI's own schema describes it",
  "ConfigDefault.default": "as many forms as there are keys",
  "RunComparison.configuration[].values[]": "as many forms as there are keys",
  "Plan.config{}": "GET /v1/config-schema describes it",
  "Run.config{}": "GET /v1/config-schema describes it",
  "DatasetRow.row{}": "a client's file, read as it is",
  "TrajectoryTask.metadata": "a client's file, read as it is",
  "TrajectoryTool.parameters": "a tool's JSON Schema",
  "TrajectoryMessage.tool_calls[].function.arguments": "a model wrote it",
  "TrajectoryCall.arguments": "a model wrote it",
  "Generation.message.tool_calls[].function.arguments": "a model wrote it",
};

/** What says something about a value. */
const TELLING = ["$ref", "type", "enum", "const", "anyOf", "oneOf", "not"];

/** The places in a schema, named components included, that may hold anything. */
function* anyValues(schema: Json, place: string, components: Json): Generator<string> {
  const { $ref, type, properties, additionalProperties: others, items, contentSchema } = schema;
  const is_open = [type].flat().includes("object") && !properties && others === undefined;
  const is_list = type === "array" && items === undefined;
  if ($ref?.endsWith("/JsonValue") || is_open || is_list || !TELLING.some((key) => key in schema)) {
    yield place;
  } else if ($ref) {
    const name = $ref.split("/").at(-1);
    yield* components.visit(name, (component: Json) => anyValues(component, name, components));
  }
  for (const form of [...schema.anyOf ?? [], ...schema.oneOf ?? []]) {
    yield* anyValues(form, place, components);
  }
  for (const [name, inner] of Object.entries(properties ?? {})) {
    yield* anyValues(inner, `${place}.${name}`, components);
  }
  if (others) yield* anyValues(others === true ? {} : others, `${place}{}`, components);
  if (items) yield* anyValues(items, `${place}[]`, components);
  if (contentSchema) yield* anyValues(contentSchema, place, components);
}

/** The named schemas of a document, each visited once. */
function visitedOnce(document: Json) {
  const seen = new Set<string>();
  return {
    *visit(name: string, each: (component: Json) => Iterable<string>) {
      if (seen.has(name)) return;
      seen.add(name);
      yield* each(document.components.schemas[name]);
    },
  };
}

Deno.test("every place of an answer has a form, except those that are listed with their reasons", () => {
  const document: Json = openApiDocument(ROUTES), components = visitedOnce(document);
  const found = operationsOf(document).flatMap(({ operation }) =>
    Object.entries(operation.responses as Json).flatMap(([status, { content = {} }]: [string, Json]) =>
      Object.values(content).flatMap((body: Json) => [
        ...anyValues(body.schema, `${operation.operationId} ${status}`, components),
      ])
    )
  );
  assert.deepEqual(found.sort(), Object.keys(ANY_VALUE).sort());
});

Deno.test("every stream of events declares its events and their data, and every 503 its Retry-After", () => {
  const document: Json = openApiDocument(ROUTES);
  const names: Record<string, string[]> = {};
  for (const { name, operation } of operationsOf(document)) {
    const stream = operation.responses["200"]?.content?.["text/event-stream"]?.schema;
    if (stream) {
      const { items } = stream.contentSchema, events: Json[] = items.anyOf ?? [items];
      names[operation.operationId] = events.map(({ properties }) => properties.event?.const ?? "message");
    }
    const busy = operation.responses["503"];
    assert.equal(busy ? "Retry-After" in busy.headers : true, true, name);
  }
  assert.deepEqual(names, {
    create_chat_completion: ["message"],
    stream_events: ["created", "state", "deleted", "gap"],
    stream_run_events: [
      ...["state", "metrics", "update", "evaluation", "checkpoint"],
      ...["artifact", "log", "warning", "command", "end"],
    ],
  });
});

Deno.test("the headers that routes read are parameters", () => {
  const document: Json = openApiDocument(ROUTES);
  const read = operationsOf(document).flatMap(({ operation }) =>
    (operation.parameters ?? []).filter((parameter: Json) => parameter.in === "header")
      .map(({ name, required }: Json) => `${operation.operationId} ${name} ${required}`)
  );
  assert.deepEqual(read.sort(), [
    "create_run Idempotency-Key false",
    "download_artifact If-None-Match false",
    "download_artifact If-Range false",
    "download_artifact Range false",
    "stream_events Last-Event-ID false",
    "stream_run_events Last-Event-ID false",
  ]);
});

Deno.test("a token is required under /v1 and nowhere else", () => {
  const document: Json = openApiDocument(ROUTES);
  assert.deepEqual(document.security, [{ bearer: [] }, {}]);
  for (const { path, operation } of operationsOf(document)) {
    assert.deepEqual(operation.security, path.startsWith("/v1/") ? undefined : [], path);
  }
});

const shared = z.strictObject({ a: z.int() }).meta({ id: "OpenApiTestShared" });
const rich = route({
  method: "POST",
  path: "/v1/things/{id}/parts/{n}",
  operation: "make_part",
  summary: "Makes a part.",
  query: z.strictObject({
    limit: z.string().transform(Number).pipe(z.int().gte(1).lte(500)).default(50),
    name: z.string().meta({ description: "Its name." }),
  }),
  body: { limit: "max_body_bytes", content: { "application/json": shared, "application/toml": z.string() } },
  answers: {
    201: {
      description: "Made.",
      content: { "application/json": z.strictObject({ parts: z.array(shared) }), "text/csv": z.string() },
      headers: { Location: "Where it is." },
    },
    204: { description: "Nothing to make." },
  },
  problems: { conflict: ["conflict"], "forbidden-path": [] },
  handler: () => ({ status: 204 as const }),
});

Deno.test("parameters, bodies and answers of a route with all of them", () => {
  const document: Json = openApiDocument([rich]);
  assertSound(document);
  const operation = document.paths["/v1/things/{id}/parts/{n}"].post;
  const [, , limit, name] = operation.parameters;
  assert.deepEqual(limit, {
    name: "limit",
    in: "query",
    required: false,
    schema: { default: 50, type: "integer", minimum: 1, maximum: 500 },
  });
  assert.deepEqual(name, {
    name: "name",
    in: "query",
    required: true,
    description: "Its name.",
    schema: { type: "string" },
  });
  const ref = { $ref: "#/components/schemas/OpenApiTestShared" };
  assert.deepEqual(operation.requestBody.content["application/json"], { schema: ref });
  assert.deepEqual(Object.keys(operation.responses), [
    "201",
    "204",
    "401",
    "403",
    "404",
    "409",
    "413",
    "415",
    "422",
    "500",
  ]);
  const made = operation.responses["201"];
  assert.deepEqual(made.content["application/json"].schema.properties.parts, { type: "array", items: ref });
  assert.deepEqual(Object.keys(made.headers), ["X-Trace-Id", "Location"]);
  assert.deepEqual(operation.responses["409"]["x-problems"], { conflict: ["conflict"] });
});

Deno.test("two schemas with one id are refused", () => {
  const changes = z.strictObject({ a: z.int().default(1) }).meta({ id: "OpenApiTestChanges" });
  const content = { "application/json": changes };
  const both: Route = {
    ...{ method: "POST", path: "/v1/x", operation: "x", summary: "x", handler: () => ({ status: 200 }) },
    body: { limit: "max_body_bytes", content },
    answers: { 200: { description: "x", content } },
  };
  assert.throws(() => openApiDocument([both]), /two schemas have the id OpenApiTestChanges/);
});
