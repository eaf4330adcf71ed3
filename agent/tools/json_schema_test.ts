import { equal, throws } from "node:assert/strict";
import { Ajv2020 } from "ajv/dist/2020.js";
import { compileSchema, MAX_EXPANDED_SCHEMAS, MAX_SCHEMA_CHARS, MAX_SCHEMA_DEPTH } from "./json_schema.ts";

const VALUES = [
  ...[{}, { a: 1 }, { a: "x" }, { a: null }, { a: 1, b: 2 }, { b: [1, "x"] }, { b: [] }, { c: { a: 1 } }],
  ...[
    { a: [1, 2, 2] },
    { a: 2.5 },
    { a: -3 },
    { a: "long text" },
    { ["__proto__"]: 1 },
    [],
    null,
    "x",
    3,
    true,
  ],
];

const SCHEMAS: object[] = [
  { type: "object" },
  { type: "object", properties: { a: { type: "integer", minimum: 0 } }, required: ["a"] },
  {
    type: "object",
    properties: { a: { type: ["string", "null"], minLength: 2 } },
    additionalProperties: false,
  },
  { properties: { a: { enum: [1, "x", null] }, b: { items: { type: "number" } } } },
  { anyOf: [{ required: ["a"] }, { type: "array" }], not: { required: ["b"] } },
  { oneOf: [{ type: "number" }, { type: "integer" }, { const: true }] },
  { $defs: { n: { type: "number" } }, properties: { a: { $ref: "#/$defs/n" } }, minProperties: 1 },
  { if: { required: ["b"] }, then: { required: ["a"] }, else: { maxProperties: 1 } },
  {
    properties: {
      a: { uniqueItems: true, maxItems: 3 },
      b: { prefixItems: [{ type: "number" }], minItems: 1 },
    },
  },
  { dependentRequired: { b: ["a"] }, propertyNames: { maxLength: 1 } },
  { properties: { c: { $ref: "#/$defs/odd~1name%20x" } }, $defs: { "odd/name x": { required: ["b"] } } },
];

Deno.test("values fit schemas as another implementation says", () => {
  const ajv = new Ajv2020({ strict: false });
  for (const schema of SCHEMAS) {
    const check = compileSchema(schema), expected = ajv.compile(structuredClone(schema));
    for (const value of VALUES) {
      equal(check(value), expected(value), `${JSON.stringify(schema)} and ${JSON.stringify(value)}`);
    }
  }
});

Deno.test("patterns are not evaluated, and what depends on them is accepted", () => {
  const slow = "^(a+)+$";
  const check = compileSchema({ properties: { a: { pattern: slow, type: "string" } } });
  equal(check({ a: `${"a".repeat(40)}b` }), true);
  equal(check({ a: 1 }), false);
  equal(compileSchema({ patternProperties: { x: {} }, additionalProperties: false })({ x: 1 }), true);
});

Deno.test("a schema that is malformed or beyond a limit is refused with its place", () => {
  const nested = (levels: number): object => levels === 0 ? {} : { not: nested(levels - 1) };
  const doubling = (steps: number) => ({
    $ref: "#/$defs/s0",
    $defs: Object.fromEntries(Array.from({ length: steps + 1 }, (_, i) => {
      const next = { $ref: `#/$defs/s${i + 1}` };
      return [`s${i}`, i === steps ? {} : { allOf: [next, next] }];
    })),
  });
  equal(compileSchema(nested(MAX_SCHEMA_DEPTH - 1))(1), false);
  equal(compileSchema(doubling(10))(1), true);
  const cases: [unknown, RegExp][] = [
    [nested(MAX_SCHEMA_DEPTH), new RegExp(`nested more than ${MAX_SCHEMA_DEPTH} levels`)],
    [{ title: "x".repeat(MAX_SCHEMA_CHARS) }, new RegExp(`more than ${MAX_SCHEMA_CHARS}$`)],
    [doubling(14), new RegExp(`more than ${MAX_EXPANDED_SCHEMAS} parts`)],
    [{ $ref: "#" }, /refers to itself/],
    [{ properties: { a: { items: { $ref: "#/properties/a" } } } }, /refers to itself/],
    [{ $ref: "https://example.org/x" }, /is not in the schema itself/],
    [{ $ref: "#/$defs/none" }, /names nothing/],
    [{ $ref: "#/required", required: [] }, /names no schema/],
    [undefined, /has no schema at #/],
    [3, /has no schema at #/],
    [{ properties: { a: null } }, /has no schema at #\/properties\/a$/],
    [{ properties: [] }, /has no table at #\/properties$/],
    [{ required: "a" }, /unusable value at #\/required$/],
    [{ type: "text" }, /unusable value at #\/type$/],
    [{ anyOf: {} }, /no list at #\/anyOf$/],
  ];
  for (const [schema, message] of cases) {
    throws(() => compileSchema(schema), { name: "SchemaRefusal", message });
  }
});
