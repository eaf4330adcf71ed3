/** Values of a JSON schema, and values that are almost so, for fast-check. */

import fc from "fast-check";

/** A JSON schema as zod writes it. */
export interface ZodJsonSchema {
  type?: string | string[];
  properties?: Record<string, ZodJsonSchema>;
  required?: string[];
  additionalProperties?: ZodJsonSchema | boolean;
  propertyNames?: ZodJsonSchema;
  items?: ZodJsonSchema;
  anyOf?: ZodJsonSchema[];
  oneOf?: ZodJsonSchema[];
  not?: ZodJsonSchema;
  enum?: unknown[];
  const?: unknown;
  $ref?: string;
  $defs?: Record<string, ZodJsonSchema>;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  minLength?: number;
  maxLength?: number;
  minItems?: number;
  maxItems?: number;
  pattern?: string;
  format?: string;
}

/** Where values of strings and names come from besides any text, whether the schema allows them or not. */
export interface Pools {
  texts: readonly string[];
  /** Names for objects that take any. */
  names: readonly string[];
}

/** Nested values end here. */
const MAX_DEPTH = 4;

/** The most entries of lists, and the most characters of texts, that a schema does not ask more of. */
const MAX_ITEMS = 3, MAX_CHARS = 16;

/** Names that objects have of themselves, or that no schema has. */
const ODD_NAMES = ["__proto__", "constructor", "toString", "", "a/b~c", "\0", "\ud800", "x".repeat(300)];

/** Any JSON, half surrogate pairs included. */
export const anyJson: fc.Arbitrary<unknown> = fc.oneof(
  { weight: 2, arbitrary: fc.jsonValue({ maxDepth: 3 }) },
  fc.constantFrom(null, "", [], {}, -1, 0, 1e308, 2 ** 53, -0.5, true, "\ud800", "\0", [[[]]]),
);

/** Texts of the formats that schemas name. */
const FORMATS: Readonly<Record<string, fc.Arbitrary<string>>> = {
  "date-time": fc.date({ noInvalidDate: true, min: new Date(0), max: new Date("9999-01-01") })
    .map((date) => date.toISOString()),
  "uri-reference": fc.webPath().map((path) => `/v1${path}`),
};

/** What a reference such as `#/$defs/Run` names in a document. */
export function referenced<S>($ref: string, root: unknown): S {
  const names = $ref.slice(2).split("/").map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
  // deno-lint-ignore no-explicit-any -- a place in a document of many forms
  return names.reduce((at: any, name) => at[name], root) as S;
}

/** Whether no value satisfies the schema. */
const isNever = ({ not }: ZodJsonSchema) => not !== undefined && Object.keys(not).length === 0;

class SchemaValues {
  /** @param root The document in which references are places. @param pools Null: only values that the schema allows. */
  constructor(readonly root: unknown, readonly pools: Pools | null) {}

  of(schema: ZodJsonSchema, depth = 0): fc.Arbitrary<unknown> {
    if (schema.$ref) return this.of(referenced(schema.$ref, this.root), depth + 1);
    const forms = schema.anyOf ?? schema.oneOf;
    if (forms) return fc.oneof(...forms.map((one) => this.of(one, depth + 1)));
    if (schema.enum) return fc.constantFrom(...schema.enum);
    if ("const" in schema) return fc.constant(schema.const);
    const types = [schema.type ?? []].flat();
    return types.length === 0 ? anyJson : fc.oneof(...types.map((type) => this.#typed(type, schema, depth)));
  }

  #typed(type: string, schema: ZodJsonSchema, depth: number): fc.Arbitrary<unknown> {
    switch (type) {
      case "object":
        return this.#object(schema, depth);
      case "array":
        return this.#array(schema, depth);
      case "string":
        return this.#text(schema);
      case "boolean":
        return fc.boolean();
      case "null":
        return fc.constant(null);
      default:
        return this.#number(type, schema);
    }
  }

  #array({ items = {}, minItems = 0, maxItems = MAX_ITEMS }: ZodJsonSchema, depth: number) {
    if (isNever(items) || (depth > MAX_DEPTH && minItems === 0)) return fc.constant([]);
    const maxLength = Math.max(minItems, Math.min(maxItems, MAX_ITEMS));
    return fc.array(this.of(items, depth + 1), { minLength: minItems, maxLength });
  }

  #object({ properties, required = [], additionalProperties }: ZodJsonSchema, depth: number) {
    if (properties && Object.keys(properties).length > 0) {
      const fields = Object.entries(properties).map(([name, field]) => {
        const value = this.of(field, depth + 1).map((inner): [string, unknown][] => [[name, inner]]);
        // With few fields more objects are accepted, and their values are looked at further on.
        const absent = { weight: 3, arbitrary: fc.constant<[string, unknown][]>([]) };
        return required.includes(name) ? value : fc.oneof(absent, { weight: 1, arbitrary: value });
      });
      return fc.tuple(...fields).map((entries) => Object.fromEntries(entries.flat()));
    }
    if (depth > MAX_DEPTH || additionalProperties === false) return fc.constant({});
    const value = typeof additionalProperties === "object"
      ? this.of(additionalProperties, depth + 1)
      : anyJson;
    const name = fc.oneof(
      fc.constantFrom("x", ...this.pools?.names ?? []),
      fc.string({ minLength: 1, maxLength: 8 }),
    );
    return fc.dictionary(name, value, { maxKeys: 2 });
  }

  #text({ minLength = 0, maxLength = MAX_CHARS, pattern, format }: ZodJsonSchema): fc.Arbitrary<unknown> {
    const chars = { minLength, maxLength: Math.max(minLength, Math.min(maxLength, MAX_CHARS)) };
    // A pattern beside it is of the end of a URI, or says the same as the format.
    const form = format === "uri" ? `^urn:[a-z]{1,9}${pattern}` : pattern;
    const own = FORMATS[format ?? ""] ?? (form ? fc.stringMatching(new RegExp(form)) : fc.string(chars));
    return this.pools ? fc.oneof(fc.constantFrom("a", ...this.pools.texts), own) : own;
  }

  #number(type: string, { minimum, maximum = 1e6, exclusiveMinimum }: ZodJsonSchema): fc.Arbitrary<unknown> {
    const min = minimum ?? exclusiveMinimum ?? -1e6, max = Math.max(min, maximum);
    return type === "integer"
      ? fc.integer({ min: Math.ceil(min), max: Math.floor(max) })
      : fc.double({ min, max, minExcluded: minimum === undefined, noNaN: true });
  }
}
/** A change of a value at one place. */
const change = fc.record({
  place: fc.nat(),
  how: fc.constantFrom("replace", "remove", "add"),
  name: fc.oneof(fc.constantFrom(...ODD_NAMES), fc.string({ maxLength: 4 })),
  value: anyJson,
});

type Change = typeof change extends fc.Arbitrary<infer T> ? T : never;

/** The number of places in a value: itself, and all places in its fields and items. */
function places(value: unknown): number {
  if (typeof value !== "object" || value === null) return 1;
  return Object.values(value).reduce((sum: number, inner) => sum + places(inner), 1);
}

/** The value with a change at its `place`th place, counted in depth. */
function changed(value: unknown, given: Change, place = given.place % places(value)): unknown {
  const entries = typeof value === "object" && value !== null ? Object.entries(value) : null;
  const back = (kept: [string, unknown][]) =>
    Array.isArray(value) ? kept.map(([, inner]) => inner) : Object.fromEntries(kept);
  if (place === 0) {
    if (given.how === "replace" || !entries) return given.value;
    return back(given.how === "remove" ? entries.slice(1) : [...entries, [given.name, given.value]]);
  }
  let at = 1;
  return back(entries!.map(([name, inner]) => {
    const inside = place - at, count = places(inner);
    at += count;
    return [name, inside >= 0 && inside < count ? changed(inner, given, inside) : inner];
  }));
}

function withChanges(
  values: fc.Arbitrary<unknown>,
  changes: fc.Arbitrary<readonly Change[]>,
): fc.Arbitrary<unknown> {
  return fc.tuple(values, changes).map(([value, changes]) =>
    changes.reduce((before: unknown, one) => changed(before, one), value)
  );
}

/** Values of a schema, half of them with one to three changes. */
export function almostValid(schema: ZodJsonSchema, pools: Pools): fc.Arbitrary<unknown> {
  const changes = fc.oneof(fc.constant([]), fc.array(change, { minLength: 1, maxLength: 3 }));
  return withChanges(new SchemaValues(schema, pools).of(schema), changes);
}

/** Values that a schema allows. @param root The document in which its references are places. */
export function validValues(schema: ZodJsonSchema, root: unknown): fc.Arbitrary<unknown> {
  return new SchemaValues(root, null).of(schema);
}

/** Such values with a change, as JSON. A schema may allow them all the same. */
export function changedValues(schema: ZodJsonSchema, root: unknown): fc.Arbitrary<unknown> {
  const values = withChanges(validValues(schema, root), fc.array(change, { minLength: 1, maxLength: 2 }));
  return values.map((value) => JSON.parse(JSON.stringify(value)));
}
