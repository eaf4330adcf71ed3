import assert from "node:assert/strict";
import fc from "fast-check";
import { MAX_JSON_DEPTH } from "../../core/json.ts";
import { MAX_JSON_VALUES, parseStrictJson } from "./strict_json.ts";

/** The pointers of all errors. */
function wrong(text: string): string[] {
  const { errors } = parseStrictJson(text);
  assert.ok(errors.every(({ code }) => code === "invalid_value"));
  return errors.map(({ pointer }) => pointer);
}

Deno.test("output of JSON.stringify is parsed as JSON.parse does", () => {
  fc.assert(fc.property(fc.jsonValue(), (value) => {
    const text = JSON.stringify(value, null, 1);
    const { value: read, errors } = parseStrictJson(text);
    if (errors.length === 0) assert.deepEqual(read, JSON.parse(text));
    else assert.ok(!text.isWellFormed() || /\\ud[89a-f]|\d{16}/i.test(text), text);
  }));
});

Deno.test("text that JSON.parse refuses is invalid_value, and no other text is refused as not JSON", () => {
  const texts = [
    "",
    " ",
    "{",
    "[1,]",
    "{a:1}",
    "01",
    "1.",
    "+1",
    "nul",
    "'a'",
    '"\t"',
    '"\\x"',
    "[1 2]",
    "1 1",
    "NaN",
  ];
  const fine = ["0", "-0.5e-3", '"\\u00e9\\n"', "[]", " { } ", "true", '{"a":[{"b":null}]}'];
  for (const text of [...texts, ...fine]) {
    let is_json = true;
    try {
      JSON.parse(text);
    } catch {
      is_json = false;
    }
    assert.deepEqual(wrong(text), is_json ? [] : [""], text);
  }
});

Deno.test("duplicate keys, lone surrogates and integers that lose precision are named by their place", () => {
  assert.deepEqual(wrong('{"a":{"b":1,"b":2}}'), ["/a/b"]);
  assert.deepEqual(wrong('{"a":1,"\\u0061":2}'), ["/a"]);
  assert.deepEqual(wrong('{"x/y":["ok","\\ud800"]}'), ["/x~1y/1"]);
  assert.deepEqual(wrong('["\\ud83d\\ude00", 9007199254740992, 9007199254740993, 1e400]'), ["/2", "/3"]);
  assert.deepEqual(wrong("[0.1, 1e2, -9007199254740991]"), []);
  assert.deepEqual(wrong(`[0.${"1".repeat(1022)}, 0.${"1".repeat(1023)}, ${"1".repeat(9000)}]`), [
    "/1",
    "/2",
  ]);
});

Deno.test("a string ends at its first quote that is not escaped", () => {
  const texts = [
    '"\\\\"',
    '"\\\\\\""',
    '"a\\\\" "b"',
    '"\\"',
    '"\\\\\\"',
    '["\\\\","\\"]"]',
    '{"\\\\":"\\\\\\"\\\\"}',
    '"',
  ];
  for (const text of texts) {
    let expected: unknown = null;
    try {
      expected = JSON.parse(text);
    } catch { /* it is no JSON */ }
    assert.deepEqual(parseStrictJson(text).value, expected, text);
    assert.deepEqual(wrong(text), expected === null ? [""] : [], text);
  }
});

Deno.test("every short text of quotes, backslashes, an escape and commas is read as JSON.parse does", () => {
  let texts = [""];
  for (let length = 0; length < 7; length++) {
    texts = texts.flatMap((text) => ['"', "\\", "n", ","].map((next) => text + next));
    for (const text of texts) {
      let expected: unknown = null;
      try {
        expected = JSON.parse(`["${text}"]`);
      } catch { /* it is no JSON */ }
      const { value, is_read } = parseStrictJson(`["${text}"]`);
      assert.equal(is_read, expected !== null, text);
      assert.deepEqual(value, expected, text);
    }
  }
});

Deno.test("a field has a name of at most 1024 characters, because every problem below it names it", () => {
  const below = `{${'"a":0,'.repeat(300)}"a":0}`;
  assert.deepEqual(wrong(`{"${"x".repeat(1025)}":${below}}`), [""]);
  const beside = `{"a":[{"${"x".repeat(1025)}":"\\ud800","b":1,"${"y".repeat(1025)}":1}],"c":1,"c":2}`;
  const { value, is_read } = parseStrictJson(beside);
  assert.deepEqual([wrong(beside), value, is_read], [["/a/0", "/c"], { a: [{ b: 1 }], c: 2 }, true]);
  assert.deepEqual(wrong(`{"${"x".repeat(1025)}":`.repeat(MAX_JSON_DEPTH + 1)), [""], "it counts as a level");
  assert.deepEqual(wrong(`{"${"x".repeat(1024)}":0}`), []);
  const [first] = wrong(`{"${"x".repeat(1024)}":${below}}`);
  assert.equal(first, `/${"x".repeat(1024)}/a`);
});

Deno.test("a field named __proto__ is a field", () => {
  const { value } = parseStrictJson('{"__proto__":{"a":1}}');
  assert.deepEqual(Object.keys(value as object), ["__proto__"]);
});

Deno.test("JSON nests up to the limit", () => {
  const nested = (depth: number) => "[".repeat(depth) + "]".repeat(depth);
  assert.deepEqual(wrong(nested(MAX_JSON_DEPTH)), []);
  assert.deepEqual(wrong(nested(MAX_JSON_DEPTH + 1)), [""]);
  assert.deepEqual(wrong("[".repeat(100_000)), [""]);
});

Deno.test("a text has values up to a limit, whatever holds them", () => {
  const list = (length: number) => `[${Array(length).fill(0).join(",")}]`;
  assert.equal(parseStrictJson(list(MAX_JSON_VALUES - 1)).errors.length, 0);
  const pairs = Array.from({ length: MAX_JSON_VALUES }, (_, i) => `"${i}":0`).join(",");
  for (const text of [list(MAX_JSON_VALUES), `{${pairs}}`]) {
    const { value, errors } = parseStrictJson(text);
    assert.equal(value, null);
    assert.deepEqual(errors, [{ pointer: "", code: "invalid_value", message: "has more than 10000 values" }]);
  }
});
