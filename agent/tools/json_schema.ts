/** Checks values against JSON Schemas from others: by interpretation, never by generated code, and within limits. */

import { type Schema, type SchemaDraft, Validator } from "@cfworker/json-schema";
import { isJsonObject, isTooDeep } from "../../core/json.ts";

/** The longest schema, as JSON. */
export const MAX_SCHEMA_CHARS = 65_536;

/** The deepest nesting of objects and arrays in a schema. */
export const MAX_SCHEMA_DEPTH = 48;

/** The most schemas that remain when every `$ref` is replaced by what it names. It bounds the time of a check. */
export const MAX_EXPANDED_SCHEMAS = 10_000;

/** Whether a value satisfies a schema. */
export type SchemaCheck = (value: unknown) => boolean;

/** Why a schema cannot be used; completes "the schema …". */
export class SchemaRefusal extends Error {
  constructor(reason: string) {
    super(reason);
    this.name = "SchemaRefusal";
  }
}

/** Keywords whose value is a schema. */
const ONE = new Set([
  "additionalItems",
  "additionalProperties",
  "contains",
  "else",
  "if",
  "items",
  "not",
  "propertyNames",
  "then",
  "unevaluatedItems",
  "unevaluatedProperties",
]);

/** Keywords whose value is a list of schemas. `items` was one in older drafts. */
const LISTS = new Set(["allOf", "anyOf", "items", "oneOf", "prefixItems"]);

/** Keywords whose value is a table of schemas. */
const TABLES = new Set(["$defs", "definitions", "dependentSchemas", "properties"]);

const TYPES = ["array", "boolean", "integer", "null", "number", "object", "string"];

const isNumber = (value: unknown) => typeof value === "number";
const isText = (value: unknown) => typeof value === "string";
const isNames = (value: unknown) => Array.isArray(value) && value.every(isText);
const isTypeName = (value: unknown) => TYPES.some((type) => type === value);
const isAny = () => true;

/** The other keywords that count, and which values they may have. */
const VALUES: Readonly<Record<string, (value: unknown) => boolean>> = {
  $ref: isText,
  const: isAny,
  dependentRequired: (value) => isJsonObject(value) && Object.values(value).every(isNames),
  enum: Array.isArray,
  exclusiveMaximum: isNumber,
  exclusiveMinimum: isNumber,
  maxContains: isNumber,
  maxItems: isNumber,
  maxLength: isNumber,
  maxProperties: isNumber,
  maximum: isNumber,
  minContains: isNumber,
  minItems: isNumber,
  minLength: isNumber,
  minProperties: isNumber,
  minimum: isNumber,
  multipleOf: isNumber,
  required: isNames,
  type: (value) => Array.isArray(value) ? value.every(isTypeName) : isTypeName(value),
  uniqueItems: (value) => typeof value === "boolean",
};

/**
 * The check of a schema of draft 7 or 2020-12. A `$ref` may name a part of the schema itself. Regular expressions
 * (`pattern`, `patternProperties`) and `format` are left to the owner of the schema, because an expression from others
 * could take for ever. Unknown keywords accept everything. The check never throws, and stops no later than the schema's
 * limits times the size of the value.
 *
 * @throws {SchemaRefusal} When the schema is malformed, beyond a limit, or refers to itself.
 */
export function compileSchema(schema: unknown): SchemaCheck {
  if (isTooDeep(schema, MAX_SCHEMA_DEPTH)) {
    throw new SchemaRefusal(`is nested more than ${MAX_SCHEMA_DEPTH} levels deep`);
  }
  const { length } = JSON.stringify(schema) ?? "";
  if (length > MAX_SCHEMA_CHARS) {
    throw new SchemaRefusal(`has ${length} characters, more than ${MAX_SCHEMA_CHARS}`);
  }
  const known = knownKeywords(schema, "#");
  new Expansion(known).check();
  const validator = new Validator(known, draftOf(schema));
  return (value) => {
    try {
      return validator.validate(value).valid;
    } catch {
      return false;
    }
  };
}

function draftOf(schema: unknown): SchemaDraft {
  const named = isJsonObject(schema) && typeof schema.$schema === "string" ? schema.$schema : "";
  return /draft-0[467]/.test(named) ? "7" : "2020-12";
}

/** A copy with the keywords that are checked; `place` is its JSON pointer. */
function knownKeywords(schema: unknown, place: string): Schema | boolean {
  if (typeof schema === "boolean") return schema;
  if (!isJsonObject(schema)) throw new SchemaRefusal(`has no schema at ${place}`);
  const entries = Object.entries(schema).flatMap(([keyword, value]): [string, unknown][] => {
    const at = `${place}/${keyword}`;
    if (LISTS.has(keyword) && Array.isArray(value)) {
      return [[keyword, value.map((item, i) => knownKeywords(item, `${at}/${i}`))]];
    }
    if (ONE.has(keyword)) return [[keyword, knownKeywords(value, at)]];
    if (TABLES.has(keyword)) return [[keyword, tableOf(value, at)]];
    const fits = Object.hasOwn(VALUES, keyword) ? VALUES[keyword]! : null;
    if (fits === null) {
      if (LISTS.has(keyword)) throw new SchemaRefusal(`has no list at ${at}`);
      return [];
    }
    if (!fits(value)) throw new SchemaRefusal(`has an unusable value at ${at}`);
    return [[keyword, value]];
  });
  const copy = Object.fromEntries(entries) as Schema;
  if (Object.hasOwn(schema, "patternProperties")) {
    // Without the patterns it is not known which properties are additional.
    delete copy.additionalProperties;
    delete copy.unevaluatedProperties;
  }
  return copy;
}

function tableOf(value: unknown, at: string): Record<string, Schema | boolean> {
  if (!isJsonObject(value)) throw new SchemaRefusal(`has no table at ${at}`);
  return Object.fromEntries(
    Object.entries(value).map(([name, item]) => [name, knownKeywords(item, `${at}/${name}`)]),
  );
}

/** Counts the schemas that remain when each `$ref` is replaced by what it names. */
class Expansion {
  readonly #root: Schema | boolean;
  /** By schema; null while it is being counted. */
  readonly #counts = new Map<Schema, number | null>();

  constructor(root: Schema | boolean) {
    this.#root = root;
  }

  /** @throws {SchemaRefusal} */
  check(): void {
    const count = this.#count(this.#root);
    if (count <= MAX_EXPANDED_SCHEMAS) return;
    throw new SchemaRefusal(`has more than ${MAX_EXPANDED_SCHEMAS} parts when its $refs are followed`);
  }

  #count(schema: Schema | boolean): number {
    if (typeof schema === "boolean") return 1;
    const known = this.#counts.get(schema);
    if (known === null) throw new SchemaRefusal("refers to itself");
    if (known !== undefined) return known;
    this.#counts.set(schema, null);
    let count = 1;
    for (const part of this.#parts(schema)) count += this.#count(part);
    this.#counts.set(schema, count);
    return count;
  }

  *#parts(schema: Schema): Generator<Schema | boolean> {
    for (const [keyword, value] of Object.entries(schema)) {
      if (keyword === "$ref") yield this.#target(value);
      else if (keyword === "$defs" || keyword === "definitions") continue;
      else if (LISTS.has(keyword) && Array.isArray(value)) yield* value;
      else if (ONE.has(keyword)) yield value;
      else if (TABLES.has(keyword)) yield* Object.values(value as Record<string, Schema>);
    }
  }

  #target(ref: string): Schema | boolean {
    const refuse = (reason: string) =>
      new SchemaRefusal(`has the $ref ${JSON.stringify(ref)}, which ${reason}`);
    if (ref !== "#" && !ref.startsWith("#/")) throw refuse("is not in the schema itself");
    let at: unknown = this.#root;
    for (const part of ref.split("/").slice(1)) {
      const name = decoded(part).replaceAll("~1", "/").replaceAll("~0", "~");
      if (typeof at !== "object" || at === null || !Object.hasOwn(at, name)) throw refuse("names nothing");
      at = (at as Record<string, unknown>)[name];
    }
    if (typeof at === "boolean" || isJsonObject(at)) return at as Schema | boolean;
    throw refuse("names no schema");
  }
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
