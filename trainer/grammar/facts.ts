/** The combined requirements of all subschemas that apply to one place of a value. */

import { isJsonObject } from "../../core/json.ts";
import { schemaError } from "./limits.ts";
import { NUMBER_FORMATS, STRING_FORMATS } from "./formats.ts";
import type { NumberRules } from "./numbers.ts";
import type { SchemaObject, Subschema } from "./schema_document.ts";

export const TYPES = ["null", "boolean", "number", "string", "array", "object"] as const;
export type TypeName = typeof TYPES[number];

/** A keyword that cannot be enforced. It matters when a value of the type is possible. */
interface Refusal {
  type: TypeName;
  pointer: string;
  keyword: string;
  reason: string;
}

/** Assertions that no mask of ours enforces, with the type of value that they are about. */
const REFUSED: Readonly<Record<string, TypeName>> = {
  contains: "array",
  minContains: "array",
  maxContains: "array",
  unevaluatedItems: "array",
  dependentSchemas: "object",
};
const ARRAY_KEYWORDS = ["items", "prefixItems", "additionalItems", "minItems", "maxItems"];
const OBJECT_KEYWORDS = [
  ...["properties", "patternProperties", "additionalProperties", "unevaluatedProperties", "propertyNames"],
  ...["required", "minProperties", "maxProperties"],
];

/** The conjunction of the keywords of several places. */
export class Facts {
  types: ReadonlySet<TypeName> = new Set(TYPES);
  number: NumberRules = {
    ...{ is_integer: false, min: -Infinity, max: Infinity, excludes_min: false, excludes_max: false },
    divisors: [],
  };
  length = { min: 0, max: Infinity };
  items = { min: 0, max: Infinity };
  properties = { min: 0, max: Infinity };
  patterns: readonly { place: Subschema; keyword: string; pattern: string }[] = [];
  /** The only values that are left; null: all. */
  values: readonly unknown[] | null = null;
  excluded: readonly unknown[] = [];
  required: readonly string[] = [];
  forbidden: readonly string[] = [];
  /** Where items are unique; null: they need not be. */
  unique: Subschema | null = null;
  /** Places with keywords of arrays, and of objects. */
  array_places: readonly Subschema[] = [];
  object_places: readonly Subschema[] = [];
  refusals: readonly Refusal[] = [];

  clone(): Facts {
    return Object.assign(new Facts(), this);
  }

  /** @throws {ServiceError} For a keyword of a wrong form. */
  add(place: Subschema, schema: SchemaObject): void {
    this.#addTypes(place, schema);
    this.#addValues(place, schema);
    this.#addNumber(place, schema);
    this.#addString(place, schema);
    const has = (keywords: readonly string[]) => keywords.some((keyword) => Object.hasOwn(schema, keyword));
    if (has(ARRAY_KEYWORDS)) this.array_places = [...this.array_places, place];
    if (has(OBJECT_KEYWORDS)) this.object_places = [...this.object_places, place];
    this.items = narrowed(this.items, range(place, schema, "Items"));
    this.properties = narrowed(this.properties, range(place, schema, "Properties"));
    if (schema.uniqueItems === true) this.unique ??= place;
    this.require(names(place, schema, "required"));
    for (const [keyword, type] of Object.entries(REFUSED)) {
      if (Object.hasOwn(schema, keyword)) {
        this.refuse(type, place, { keyword, reason: `${keyword} cannot be enforced` });
      }
    }
  }

  require(keys: readonly string[]): void {
    this.required = [...new Set([...this.required, ...keys])];
  }

  refuse(type: TypeName, place: Subschema, { keyword, reason }: { keyword: string; reason: string }): void {
    this.refusals = [...this.refusals, { type, pointer: place.pointer, keyword, reason }];
  }

  /** @throws {ServiceError} When a keyword about values of this type cannot be enforced. */
  expectEnforced(type: TypeName): void {
    const found = this.refusals.find((refusal) => refusal.type === type);
    if (found) throw schemaError(found.pointer, found.keyword, found.reason);
  }

  #addTypes(place: Subschema, schema: SchemaObject): void {
    if (!Object.hasOwn(schema, "type")) return;
    const listed = Array.isArray(schema.type) ? schema.type : [schema.type];
    for (const type of listed) {
      if (type === "integer" || (TYPES as readonly unknown[]).includes(type)) continue;
      throw schemaError(place.pointer, "type", `${JSON.stringify(type)} is no type`);
    }
    const allowed = new Set(listed.map((type) => type === "integer" ? "number" : type));
    this.types = new Set([...this.types].filter((type) => allowed.has(type)));
    if (listed.includes("integer") && !listed.includes("number")) {
      this.number = { ...this.number, is_integer: true };
    }
  }

  #addValues(place: Subschema, schema: SchemaObject): void {
    const limit = (values: readonly unknown[]) => {
      const keys = new Set(values.map(canonical));
      this.values = (this.values ?? values).filter((value) => keys.has(canonical(value)));
    };
    if (Object.hasOwn(schema, "const")) limit([schema.const]);
    if (!Object.hasOwn(schema, "enum")) return;
    if (!Array.isArray(schema.enum)) throw schemaError(place.pointer, "enum", "it must be a list");
    limit(schema.enum);
  }

  #addNumber(place: Subschema, schema: SchemaObject): void {
    const number = (keyword: string) => {
      const value = schema[keyword];
      if (value === undefined) return undefined;
      if (typeof value === "number") return value;
      throw schemaError(place.pointer, keyword, "it must be a number");
    };
    const raise = (min: number | undefined, excludes_min: boolean) => {
      const { number: rules } = this;
      if (min === undefined || min < rules.min) return;
      this.number = {
        ...rules,
        min,
        excludes_min: excludes_min || (min === rules.min && rules.excludes_min),
      };
    };
    const lower = (max: number | undefined, excludes_max: boolean) => {
      const { number: rules } = this;
      if (max === undefined || max > rules.max) return;
      this.number = {
        ...rules,
        max,
        excludes_max: excludes_max || (max === rules.max && rules.excludes_max),
      };
    };
    // Up to draft 4, true makes the neighbouring bound exclusive.
    const is_flag = (keyword: string) => typeof schema[keyword] === "boolean";
    raise(number("minimum"), schema.exclusiveMinimum === true);
    lower(number("maximum"), schema.exclusiveMaximum === true);
    if (!is_flag("exclusiveMinimum")) raise(number("exclusiveMinimum"), true);
    if (!is_flag("exclusiveMaximum")) lower(number("exclusiveMaximum"), true);
    const divisor = number("multipleOf");
    if (divisor === undefined) return;
    if (Number.isInteger(divisor) && divisor >= 1 && divisor <= 10_000) {
      const divisors = divisor === 1 ? this.number.divisors : [...this.number.divisors, divisor];
      this.number = { ...this.number, is_integer: true, divisors };
    } else {
      const reason = "it is enforced for whole numbers from 1 to 10000";
      this.refuse("number", place, { keyword: "multipleOf", reason });
    }
  }

  #addString(place: Subschema, schema: SchemaObject): void {
    this.length = narrowed(this.length, range(place, schema, "Length"));
    const { pattern, format } = schema;
    const addPattern = (keyword: string, text: string) =>
      this.patterns = [...this.patterns, { place, keyword, pattern: text }];
    if (pattern !== undefined) {
      if (typeof pattern !== "string") throw schemaError(place.pointer, "pattern", "it must be a text");
      addPattern("pattern", pattern);
    }
    if (format === undefined) return;
    if (typeof format !== "string") throw schemaError(place.pointer, "format", "it must be a text");
    if (Object.hasOwn(NUMBER_FORMATS, format)) {
      const [min, max] = NUMBER_FORMATS[format] ?? [];
      if (min === undefined || max === undefined) return;
      this.#addNumber(place, { minimum: min, maximum: max });
      this.number = { ...this.number, is_integer: true };
    } else if (Object.hasOwn(STRING_FORMATS, format)) addPattern("format", STRING_FORMATS[format]!);
    else {
      const reason = `the format ${format} cannot be enforced; these can: ${
        Object.keys(STRING_FORMATS).join(", ")
      }`;
      this.refuse("string", place, { keyword: "format", reason });
    }
  }
}

/** A text that is equal for equal values, whatever the order of keys. */
export function canonical(value: unknown): string {
  return JSON.stringify(
    value,
    (_, item) =>
      isJsonObject(item) ? Object.fromEntries(Object.entries(item).sort(([a], [b]) => a < b ? -1 : 1)) : item,
  );
}

/** A keyword's list of names. */
export function names(place: Subschema, schema: SchemaObject, keyword: string): readonly string[] {
  const list = schema[keyword] ?? [];
  if (Array.isArray(list) && list.every((name) => typeof name === "string")) return list;
  throw schemaError(place.pointer, keyword, "it must be a list of names");
}

interface Range {
  min: number;
  max: number;
}

const narrowed = (a: Range, b: Range): Range => ({
  min: Math.max(a.min, b.min),
  max: Math.min(a.max, b.max),
});

/** The keywords `min<Name>` and `max<Name>`. */
function range(place: Subschema, schema: SchemaObject, name: string): Range {
  const count = (keyword: string, fallback: number) => {
    const value = schema[keyword] ?? fallback;
    if (value === Infinity || (typeof value === "number" && Number.isInteger(value) && value >= 0)) {
      return value;
    }
    throw schemaError(place.pointer, keyword, "it must be a whole number from 0");
  };
  return { min: count(`min${name}`, 0), max: count(`max${name}`, Infinity) };
}
