/** Values of a JSON schema, and values that are almost so, for fast-check. */

import fc from "fast-check";

/** A JSON schema as zod writes it. */
export interface ZodJsonSchema {
  type?: string;
  properties?: Record<string, ZodJsonSchema>;
  required?: string[];
  additionalProperties?: ZodJsonSchema | boolean;
  propertyNames?: ZodJsonSchema;
  items?: ZodJsonSchema;
  anyOf?: ZodJsonSchema[];
  enum?: unknown[];
  const?: unknown;
  $ref?: string;
  $defs?: Record<string, ZodJsonSchema>;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  maxLength?: number;
  pattern?: string;
}

/** Where values of strings and names come from besides any text. */
export interface Pools {
  texts: readonly string[];
  /** Names for objects that take any. */
  names: readonly string[];
}

/** Nested values end here. */
const MAX_DEPTH = 4;

/** Names that objects have of themselves, or that no schema has. */
const ODD_NAMES = ["__proto__", "constructor", "toString", "", "a/b~c", "\0", "\ud800", "x".repeat(300)];

/** Any JSON, half surrogate pairs included. */
export const anyJson: fc.Arbitrary<unknown> = fc.oneof(
  { weight: 2, arbitrary: fc.jsonValue({ maxDepth: 3 }) },
  fc.constantFrom(null, "", [], {}, -1, 0, 1e308, 2 ** 53, -0.5, true, "\ud800", "\0", [[[]]]),
);

class SchemaValues {
  constructor(readonly root: ZodJsonSchema, readonly pools: Pools) {}

  of(schema: ZodJsonSchema, depth = 0): fc.Arbitrary<unknown> {
    if (schema.$ref) return this.of(this.root.$defs![schema.$ref.split("/").at(-1)!]!, depth + 1);
    if (schema.anyOf) return fc.oneof(...schema.anyOf.map((one) => this.of(one, depth + 1)));
    if (schema.enum) return fc.constantFrom(...schema.enum);
    if ("const" in schema) return fc.constant(schema.const);
    switch (schema.type) {
      case "object":
        return this.#object(schema, depth);
      case "array":
        return depth > MAX_DEPTH
          ? fc.constant([])
          : fc.array(this.of(schema.items ?? {}, depth + 1), { maxLength: 3 });
      case "string":
        return this.#text(schema);
      case "boolean":
        return fc.boolean();
      case "null":
        return fc.constant(null);
      case "number":
      case "integer":
        return this.#number(schema);
    }
    return anyJson;
  }

  #object({ properties, required = [], additionalProperties }: ZodJsonSchema, depth: number) {
    if (properties) {
      const fields = Object.entries(properties).map(([name, field]) => {
        const value = this.of(field, depth + 1).map((inner): [string, unknown][] => [[name, inner]]);
        // With few fields more objects are accepted, and their values are looked at further on.
        const absent = { weight: 3, arbitrary: fc.constant<[string, unknown][]>([]) };
        return required.includes(name) ? value : fc.oneof(absent, { weight: 1, arbitrary: value });
      });
      return fc.tuple(...fields).map((entries) => Object.fromEntries(entries.flat()));
    }
    if (depth > MAX_DEPTH) return fc.constant({});
    const value = typeof additionalProperties === "object"
      ? this.of(additionalProperties, depth + 1)
      : anyJson;
    const name = fc.oneof(fc.constantFrom("x", ...this.pools.names), fc.string({ maxLength: 8 }));
    return fc.dictionary(name, value, { maxKeys: 2 });
  }

  #text({ maxLength = 16, pattern }: ZodJsonSchema): fc.Arbitrary<unknown> {
    const own = pattern
      ? fc.stringMatching(new RegExp(pattern))
      : fc.string({ maxLength: Math.min(maxLength, 16) });
    return fc.oneof(fc.constantFrom("a", ...this.pools.texts), own);
  }

  #number({ type, minimum, maximum, exclusiveMinimum }: ZodJsonSchema): fc.Arbitrary<unknown> {
    const min = minimum ?? exclusiveMinimum ?? -1e6, max = maximum ?? 1e6;
    return type === "integer"
      ? fc.integer({ min: Math.ceil(min), max: Math.floor(max) })
      : fc.double({ min, max, noNaN: true });
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

/** Values of a schema, half of them with one to three changes. */
export function almostValid(schema: ZodJsonSchema, pools: Pools): fc.Arbitrary<unknown> {
  const values = new SchemaValues(schema, pools).of(schema);
  const changes = fc.oneof(fc.constant([]), fc.array(change, { minLength: 1, maxLength: 3 }));
  return fc.tuple(values, changes).map(([value, changes]) =>
    changes.reduce((before: unknown, one) => changed(before, one), value)
  );
}
