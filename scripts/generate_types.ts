/**
 * Writes api/types.ts from api/openapi.json: the types of the interface and of other clients. With `--check` it writes
 * nothing and exits with status 1 when the committed file differs.
 */

import { fileURLToPath } from "node:url";
import { writeFileAtomic } from "../core/files.ts";

const DOCUMENT = fileURLToPath(new URL("../api/openapi.json", import.meta.url));
const TYPES = fileURLToPath(new URL("../api/types.ts", import.meta.url));

// deno-lint-ignore no-explicit-any -- schemas and documents of many forms
type Json = any;

const INTRODUCTION = `/**
 * The types of the HTTP API. Written by scripts/generate_types.ts from api/openapi.json: change a route's entry, then run
 * it again.
 */
`;

/** A pattern of texts that end in one of some words. */
const ENDS_IN = /^([^\\^$.*+?()[\]{}|]*)\(([\w|-]+)\)\$$/;

const literal = (value: unknown) => JSON.stringify(value);

const named = (name: string) => /^([A-Za-z_$][\w$]*|\d+)$/.test(name) ? name : literal(name);

/** The comment before a declaration; empty without a description. */
function comment(description: unknown, indent: string): string {
  if (typeof description !== "string") return "";
  const text = description.replaceAll("*/", "* /").replaceAll(/\s*\n\s*/g, `\n${indent} * `);
  return text.includes("\n")
    ? `${indent}/**\n${indent} * ${text}\n${indent} */\n`
    : `${indent}/** ${text} */\n`;
}

function union(types: readonly string[]): string {
  return [...new Set(types)].join(" | ") || "never";
}

function listOf(type: string): string {
  return /^[\w.]+$/.test(type) ? `${type}[]` : `Array<${type}>`;
}

function textType({ pattern, format }: Json): string {
  if (format === "binary") return "Blob";
  const [, start, words] = ENDS_IN.exec(pattern?.replaceAll("\\/", "/") ?? "") ?? [];
  if (words === undefined) return "string";
  return union(words.split("|").map((word) => `\`\${string}${start}${word}\``));
}

/** The fields of an object type, one on a line, between braces. */
function fields(entries: readonly Field[], indent: string): string {
  const inner = `${indent}  `;
  const lines = entries.map(({ name, type, optional, description }) =>
    `${comment(description, inner)}${inner}${named(name)}${optional ? "?" : ""}: ${type(inner)};\n`
  );
  return entries.length === 0 ? "Record<string, never>" : `{\n${lines.join("")}${indent}}`;
}

interface Field {
  name: string;
  type: (indent: string) => string;
  optional?: boolean;
  description?: unknown;
}

function objectType(schema: Json, indent: string): string {
  const { properties, required = [], additionalProperties: others } = schema;
  if (!properties || Object.keys(properties).length === 0) {
    if (others === false) return "Record<string, never>";
    if (!others || others === true) return "Record<string, unknown>";
    // A type may contain itself in this form, but not in a Record.
    return `{ [name: string]: ${typeOf(others, indent)} }`;
  }
  const own = Object.entries(properties as Record<string, Json>).map(([name, inner]): Field => ({
    name,
    type: (indent) => typeOf(inner, indent),
    optional: !required.includes(name),
    description: inner.description,
  }));
  return fields(own, indent) + (others === undefined || others === false ? "" : " & Record<string, unknown>");
}

/** The type of a schema. @param indent That of the line on which it begins. */
export function typeOf(schema: Json, indent = ""): string {
  const { $ref, type, enum: values, anyOf, oneOf, items, not } = schema;
  if ($ref) return $ref.split("/").at(-1);
  if ("const" in schema) return literal(schema.const);
  if (values) return union(values.map(literal));
  if (anyOf ?? oneOf) return union((anyOf ?? oneOf).map((form: Json) => typeOf(form, indent)));
  if (Array.isArray(type)) return union(type.map((one) => typeOf({ ...schema, type: one }, indent)));
  if (not) return "never";
  if (type === "string") return textType(schema);
  if (type === "integer" || type === "number") return "number";
  if (type === "boolean" || type === "null") return type;
  if (type === "array") return listOf(items ? typeOf(items, indent) : "unknown");
  return type === "object" ? objectType(schema, indent) : "unknown";
}

function component(name: string, schema: Json): string {
  const type = typeOf(schema), { properties = {}, additionalProperties: others = false } = schema;
  // An interface has fields of its own and nothing else.
  const is_interface = Object.keys(properties).length > 0 && others === false;
  const declaration = is_interface
    ? `export interface ${name} ${type}\n`
    : `export type ${name} = ${type};\n`;
  return comment(schema.description, "") + declaration;
}

/** The bodies of a request or an answer by media type; null without one. */
const contentType = (content: Json) => (indent: string) => {
  const bodies = Object.entries((content ?? {}) as Record<string, Json>);
  if (bodies.length === 0) return "null";
  return fields(
    bodies.map(([name, { schema }]) => ({ name, type: (indent) => typeOf(schema, indent) })),
    indent,
  );
};

const parametersOf = (parameters: Json[]) => (indent: string) =>
  fields(
    parameters.map(({ name, required, schema, description }) => ({
      ...{ name, optional: !required, description },
      type: (indent: string) => typeOf(schema, indent),
    })),
    indent,
  );

/** The data of the events of an operation by name; null for one that is no stream. */
function eventsType({ responses }: Json): ((indent: string) => string) | null {
  const stream = Object.values(responses as Record<string, Json>).find(({ content }) =>
    content?.["text/event-stream"]
  );
  const items = stream?.content["text/event-stream"].schema.contentSchema.items;
  const forms: Json[] | undefined = items && (items.anyOf ?? [items]);
  return forms
    ? (indent) =>
      fields(
        forms.map(({ properties: { event, data } }) => ({
          name: event?.const ?? "message",
          type: (indent: string) => typeOf(data.contentSchema, indent),
        })),
        indent,
      )
    : null;
}

function operationType(operation: Json, { method, path }: { method: string; path: string }) {
  const { parameters = [], requestBody, responses } = operation;
  const all = Object.entries(responses as Record<string, Json>);
  const answers = all.filter(([, answer]) => !answer["x-problems"]);
  const problems = all.flatMap(([, answer]) => Object.keys(answer["x-problems"] ?? {}));
  const of = (place: string) => parametersOf(parameters.filter((parameter: Json) => parameter.in === place));
  return (indent: string) =>
    fields([
      { name: "method", type: () => literal(method.toUpperCase()) },
      { name: "path", type: () => literal(path) },
      { name: "params", type: of("path") },
      { name: "query", type: of("query") },
      { name: "headers", type: of("header") },
      { name: "body", type: contentType(requestBody?.content), optional: requestBody?.required === false },
      {
        name: "answers",
        type: (indent) =>
          fields(answers.map(([name, { content }]) => ({ name, type: contentType(content) })), indent),
      },
      { name: "problems", type: () => union(problems.map(literal)) },
    ], indent);
}

/** The file for a document. */
export function typesText({ components, paths }: Json): string {
  const all = Object.entries(paths as Record<string, Json>).flatMap(([path, item]) =>
    Object.entries(item as Record<string, Json>).map(([method, operation]) => ({ path, method, operation }))
  );
  const operations = all.map(({ path, method, operation }): Field => ({
    ...{ name: operation.operationId, description: operation.summary },
    type: operationType(operation, { method, path }),
  }));
  const streams = all.flatMap(({ operation }): Field[] => {
    const type = eventsType(operation);
    return type ? [{ name: operation.operationId, type }] : [];
  });
  const schemas = Object.entries(components.schemas as Record<string, Json>);
  return [
    INTRODUCTION,
    ...schemas.map(([name, schema]) => component(name, schema)),
    "/** The operations by name. Problems are the kinds at the end of their `type`. */\n" +
    `export interface Operations ${fields(operations, "")}\n`,
    "/** The data of the events of each stream by name; an event without a name is a `message`. */\n" +
    `export interface Events ${fields(streams, "")}\n`,
  ].join("\n");
}

if (import.meta.main) {
  const text = typesText(JSON.parse(await Deno.readTextFile(DOCUMENT)));
  if (!Deno.args.includes("--check")) await writeFileAtomic(TYPES, text);
  else if (await Deno.readTextFile(TYPES).catch(() => "") !== text) {
    console.error(
      `${TYPES} is not what api/openapi.json says: run \`deno run -A scripts/generate_types.ts\``,
    );
    Deno.exit(1);
  }
}
