import { deepEqual, equal, ok, throws } from "node:assert/strict";
import { ServiceError } from "../../core/errors.ts";
import { officialSuite } from "../../tests/schema_validator.ts";
import { compileSchema, type Grammar } from "./grammar.ts";
import { MAX_SCHEMA_DEPTH, MAX_SCHEMA_LENGTH, MAX_TEXT_DEPTH } from "./limits.ts";
import { Stack } from "./matcher.ts";
import { RegexArena } from "./regex.ts";

const compile = (schema: unknown) => compileSchema(JSON.stringify(schema), new RegexArena());

/** Whether a text is one of the grammar's. */
function accepts({ arena, symbols }: Grammar, text: string): boolean {
  const stack = new Stack(arena);
  let state = stack.begin(symbols);
  for (const byte of new TextEncoder().encode(text)) state = stack.next(state, byte);
  return state.is_end;
}

/** Groups of the official suite with valid instances that are not generated, and why. */
const NARROWER =
  /^format: |^vocabulary: |^(additionalProperties: additionalProperties are allowed by default|allOf: allOf|allOf: allOf with base schema|anyOf: anyOf complex types|const: const with object|dependentRequired: .*|not: forbidden property|properties: object properties validation)$/;

Deno.test("of the official suite a schema is enforced or refused: no invalid instance is generated", async () => {
  let enforced = 0;
  for (const { name, schema, valid, invalid } of await officialSuite()) {
    let grammar: Grammar;
    try {
      grammar = compile(schema);
    } catch (error) {
      ok(error instanceof ServiceError && error.code === "config_invalid", name);
      ok(typeof error.details.pointer === "string", name);
      continue;
    }
    enforced++;
    for (const value of invalid) {
      equal(accepts(grammar, JSON.stringify(value)), false, `${name}: ${JSON.stringify(value)}`);
    }
    if (NARROWER.test(name)) continue;
    for (const value of valid) {
      equal(accepts(grammar, JSON.stringify(value)), true, `${name}: ${JSON.stringify(value)}`);
    }
  }
  ok(enforced >= 218, `${enforced} schemas are enforced`);
});

Deno.test("texts have at most one space at the beginning and after commas and colons", () => {
  const grammar = compile({ properties: { a: { type: "array" }, b: {} }, required: ["a"] });
  for (const text of ['{"a":[1,2],"b":{}}', ' {"a": [1, 2], "b": {"x": null}}', '{"a":[]}']) {
    ok(accepts(grammar, text), text);
  }
  for (
    const text of [
      '  {"a":[]}',
      '{ "a":[]}',
      '{"a":  []}',
      '{"a":[] }',
      '{"a":[]} ',
      '{"a":[1 ,2]}',
      '{"a"\n:[]}',
    ]
  ) {
    ok(!accepts(grammar, text), text);
  }
});

Deno.test("properties come in declared order, each once, and undeclared ones where the schema speaks of them", () => {
  const closed = compile({ properties: { a: {}, b: {}, c: {} }, required: ["b"] });
  deepEqual(
    [
      '{"a":1,"b":1,"c":1}',
      '{"b":1}',
      '{"b":1,"c":1}',
      '{"b":1,"a":1}',
      '{"a":1}',
      '{"b":1,"b":1}',
      '{"b":1,"x":1}',
    ]
      .map((text) => accepts(closed, text)),
    [true, true, true, false, false, false, false],
  );
  const open = compile({
    properties: { a: {} },
    patternProperties: { "^n": { type: "number" }, "x$": { const: 5 } },
    additionalProperties: { type: "boolean" },
    maxProperties: 3,
  });
  deepEqual(
    [
      '{"n":1,"x":5,"nx":5}',
      '{"nx":1}',
      '{"q":true}',
      '{"q":1}',
      '{"a":1,"a":true}',
      '{"q":true,"r":true,"s":true,"t":true}',
    ]
      .map((text) => accepts(open, text)),
    [true, false, true, false, false, false],
  );
});

Deno.test("a minimum of properties counts undeclared names once, because they may repeat", () => {
  const grammar = compile({ properties: { a: {} }, minProperties: 2 });
  deepEqual(
    ['{"a":1,"x":1}', '{"x":1,"y":1}', '{"a":1}', '{"x":1,"x":1}', '{"a":1,"x":1,"x":2}'].map((text) =>
      accepts(grammar, text)
    ),
    [true, false, false, false, true],
  );
  throws(() => compile({ type: "object", properties: { a: {} }, minProperties: 3 }), /no value satisfies it/);
  throws(() => compile({ type: "object", required: ["a", "b"], maxProperties: 1 }), /no value satisfies it/);
});

Deno.test("a minimum above its maximum has no values, and a format of integers has no fractions", () => {
  for (const keyword of ["Items", "Properties", "Length"]) {
    const type = { Items: "array", Properties: "object", Length: "string" }[keyword];
    throws(() => compile({ type, [`min${keyword}`]: 3, [`max${keyword}`]: 2 }), /no value satisfies it/);
    const grammar = compile({ [`min${keyword}`]: 3, [`max${keyword}`]: 2 });
    deepEqual(
      [accepts(grammar, "true"), accepts(grammar, { array: "[", object: "{", string: '"' }[type!]!)],
      [true, false],
    );
  }
  const properties = { a: {}, b: {}, c: {}, d: {} };
  throws(
    () => compile({ type: "object", properties, minProperties: 3, maxProperties: 2 }),
    /no value satisfies it/,
  );
  const integers = compile({ type: "number", format: "int32" });
  deepEqual(
    ["5", "-2147483648", "2147483647", "2147483648", "5.5", "5.0"].map((text) => accepts(integers, text)),
    [true, true, true, false, false, false],
  );
});

Deno.test("unique items of a list of values come in its order", () => {
  const grammar = compile({
    ...{ type: "array", items: { enum: ["a", 1, null] }, uniqueItems: true, minItems: 2 },
  });
  deepEqual(
    ['["a",1]', '["a", null]', '["a",1,null]', "[1,null]", "[]", '["a"]', '["a","a"]', '[1,"a"]', "[null,1]"]
      .map(
        (text) => accepts(grammar, text),
      ),
    [true, true, true, true, false, false, false, false, false],
  );
  throws(() => compile({ type: "array", items: { const: 1 }, uniqueItems: true, minItems: 2 }), /no value/);
});

Deno.test("alternatives of oneOf may differ in a value, a type, or a name that a closed object lacks", () => {
  const tagged = (kind: string, name: string) => ({
    ...{ type: "object", properties: { kind: { const: kind }, [name]: {} }, required: ["kind"] },
  });
  const grammar = compile({ oneOf: [tagged("x", "a"), tagged("y", "b"), { type: "null" }] });
  deepEqual(
    ['{"kind":"x","a":1}', '{"kind":"y"}', "null", '{"kind":"x","b":1}', '{"kind":"z"}'].map((text) =>
      accepts(grammar, text)
    ),
    [true, true, true, false, false],
  );
  const named = (name: string) => ({ type: "object", properties: { [name]: {} }, required: [name] });
  ok(accepts(compile({ oneOf: [named("a"), named("b")] }), '{"b":1}'));
  const open = (name: string) => ({ ...named(name), additionalProperties: true });
  throws(() => compile({ oneOf: [open("a"), open("b")] }), /can hold at once/);
});

Deno.test("strings have every spelling of JSON, well-formed UTF-8 and lengths in code points", () => {
  const free = compile({ type: "string", minLength: 2, maxLength: 2 });
  for (const string of ["ab", "é\u{1f600}", '"\\', "\n\u0001"]) {
    ok(accepts(free, JSON.stringify(string)), string);
  }
  for (const text of ['"\\u0041\\/"', '"\\ud83d\\ude00a"']) ok(accepts(free, text), text);
  for (const text of ['"a"', '"abc"', '"a\nb"', '"\\ud83da"', '"\\x41b"', "'ab'"]) {
    ok(!accepts(free, text), text);
  }
  const stack = new Stack(free.arena);
  for (
    const bytes of [[0x22, 0xff], [0x22, 0xc0], [0x22, 0xed, 0xa0], [0x22, 0xe0, 0x80], [0x22, 0xf4, 0x90], [
      0x22,
      0x80,
    ]]
  ) {
    let state = stack.begin(free.symbols);
    for (const byte of bytes) state = stack.next(state, byte);
    equal(state.threads.length, 0, `${bytes}`);
  }
});

Deno.test("recursion is followed to a limit from which every text can still be closed", () => {
  const tree = {
    $ref: "#/$defs/n",
    $defs: { n: { properties: { n: { $ref: "#/$defs/n" } }, additionalProperties: false } },
  };
  const nested = (depth: number) => '{"n":'.repeat(depth - 1) + "{}" + "}".repeat(depth - 1);
  const grammar = compile({ ...tree, type: "object", $defs: { n: { ...tree.$defs.n, type: "object" } } });
  ok(accepts(grammar, nested(MAX_TEXT_DEPTH)));
  ok(!accepts(grammar, nested(MAX_TEXT_DEPTH + 1)));
});

Deno.test("what cannot be enforced is refused with its pointer and keyword", () => {
  const refused: [unknown, string, RegExp][] = [
    [{ properties: { a: { items: { if: {}, then: false } } } }, "/properties/a/items/if", /use anyOf/],
    [{ type: "array", uniqueItems: true }, "/uniqueItems", /enum or const/],
    [{ type: "number", multipleOf: 0.1 }, "/multipleOf", /whole numbers/],
    [{ type: "string", format: "regex" }, "/format", /format regex cannot be enforced/],
    [{ type: "string", pattern: "(?=a)" }, "/pattern", /look-around/],
    [{ patternProperties: { "(?=a)": {} } }, "/patternProperties", /look-around/],
    [{ oneOf: [{ type: "number" }, { type: "integer" }] }, "/oneOf", /can hold at once/],
    [{ not: { properties: { a: {} } } }, "/not", /only a type/],
    [{ $ref: "other.json" }, "/$ref", /not in this document/],
    [{ $ref: "#/x" }, "/$ref", /does not exist/],
    [{ $ref: "#" }, "", /refers to itself/],
    [{ anyOf: [{ $ref: "#" }, { type: "null" }] }, "", /refers to itself/],
    [{ type: "text" }, "/type", /is no type/],
    [{ required: true }, "/required", /list of names/],
    [{ minLength: -1 }, "/minLength", /whole number/],
    [{ anyOf: [] }, "/anyOf", /list of schemas/],
    [{ properties: { "a/b": { minimum: "1" } } }, "/properties/a~1b/minimum", /a number/],
    [{ type: "object", required: ["a"], properties: { a: false } }, "", /no value satisfies it/],
    [
      {
        $ref: "#/$defs/n",
        $defs: { n: { type: "object", required: ["n"], properties: { n: { $ref: "#/$defs/n" } } } },
      },
      "",
      /no value/,
    ],
  ];
  for (const [schema, pointer, reason] of refused) {
    throws(() => compile(schema), (error) => {
      ok(
        error instanceof ServiceError && error.code === "config_invalid" && reason.test(error.message),
        String(error),
      );
      equal(error.details.pointer, pointer);
      return true;
    }, JSON.stringify(schema));
  }
  for (
    const schema of [{ oneOf: [{ type: "string" }, { type: "integer" }] }, {
      type: "string",
      uniqueItems: true,
    }]
  ) compile(schema);
});

Deno.test("schemas are limited in size, depth and work", () => {
  const arena = () => new RegexArena();
  const padded = (length: number) => `{"description":"${"x".repeat(length - 18)}"}`;
  compileSchema(padded(MAX_SCHEMA_LENGTH), arena());
  throws(() => compileSchema(padded(MAX_SCHEMA_LENGTH + 1), arena()), /are above 262144/);
  const deep = (levels: number) => `{"a":${"[".repeat(levels - 1)}${"]".repeat(levels - 1)}}`;
  compileSchema(deep(MAX_SCHEMA_DEPTH), arena());
  throws(() => compileSchema(deep(MAX_SCHEMA_DEPTH + 2), arena()), /more than 100 levels/);
  throws(() => compileSchema("[".repeat(100_000) + "]".repeat(100_000), arena()), /more than 100 levels/);
  const options = Array.from({ length: 40 }, (_, i) => ({ required: [`p${i}`] }));
  throws(
    () => compile({ type: "object", allOf: [{ anyOf: options }, { anyOf: options.slice(0, 30) }] }),
    /more than 1024/,
  );
  throws(() => compile({ type: "string", pattern: "^(a|b)*a(a|b){30}$" }), /more than \d+ (states|steps)/);
  throws(
    () => compile({ type: "string", pattern: "^.*$", maxLength: 100_000 }),
    /more than \d+ (states|steps)/,
  );
  const names = Array.from({ length: 30 }, (_, i) => `p${i}`);
  const crossed = {
    $defs: Object.fromEntries(names.map((n, i) => [n, {
      type: "object",
      properties: Object.fromEntries(
        names.map((
          m,
          j,
        ) => [m, {
          allOf: [{ $ref: `#/$defs/${names[(i + j) % 30]}` }, { $ref: `#/$defs/${names[(i * j + 1) % 30]}` }],
        }]),
      ),
    }])),
    $ref: "#/$defs/p0",
  };
  throws(() => compile(crossed), /more than \d+/);
});
