/**
 * Checks a call's arguments against the tool's JSON Schema: of built-in tools for the keywords that they use, of others for
 * all of JSON Schema.
 */

import type { Unusable } from "../../core/argument_schema.ts";
import type { JsonSchema } from "../../core/chat.ts";
import { isJsonObject } from "../../core/json.ts";
import { type ArgumentCheck, compileSchema } from "./full_schema.ts";

/** The checks of schemas that are no built-in tool's. */
const FULL_CHECKS = new WeakMap<JsonSchema, ArgumentCheck>();

/**
 * The schema of a tool that is not built in. From now on {@link argumentProblem} checks all of its keywords.
 *
 * @throws {SchemaRefusal} See `argumentSchema`.
 */
export function fullSchema(schema: JsonSchema, unusable?: Unusable): JsonSchema {
  FULL_CHECKS.set(schema, compileSchema(schema, unusable));
  return schema;
}

/** Whether a schema is one that {@link fullSchema} returned. */
export const isFullSchema = (schema: JsonSchema): boolean => FULL_CHECKS.has(schema);

/** What is wrong with arguments, as a text for the model; null when they fit. */
export function argumentProblem(schema: JsonSchema, args: unknown): string | null {
  const check = FULL_CHECKS.get(schema);
  if (!check) return matchesSchema(schema, args) ? null : "bad arguments";
  const place = check(args);
  return place === null ? null : place === "" ? "bad arguments" : `bad arguments at ${place}`;
}

const TYPES: Record<string, (value: unknown) => boolean> = {
  string: (value) => typeof value === "string",
  number: (value) => typeof value === "number",
  integer: (value) => Number.isInteger(value),
  boolean: (value) => typeof value === "boolean",
  null: (value) => value === null,
  array: Array.isArray,
  object: isJsonObject,
};

/**
 * Checks `type`, `enum`, `properties`, `required`, `additionalProperties` and `items` at any depth; other keywords
 * accept everything. Unlike JSON Schema, an object accepts no property outside `properties` unless
 * `additionalProperties` is given and not false: an unknown name is a mistake of the model.
 */
export function matchesSchema(schema: JsonSchema, value: unknown): boolean {
  const types = schema.type === undefined ? [] : [schema.type].flat() as string[];
  if (types.length > 0 && !types.some((type) => TYPES[type]?.(value) ?? true)) return false;
  if (Array.isArray(schema.enum) && !schema.enum.includes(value)) return false;
  if (Array.isArray(value)) {
    const items = schema.items as JsonSchema | undefined;
    return !items || value.every((item) => matchesSchema(items, item));
  }
  if (typeof value === "object" && value !== null) return matchesProperties(schema, value);
  return true;
}

function matchesProperties(schema: JsonSchema, value: object): boolean {
  const properties = (schema.properties ?? {}) as Record<string, JsonSchema>;
  const required = (schema.required ?? []) as string[];
  const { additionalProperties = schema.properties === undefined } = schema;
  if (!required.every((name) => Object.hasOwn(value, name))) return false;
  return Object.entries(value).every(([name, item]) => {
    if (Object.hasOwn(properties, name)) return matchesSchema(properties[name]!, item);
    if (typeof additionalProperties === "boolean") return additionalProperties;
    return matchesSchema(additionalProperties as JsonSchema, item);
  });
}
