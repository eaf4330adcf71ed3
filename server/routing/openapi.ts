/** Builds OpenAPI 3.1 from the table of routes. */

import { z } from "zod";
import { assert } from "../../core/errors.ts";
import { VERSION } from "../../core/version.ts";
import type { OpenApiDocument } from "./openapi_schema.ts";
import { type DeclaredProblems, problemSchema } from "../http/problems.ts";
import { ALL_PROBLEM_TYPES, PROBLEM_TYPES, type ProblemType } from "../http/problem_types.ts";
import {
  type AnswerSpec,
  type EventSpecs,
  isApi,
  type MediaSchemas,
  pathNames,
  type Route,
} from "./route.ts";
import { problemsOf } from "./route_problems.ts";

type Json = z.core.util.JSONType;
type JsonObject = Record<string, Json>;

const DESCRIPTION = `Fine-tuning of language models with low-rank adapters.

HEAD works wherever GET does. OPTIONS answers 204 with Allow, another method 405 (method-not-allowed) with Allow, and an unknown path 404 (not-found). A bearer token is needed where the server is configured with one. Every answer has the header X-Trace-Id.

An operation that the operator has switched off answers 501 (not-implemented).`;

const EVENT_STREAM = "text/event-stream", UNNAMED_EVENT = "message";

const TRACE_HEADER = { $ref: "#/components/headers/X-Trace-Id" };

/** Schemas by name, for references in the document. */
class Components {
  readonly schemas: JsonObject = {};

  /** The schema for a place in the document. Schemas with an id become components and are referenced. */
  place(schema: z.ZodType, io: "input" | "output"): JsonObject {
    const { $schema: _, $defs, ...place } = z.toJSONSchema(schema, {
      target: "draft-2020-12",
      io,
      override: ({ jsonSchema }) => delete jsonSchema.texts,
    });
    for (const [id, part] of Object.entries($defs ?? {})) {
      const { $id: _, id: __, ...kept } = part as JsonObject;
      const text = JSON.stringify(moved(kept));
      const known = this.schemas[id];
      assert(known === undefined || JSON.stringify(known) === text, `two schemas have the id ${id}`);
      this.schemas[id] = JSON.parse(text);
    }
    return moved(place as JsonObject) as JsonObject;
  }

  /** The schema of a stream of events: text, and in its content schema the events by name with their data. */
  events(events: EventSpecs): JsonObject {
    const forms = Object.entries(events).map(([name, schema]) => ({
      type: "object",
      properties: {
        ...(name === UNNAMED_EVENT ? {} : { event: { const: name } }),
        data: {
          type: "string",
          contentMediaType: "application/json",
          contentSchema: this.place(schema, "output"),
        },
      },
      required: name === UNNAMED_EVENT ? ["data"] : ["event", "data"],
    }));
    const contentSchema = { type: "array", items: forms.length === 1 ? forms[0]! : { anyOf: forms } };
    return { type: "string", contentMediaType: EVENT_STREAM, contentSchema };
  }

  answer({ content = {}, events }: AnswerSpec): JsonObject {
    const places = this.content(content, "output");
    return events ? { ...places, [EVENT_STREAM]: { schema: this.events(events) } } : places;
  }

  content(content: MediaSchemas, io: "input" | "output"): JsonObject {
    return Object.fromEntries(
      Object.entries(content).map(([type, schema]) => [type, { schema: this.place(schema, io) }]),
    );
  }
}

/** Redirects references from a schema's own definitions to the document's. */
function moved(value: Json): Json {
  if (Array.isArray(value)) return value.map(moved);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [
      key,
      key === "$ref" && typeof inner === "string"
        ? inner.replace(/^#\/\$defs\//, "#/components/schemas/")
        : moved(inner),
    ]),
  );
}

function parametersOf(route: Route, components: Components): Json[] {
  const path = pathNames(route.path).map((name) => ({
    name,
    in: "path",
    required: true,
    schema: { type: "string" },
  }));
  const headers = Object.entries(route.headers ?? {}).map((header) => ["header", ...header] as const);
  const query = Object.entries(route.query?.shape ?? {}).map((field) => ["query", ...field] as const);
  const others = [...query, ...headers].map(([place_in, name, field]) => {
    const schema = field as z.ZodType;
    // A parameter's schema describes its parsed value.
    const { description, ...place } = components.place(schema, "output");
    return {
      name,
      in: place_in,
      required: !schema.safeParse(undefined).success,
      ...(description === undefined ? {} : { description }),
      // A list is one parameter, with commas between its items.
      ...(place.type === "array" ? { style: "form", explode: false } : {}),
      schema: place,
    };
  });
  return [...path, ...others];
}

/** The headers of an answer besides the trace. */
function headersOf(headers: Readonly<Record<string, string>>): JsonObject {
  const own = Object.entries(headers).map(([name, description]) => [
    name,
    { description, schema: { type: "string" } },
  ]);
  return { "X-Trace-Id": TRACE_HEADER, ...Object.fromEntries(own) };
}

/** The headers of problems by type, with descriptions. */
export const PROBLEM_HEADERS: Readonly<Partial<Record<ProblemType, Record<string, string>>>> = {
  "unauthorized": { "WWW-Authenticate": "Bearer" },
  "device-busy": { "Retry-After": "Seconds to wait; absent when waiting does not help." },
};

function problemAnswers(problems: DeclaredProblems): JsonObject {
  const by_status = new Map<number, ProblemType[]>();
  for (const type of ALL_PROBLEM_TYPES) {
    if (!problems[type]) continue;
    const { status } = PROBLEM_TYPES[type];
    by_status.set(status, [...(by_status.get(status) ?? []), type]);
  }
  return Object.fromEntries(
    [...by_status].map(([status, types]) => [String(status), {
      description: types.map((type) => `${type}: ${PROBLEM_TYPES[type].title}.`).join(" "),
      headers: headersOf(Object.assign({}, ...types.map((type) => PROBLEM_HEADERS[type] ?? {}))),
      content: { "application/problem+json": { schema: { $ref: "#/components/schemas/Problem" } } },
      "x-problems": Object.fromEntries(types.map((type) => [type, [...problems[type]!]])),
    }]),
  );
}

function operationOf(route: Route, components: Components): JsonObject {
  const parameters = parametersOf(route, components);
  const { body } = route;
  const answers = Object.entries(route.answers).map(([status, answer]) => [
    status,
    {
      description: answer.description,
      headers: headersOf(answer.headers ?? {}),
      ...(answer.content ? { content: components.answer(answer) } : {}),
    },
  ]);
  return {
    operationId: route.operation,
    summary: route.summary,
    ...(isApi(route.path) ? {} : { security: [] }),
    ...(parameters.length > 0 ? { parameters } : {}),
    ...(body
      ? { requestBody: { required: !body.is_optional, content: components.content(body.content, "input") } }
      : {}),
    responses: { ...Object.fromEntries(answers), ...problemAnswers(problemsOf(route)) },
  };
}

/** The problem document's schema, with only the codes that some route answers with. */
function withEmittedCodes(schemas: JsonObject, routes: readonly Route[]): void {
  const emitted = new Set(routes.flatMap((route) => Object.values(problemsOf(route)).flat()));
  emitted.add("not_found");
  const error = schemas.ProblemError as { properties: { code: { enum: string[] } } };
  error.properties.code.enum = error.properties.code.enum.filter((code) => emitted.has(code as never));
}

/** The document of a table; paths are in its order. */
export function openApiDocument(routes: readonly Route[]): OpenApiDocument {
  const components = new Components();
  components.place(problemSchema, "output");
  withEmittedCodes(components.schemas, routes);
  const paths: Record<string, JsonObject> = {};
  for (const route of routes) {
    const item = paths[route.path] ??= {};
    item[route.method.toLowerCase()] = operationOf(route, components);
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "svc",
      version: VERSION,
      description: DESCRIPTION,
      license: { name: "MIT", identifier: "MIT" },
    },
    // The server from which the document is read.
    servers: [{ url: "/" }],
    security: [{ bearer: [] }, {}],
    paths,
    components: {
      schemas: components.schemas,
      headers: {
        "X-Trace-Id": {
          description: "Random id of the request, which the server's log has too.",
          schema: { type: "string", pattern: "^[0-9a-f]{32}$" },
        },
      },
      securitySchemes: { bearer: { type: "http", scheme: "bearer" } },
    },
  };
}

/** Objects with fewer levels around them have a line for each of their entries: operations and schemas have one. */
const LINE_LEVELS = 3;

/** The document's text, as in the stored copy and from `svc-server openapi`: an operation or a schema is a line. */
export function openApiText(routes: readonly Route[]): string {
  return `${linesOf(openApiDocument(routes), 0)}\n`;
}

function linesOf(value: unknown, level: number): string {
  const is_object = typeof value === "object" && value !== null && !Array.isArray(value);
  if (!is_object || level === LINE_LEVELS) return JSON.stringify(value);
  const indent = " ".repeat(level);
  const lines = Object.entries(value).map(([name, entry]) =>
    `${indent} ${JSON.stringify(name)}: ${linesOf(entry, level + 1)}`
  );
  return `{\n${lines.join(",\n")}\n${indent}}`;
}
