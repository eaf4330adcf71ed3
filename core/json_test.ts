import assert from "node:assert/strict";
import { isTooDeep, MAX_JSON_DEPTH, parseJson } from "./json.ts";

const lists = (depth: number) => "[".repeat(depth) + "]".repeat(depth);
const objects = (depth: number) => '{"a":'.repeat(depth) + "1" + "}".repeat(depth);

Deno.test("JSON nests up to a limit, in lists and in objects", () => {
  for (const write of [lists, objects]) {
    assert.deepEqual(parseJson(write(MAX_JSON_DEPTH)), JSON.parse(write(MAX_JSON_DEPTH)));
    for (const depth of [MAX_JSON_DEPTH + 1, 100_000]) {
      assert.throws(() => parseJson(write(depth)), {
        name: "SyntaxError",
        message: /more than 64 levels deep/,
      });
    }
  }
  assert.equal(isTooDeep([1, "x", null, [lists(1000)]]), false);
  assert.throws(() => parseJson("{"), SyntaxError);
});
