import assert from "node:assert/strict";
import { argumentSchema, MAX_SCHEMA_CHAIN, MAX_SCHEMA_CHARS, MAX_SUBSCHEMAS } from "./argument_schema.ts";
import { MAX_JSON_DEPTH } from "./json.ts";

/** A value with an object around it `depth` times. */
function nested(depth: number, key: string, innermost: unknown): unknown {
  let value = innermost;
  for (let i = 0; i < depth; i++) value = { [key]: value };
  return value;
}

Deno.test("only the keywords that are checked are kept", () => {
  const { root, dialect } = argumentSchema({
    $schema: "http://json-schema.org/draft-07/schema#",
    $id: "https://example.com/tool",
    title: "T",
    format: "uri",
    "x-own": { $ref: "nowhere" },
    type: "object",
    properties: { ["__proto__"]: { type: "string", default: 3 } },
    required: ["__proto__"],
  });
  assert.equal(dialect, "7");
  assert.equal(
    JSON.stringify(root),
    '{"type":"object","properties":{"__proto__":{"type":"string"}},"required":["__proto__"]}',
  );
});

Deno.test("references to places of the schema are found, also in a tree", () => {
  const node = {
    type: "object",
    properties: { "a/b": { type: "array", items: { $ref: "#/$defs/no%64e" } } },
  };
  const { root, targets } = argumentSchema({ $defs: { node }, $ref: "#/$defs/node" });
  const defs = (root as { $defs: Record<string, unknown> }).$defs;
  assert.equal(targets["#/$defs/node"], defs.node);
  assert.equal(targets["#/$defs/no%64e"], defs.node);
  assert.ok(argumentSchema({ properties: { a: { $ref: "#/properties/b~1c" }, "b/c": {} } }));
});

Deno.test("schemas that are malformed, too large or without an end are refused with the reason", () => {
  const chain = (length: number) => {
    const $defs = Object.fromEntries(
      Array.from({ length }, (_, i) => [`d${i}`, i + 1 < length ? { $ref: `#/$defs/d${i + 1}` } : {}]),
    );
    return { $defs };
  };
  const many = (count: number) => ({ anyOf: Array.from({ length: count - 1 }, () => ({})) });
  const cases: [unknown, RegExp | null][] = [
    [3, /no object/],
    [[], /no object/],
    [nested(10_000, "not", {}), RegExp(`more than ${MAX_JSON_DEPTH} levels`)],
    [nested(10_000, "x-own", {}), RegExp(`more than ${MAX_JSON_DEPTH} levels`)],
    [{ description: "x".repeat(MAX_SCHEMA_CHARS) }, /500000 characters/],
    [many(MAX_SUBSCHEMAS), null],
    [many(MAX_SUBSCHEMAS + 1), /5000 subschemas/],
    [chain(MAX_SCHEMA_CHAIN), null],
    [chain(MAX_SCHEMA_CHAIN + 1), /more than 64 subschemas/],
    [{ allOf: [{ $ref: "#" }] }, /refers to itself/],
    [{ $defs: { a: { $ref: "#/$defs/b" }, b: { anyOf: [{}, { $ref: "#/$defs/a" }] } } }, /refers to itself/],
    [{ $ref: "#/$defs/none" }, /its \/\$ref names no place in this schema: "#\/\$defs\/none"/],
    [{ $ref: "https://example.com/x" }, /names no place/],
    [{ $ref: "#%zz" }, /names no place/],
    [{ $ref: 3 }, /is no text/],
    [{ $dynamicRef: "#a" }, /\$dynamicRef is not supported/],
    [{ properties: { a: { $id: "b" } } }, /its \/properties\/a\/\$id is not supported/],
    [{ type: "text" }, /its \/type has no valid value/],
    [{ properties: [] }, /its \/properties is no object/],
    [{ anyOf: {} }, /its \/anyOf is no list/],
    [{ items: 3 }, /its \/items is no schema/],
    [{ items: [{}] }, /use prefixItems/],
    [{ multipleOf: 0 }, /multipleOf has no valid value/],
    [{ maxLength: -1 }, /maxLength has no valid value/],
    [{ properties: { a: { pattern: "(a|a)*$" } } }, /its \/properties\/a\/pattern has a pattern/],
    [{ patternProperties: { "(": {} } }, /it is no regular expression/],
    [undefined, /no object/],
    [{ $ref: "#/required", required: [] }, /\/\$ref names no place/],
    [{ properties: { a: null } }, /its \/properties\/a is no schema/],
    [{ required: "a" }, /its \/required has no valid value/],
  ];
  for (const [schema, reason] of cases) {
    if (reason === null) argumentSchema(schema);
    else assert.throws(() => argumentSchema(schema), { name: "Error", message: reason });
  }
});

Deno.test("of a server's schema what cannot be checked is left out, and the rest is refused as ever", () => {
  const left = (schema: unknown) => JSON.stringify(argumentSchema(schema, "leave_out").root);
  assert.equal(
    left({ properties: { a: { type: "string", pattern: "(a|a)*$" } } }),
    '{"properties":{"a":{"type":"string"}}}',
  );
  assert.equal(left({ pattern: "^a+$" }), '{"pattern":"^a+$"}');
  assert.equal(
    left({ patternProperties: { "(": { type: "null" }, "^b": {} }, additionalProperties: false }),
    '{"patternProperties":{"":true,"^b":{}},"additionalProperties":false}',
  );
  assert.equal(
    left({ $dynamicRef: "#a", dependencies: { a: ["b"] }, not: { $id: "b", $anchor: "a" } }),
    '{"not":{}}',
  );
  assert.equal(left({ items: [{}, { type: "null" }] }), '{"items":[{},{"type":"null"}]}');
  const refused: [unknown, RegExp][] = [
    [{ type: "text" }, /\/type has no valid value/],
    [{ patternProperties: { "(": 3 } }, /\/patternProperties\/\( is no schema/],
    [{ $ref: "#a", $anchor: "a" }, /names no place/],
    [{ pattern: 3 }, /\/pattern has no valid value/],
    [{ allOf: [{ $ref: "#" }] }, /refers to itself/],
    [{ description: "x".repeat(MAX_SCHEMA_CHARS) }, /500000 characters/],
  ];
  for (const [schema, reason] of refused) {
    assert.throws(() => argumentSchema(schema, "leave_out"), { name: "Error", message: reason });
  }
});
