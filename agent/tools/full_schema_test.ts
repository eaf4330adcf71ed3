import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { Ajv } from "ajv";
import { Ajv2020 } from "ajv/dist/2020.js";
import { argumentProblem, fullSchema } from "./arguments.ts";
import { compileSchema, MAX_ARGUMENT_VALUES, MAX_CHECK_STEPS } from "./full_schema.ts";

/**
 * Groups of the JSON Schema Test Suite (github.com/json-schema-org/JSON-Schema-Test-Suite, tests/draft2020-12), shortened:
 * file and description, schema, and values with what the suite expects of them.
 */
const SUITE: [name: string, schema: object, values: [unknown, boolean][]][] = [
  ["type: integer type matches integers", { type: "integer" }, [[1, true], [1.0, true], [1.1, false], [
    "1",
    false,
  ]]],
  ["required: with escaped characters", { required: ["foo\nbar", 'foo"bar'] }, [
    [{ "foo\nbar": 1, 'foo"bar': 1 }, true],
    [{ "foo\nbar": "1" }, false],
  ]],
  ["additionalProperties: being false does not allow others", {
    properties: { foo: {}, bar: {} },
    patternProperties: { "^v": {} },
    additionalProperties: false,
  }, [[{ foo: 1 }, true], [{ foo: 1, bar: 2, quux: "boom" }, false], [{ foo: 1, vroom: 2 }, true]]],
  ["properties: unknown names are accepted", { properties: { foo: { type: "integer" } } }, [
    [{ quux: [] }, true],
    [{ foo: [] }, false],
  ]],
  ["oneOf", { oneOf: [{ type: "integer" }, { minimum: 2 }] }, [[1, true], [2.5, true], [3, false], [
    1.5,
    false,
  ]]],
  ["not: more complex schema", { not: { type: "object", properties: { foo: { type: "string" } } } }, [
    [1, true],
    [{ foo: 1 }, true],
    [{ foo: "bar" }, false],
  ]],
  ["if-then-else", { if: { exclusiveMaximum: 0 }, then: { minimum: -10 }, else: { multipleOf: 2 } }, [
    [-1, true],
    [-100, false],
    [4, true],
    [3, false],
  ]],
  ["prefixItems with items", { prefixItems: [{}, {}], items: { type: "integer" } }, [
    [["x", null, 3], true],
    [["x", null, "y"], false],
  ]],
  ["contains with minContains", { contains: { const: 1 }, minContains: 2 }, [[[1], false], [
    [1, 2, 1],
    true,
  ]]],
  ["uniqueItems", { uniqueItems: true }, [
    [[1, 2], true],
    [[{ a: 1, b: 2 }, { b: 2, a: 1 }], false],
    [[1, true], true],
  ]],
  ["enum with escaped characters and objects", { enum: [6, "foo", [], { foo: 12 }] }, [
    [{ foo: 12 }, true],
    [{ foo: 12, boo: 42 }, false],
    [[], true],
    [null, false],
  ]],
  ["maxLength: two graphemes is long enough", { maxLength: 2 }, [["💩💩", true], ["foo", false]]],
  ["dependentSchemas", { dependentSchemas: { bar: { properties: { foo: { type: "integer" } } } } }, [
    [{ foo: "x" }, true],
    [{ foo: "x", bar: 2 }, false],
  ]],
  ["unevaluatedProperties with adjacent properties", {
    allOf: [{ properties: { foo: { type: "string" } } }],
    unevaluatedProperties: false,
  }, [[{ foo: "foo" }, true], [{ foo: "foo", bar: "bar" }, false]]],
  ["ref: root pointer ref", { properties: { foo: { $ref: "#" } }, additionalProperties: false }, [
    [{ foo: { foo: false } }, true],
    [{ foo: { bar: false } }, false],
  ]],
  ["ref applies alongside sibling keywords", {
    $defs: { r: { type: "array" } },
    properties: { foo: { $ref: "#/$defs/r", maxItems: 2 } },
  }, [
    [{ foo: [] }, true],
    [{ foo: [1, 2, 3] }, false],
    [{ foo: "string" }, false],
  ]],
  ["properties with names of Object.prototype", {
    properties: { ["__proto__"]: { type: "number" }, toString: { type: "string" } },
  }, [
    [{}, true],
    [{ toString: 37 }, false],
  ]],
];

Deno.test("arguments are checked as JSON Schema's own test suite expects", () => {
  for (const [name, schema, values] of SUITE) {
    const check = compileSchema(schema);
    for (const [value, expected] of values) {
      assert.equal(check(value) === null, expected, `${name}: ${JSON.stringify(value)}`);
    }
  }
});

Deno.test("a mismatch names its place", () => {
  const check = compileSchema({
    properties: { a: { items: { properties: { "b/c": { type: "string" } } } } },
  });
  assert.equal(check({ a: [{}, { "b/c": 3 }] }), "/a/1/b~1c");
  const parameters = fullSchema({ type: "object", properties: { a: { type: "string" } } });
  assert.equal(argumentProblem(parameters, { a: 1 }), "bad arguments at /a");
  assert.equal(argumentProblem(parameters, [1]), "bad arguments");
  assert.equal(argumentProblem(parameters, { b: 1 }), null, "unlike those of built-in tools");
});

Deno.test("a check ends whatever a schema makes of its arguments", () => {
  // Each level of the value doubles the work, and each level of the definitions does.
  const twice = { anyOf: [{ $ref: "#/$defs/t" }, { $ref: "#/$defs/t" }] };
  const tree = compileSchema({ $defs: { t: { properties: { a: twice } } }, $ref: "#/$defs/t" });
  let deep: unknown = {};
  for (let i = 0; i < 40; i++) deep = { a: deep };
  assert.equal(tree(deep), "");
  assert.equal(tree({ a: { a: {} } }), null);
  const $defs = Object.fromEntries(
    Array.from({ length: 30 }, (_, i) => [
      `d${i}`,
      i === 29 ? {} : { allOf: [{ $ref: `#/$defs/d${i + 1}` }, { $ref: `#/$defs/d${i + 1}` }] },
    ]),
  );
  assert.equal(compileSchema({ $defs, $ref: "#/$defs/d0" })({}), "");
});

Deno.test("arguments have limits of depth, values and steps", () => {
  const any = compileSchema({});
  let deep: unknown = {};
  for (let i = 0; i < 10_000; i++) deep = { a: deep };
  assert.equal(any(deep), "");
  assert.equal(any(Array(MAX_ARGUMENT_VALUES - 1).fill(0)), null);
  assert.equal(any(Array(MAX_ARGUMENT_VALUES).fill(0)), "");
  const schemas = (count: number) => compileSchema({ items: { allOf: Array(count).fill({}) } });
  const items = Array(1000).fill(0), per_item = (MAX_CHECK_STEPS - 1000) / 1000;
  assert.equal(schemas(per_item - 1)(items), null);
  assert.equal(schemas(per_item)(items), "");
});

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
      assert.equal(
        check(value) === null,
        expected(value),
        `${JSON.stringify(schema)} and ${JSON.stringify(value)}`,
      );
    }
  }
});

Deno.test("a schema of draft 7 is checked as draft 7, as servers of tools send it", () => {
  const $schema = "http://json-schema.org/draft-07/schema#";
  const ajv = new Ajv({ strict: false });
  const schemas = [
    { items: [{ type: "number" }], additionalItems: { type: "string" } },
    { properties: { a: { const: 1 } }, additionalProperties: false, if: { required: ["b"] }, then: false },
  ];
  for (const schema of schemas) {
    const check = compileSchema({ $schema, ...schema }), expected = ajv.compile({ $schema, ...schema });
    for (const value of [...VALUES, [1], [1, "x"], [1, 2], ["x"], { a: 2 }]) {
      assert.equal(
        check(value) === null,
        expected(value),
        `${JSON.stringify(schema)} and ${JSON.stringify(value)}`,
      );
    }
  }
  const definitions = { n: { type: "number" } };
  const beside = compileSchema({
    $schema,
    definitions,
    properties: { a: { $ref: "#/definitions/n", maximum: 1 } },
  });
  assert.deepEqual(
    [beside({ a: 2 }), beside({ a: "x" })],
    [null, "/a"],
    "keywords beside a $ref do not count there",
  );
});

Deno.test("patterns of servers that could take for ever are left to them, with what depends on these", () => {
  const check = compileSchema({ properties: { a: { pattern: "^(a+)+$", type: "string" } } }, "leave_out");
  assert.equal(check({ a: `${"a".repeat(40)}b` }), null);
  assert.equal(check({ a: 1 }), "/a");
  for (const others of [{ additionalProperties: false }, { unevaluatedProperties: false }]) {
    assert.equal(compileSchema({ patternProperties: { "(": {} }, ...others }, "leave_out")({ x: 1 }), null);
  }
});

Deno.test("a check runs where no code can be generated", async () => {
  const root = fileURLToPath(new URL("../..", import.meta.url));
  const run = async (code: string) => {
    const flags = ["--no-lock", "--quiet", "--v8-flags=--disallow-code-generation-from-strings"];
    const { stdout, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["eval", ...flags, code],
      cwd: root,
    }).output();
    return new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
  };
  const schema = JSON.stringify(SCHEMAS[1]);
  const own = `import { compileSchema } from "./agent/tools/full_schema.ts";
    const check = compileSchema(${schema}); console.log(check({ a: 1 }), check({ a: -1 }));`;
  assert.equal(await run(own), "null /a\n");
  const other = `import { Ajv2020 } from "ajv/dist/2020.js"; new Ajv2020().compile(${schema});`;
  assert.match(await run(other), /EvalError/, "a validator that generates code is refused there");
});
