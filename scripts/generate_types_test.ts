import assert from "node:assert/strict";
import type { Events, InsufficientMemory, Operations, Problem, ProblemError, Run } from "../api/types.ts";
import { typeOf, typesText } from "./generate_types.ts";

Deno.test("types of schemas, by hand", () => {
  const cases: [schema: object, type: string][] = [
    [{}, "unknown"],
    [{ not: {} }, "never"],
    [{ $ref: "#/components/schemas/Run" }, "Run"],
    [{ const: "a" }, '"a"'],
    [{ type: "string", enum: ["a", 'b"'] }, '"a" | "b\\""'],
    [{ type: ["string", "null"] }, "string | null"],
    [{ type: "integer", minimum: 0 }, "number"],
    [{ type: "string", format: "binary" }, "Blob"],
    [{ type: "string", pattern: "^[a-z]+$" }, "string"],
    [{ type: "string", pattern: "\\/(not-found|internal)$" }, "`${string}/not-found` | `${string}/internal`"],
    [{ type: "array", items: { type: "number" } }, "number[]"],
    [{ type: "array", items: { anyOf: [{ type: "number" }, { type: "null" }] } }, "Array<number | null>"],
    [{ anyOf: [{ type: "string" }, { type: "string" }] }, "string"],
    [{ type: "object" }, "Record<string, unknown>"],
    [{ type: "object", properties: {}, additionalProperties: false }, "Record<string, never>"],
    [{ type: "object", additionalProperties: { type: "number" } }, "{ [name: string]: number }"],
  ];
  for (const [schema, type] of cases) assert.equal(typeOf(schema), type);
  const inner = { type: "object", properties: { "a-b": { type: "null", description: "Ends */ here." } } };
  assert.equal(
    typeOf({ type: "object", properties: { inner, n: { type: "number" } }, required: ["n"] }),
    '{\n  inner?: {\n    /** Ends * / here. */\n    "a-b"?: null;\n  };\n  n: number;\n}',
  );
});

Deno.test("an operation has its parameters, bodies, answers, events and problems", () => {
  const json = (schema: object) => ({ "application/json": { schema } });
  const event = (name: string | null, schema: object) => ({
    properties: { ...(name && { event: { const: name } }), data: { type: "string", contentSchema: schema } },
  });
  const forms = [event("gone", { type: "null" }), event(null, { type: "number" })];
  const stream = { schema: { contentSchema: { items: { anyOf: forms } } } };
  const text = typesText({
    components: { schemas: { Name: { type: "string", description: "Its name." } } },
    paths: {
      "/v1/things/{id}": {
        post: {
          ...{ operationId: "make", summary: "Makes it." },
          parameters: [
            { name: "id", in: "path", required: true, schema: { type: "string" } },
            { name: "If-Match", in: "header", required: false, schema: { type: "string" } },
          ],
          requestBody: { required: false, content: json({ type: "boolean" }) },
          responses: {
            "200": { content: { "text/event-stream": { schema: { type: "string", ...stream.schema } } } },
            "204": {},
            "404": { "x-problems": { "not-found": [] }, content: json({}) },
          },
        },
      },
    },
  });
  assert.equal(
    text.slice(text.indexOf("*/") + 4),
    `/** Its name. */
export type Name = string;

/** The operations by name. Problems are the kinds at the end of their \`type\`. */
export interface Operations {
  /** Makes it. */
  make: {
    method: "POST";
    path: "/v1/things/{id}";
    params: {
      id: string;
    };
    query: Record<string, never>;
    headers: {
      "If-Match"?: string;
    };
    body?: {
      "application/json": boolean;
    };
    answers: {
      200: {
        "text/event-stream": string;
      };
      204: null;
    };
    problems: "not-found";
  };
}

/** The data of the events of each stream by name; an event without a name is a \`message\`. */
export interface Events {
  make: {
    gone: null;
    message: number;
  };
}
`,
  );
});

/** Whether two types are the same. */
type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends (<T>() => T extends B ? 1 : 2) ? true : false;

type States =
  | ("queued" | "starting" | "running" | "pausing" | "paused" | "stopping" | "completed" | "cancelled")
  | ("failed" | "interrupted");

type Kinds =
  | ("invalid-request" | "server-declared" | "unknown-catalog-id" | "insufficient-memory" | "unauthorized")
  | ("forbidden-path" | "not-found" | "conflict" | "payload-too-large" | "unsupported-media-type")
  | ("method-not-allowed" | "device-busy" | "timeout" | "not-implemented" | "internal");

/** True where the types of the interface are as the contract has them; the type checker reads this. */
const AS_IN_THE_CONTRACT: [
  Same<Run["state"], States>,
  Same<Problem["type"], `${string}/${Kinds}`>,
  Same<Problem["meta"], InsufficientMemory | Record<string, never>>,
  Same<ProblemError["code"] & ("not_found" | "none"), "not_found">,
  Same<Operations["get_run"]["answers"][200]["application/json"], Run>,
  Same<Operations["list_runs"]["query"]["state"], States | undefined>,
  Same<Operations["create_run"]["headers"], { "Idempotency-Key"?: string }>,
  Same<Operations["get_run"]["problems"], "unauthorized" | "internal" | "not-found" | "invalid-request">,
  Same<Events["stream_run_events"]["state"]["state"], States>,
  Same<keyof Events["stream_events"], "created" | "state" | "deleted" | "gap">,
  Same<NonNullable<Run["plan"]>["memory"]["vram_budget_bytes"], number | null>,
] = [true, true, true, true, true, true, true, true, true, true, true];

Deno.test("the stored types are those of the stored document, and closed where the contract closes them", async () => {
  const read = (name: string) => Deno.readTextFile(new URL(`../api/${name}`, import.meta.url));
  assert.equal(await read("types.ts"), typesText(JSON.parse(await read("openapi.json"))));
  assert.ok(AS_IN_THE_CONTRACT.every((is_same) => is_same));
});
