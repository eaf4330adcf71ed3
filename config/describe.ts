/** Descriptions of all keys of the run configuration. */

import { z } from "zod";
import type { FieldMeta } from "./sections/fields.ts";
import { LIMITS, type NumericKey, type Range } from "./sections/limits.ts";
import { runConfigSchema } from "./schema.ts";

/** A key of the configuration, as the reference and forms show it. */
export interface ConfigKey {
  /** Dotted; `[]` follows the name of an array of tables, `<name>` is a placeholder for any name. */
  key: string;
  /** The key's table header, such as `agent.environment`. */
  section: string;
  /** Such as `integer, 1 to 1024` or `"drop" or "min_reward"`. */
  type: string;
  /** True when the key has neither a default nor a rule. */
  required: boolean;
  /** The fixed default. */
  default?: unknown;
  /** The rule that derives the default. */
  rule?: string;
  /** A value for a starter configuration. */
  example?: unknown;
  description: string;
  path?: "input" | "output";
}

/** A section with its keys, in the order of the schema. */
export interface ConfigSection {
  /** Such as `agent.environment` or `agent.mcp_servers[]`. */
  section: string;
  description: string;
  keys: ConfigKey[];
}

interface Unwrapped {
  schema: z.ZodType;
  meta: Partial<FieldMeta>;
  required: boolean;
  default?: unknown;
}

/** Removes optional, default and prefault from a schema and returns what they say. */
export function unwrap(schema: z.ZodType): Unwrapped {
  let required = true;
  let fallback: { default?: unknown } = {};
  let meta: Partial<FieldMeta> = {};
  let inner = schema;
  while (true) {
    meta = { ...(inner.meta() as Partial<FieldMeta> | undefined), ...meta };
    if (inner instanceof z.ZodDefault) fallback = { default: inner.def.defaultValue };
    else if (!(inner instanceof z.ZodOptional) && !(inner instanceof z.ZodPrefault)) break;
    required = false;
    inner = inner.unwrap() as z.ZodType;
  }
  return { schema: inner, meta, required, ...fallback };
}

function rangeText(range: Range): string {
  const low = range.above ? `above ${range.min}` : null;
  if (low) return range.below ? `${low}, below ${range.max}` : `${low}, at most ${range.max}`;
  return range.below ? `${range.min} to below ${range.max}` : `${range.min} to ${range.max}`;
}

function typeText(schema: z.ZodType, key: string): string {
  if (schema instanceof z.ZodEnum) {
    return schema.options.map((option) => JSON.stringify(option)).join(" or ");
  }
  if (schema instanceof z.ZodLiteral) return JSON.stringify([...schema.values][0]);
  if (schema instanceof z.ZodNumber) {
    const range: Range | undefined = LIMITS[key as NumericKey];
    const kind = schema.format === "safeint" ? "integer" : "number";
    return range ? `${kind}, ${rangeText(range)}` : kind;
  }
  if (schema instanceof z.ZodBoolean) return "true or false";
  if (schema instanceof z.ZodArray) return `list of ${typeText(schema.element as z.ZodType, key)}`;
  if (schema instanceof z.ZodUnion) {
    return schema.options.map((option) => typeText(option as z.ZodType, key)).join(", or ");
  }
  if (schema instanceof z.ZodString) return "string";
  return "table";
}

function* sectionsOf(schema: z.ZodObject, path: string, description: string): Generator<ConfigSection> {
  const section: ConfigSection = { section: path, description, keys: [] };
  const nested_sections: ConfigSection[] = [];
  for (const [name, field] of Object.entries(schema.shape)) {
    const { schema: inner, meta, ...rest } = unwrap(field as z.ZodType);
    const key = path === "" ? name : `${path}.${name}`;
    const nested = tableWithin(inner);
    if (nested) {
      nested_sections.push(...sectionsOf(nested.schema, key + nested.suffix, meta.description ?? ""));
      if (!(inner instanceof z.ZodUnion)) continue;
    }
    const { description = "", rule, example, path: path_kind } = meta;
    section.keys.push({
      key,
      section: path,
      type: path_kind ? "path" : typeText(inner, key.replaceAll("[]", "")),
      ...rest,
      ...(rule === undefined ? {} : { rule }),
      ...(example === undefined ? {} : { example }),
      ...(path_kind === undefined ? {} : { path: path_kind }),
      description,
    });
  }
  if (section.keys.length > 0) yield section;
  yield* nested_sections;
}

/** The table that a schema is, or that is one of its forms; null when there is none. */
function tableOf(schema: z.ZodType): z.ZodObject | null {
  if (schema instanceof z.ZodObject) return schema;
  const forms = schema instanceof z.ZodUnion ? schema.options : [];
  return forms.find((form) => form instanceof z.ZodObject) ?? null;
}

/** The table in a schema, or in each of its entries, with the suffix of its key; null when there is none. */
export function tableWithin(schema: z.ZodType): { schema: z.ZodObject; suffix: string } | null {
  const table = tableOf(schema);
  if (table) return { schema: table, suffix: "" };
  if (schema instanceof z.ZodArray && schema.element instanceof z.ZodObject) {
    return { schema: schema.element, suffix: "[]" };
  }
  if (schema instanceof z.ZodRecord && schema.valueType instanceof z.ZodObject) {
    return { schema: schema.valueType, suffix: ".<name>" };
  }
  return null;
}

/** All sections with their keys, in the order of the schema. */
export function describeConfig(): ConfigSection[] {
  return [...sectionsOf(runConfigSchema, "", "")];
}

let keys: readonly ConfigKey[] | null = null;

/**
 * All keys, in the order of the schema.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * const rank = describeKeys().find(({ key }) => key === "lora.rank")!;
 * assert.deepEqual([rank.section, rank.required, rank.default], ["lora", false, 8]);
 * ```
 */
export function describeKeys(): readonly ConfigKey[] {
  return keys ??= describeConfig().flatMap((section) => section.keys);
}

/** The schema at `path`; null when the configuration has no such place. */
export function schemaAt(path: readonly (string | number)[]): z.ZodType | null {
  let schema: z.ZodType = runConfigSchema;
  for (const part of path) {
    const { schema: inner } = unwrap(schema), table = tableOf(inner);
    if (inner instanceof z.ZodArray && /^\d+$/.test(String(part))) schema = inner.element as z.ZodType;
    else if (inner instanceof z.ZodRecord) schema = inner.valueType as z.ZodType;
    else if (table && Object.hasOwn(table.shape, part)) schema = table.shape[part] as z.ZodType;
    else return null;
  }
  return schema;
}

/** The names allowed in the table at `path`; null when any name is allowed or there is no such table. */
export function namesAt(path: readonly (string | number)[]): string[] | null {
  const schema = schemaAt(path);
  const table = schema && tableOf(unwrap(schema).schema);
  return table && Object.keys(table.shape);
}

/** The run configuration file as JSON Schema 2020-12. */
export function configJsonSchema(): JsonSchemaTree {
  return z.toJSONSchema(runConfigSchema, {
    target: "draft-2020-12",
    io: "input",
    override: ({ jsonSchema }) => {
      if (typeof jsonSchema.rule === "string") {
        jsonSchema.description = `${jsonSchema.description ?? ""} Left out: ${jsonSchema.rule}.`.trim();
      }
      delete jsonSchema.rule;
      delete jsonSchema.example;
      delete jsonSchema.path;
    },
  }) as JsonSchemaTree;
}

/** A JSON Schema, as far as this program looks into it. */
export interface JsonSchemaTree {
  properties?: Record<string, JsonSchemaTree>;
  items?: JsonSchemaTree;
  required?: string[];
  [keyword: string]: unknown;
}
