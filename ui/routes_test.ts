import assert from "node:assert/strict";
import { hrefOf, parsePlace } from "./routes.ts";

Deno.test("an address is read as it was written", () => {
  const href = hrefOf(["runs", "run_1", "a/b c"], { update: 3, text: "ö&=#?", none: null, empty: "" });
  const { segments, query } = parsePlace(href);
  assert.deepEqual(segments, ["runs", "run_1", "a/b c"]);
  assert.deepEqual(Object.fromEntries(query), { update: "3", text: "ö&=#?" });
});

Deno.test("an empty address and malformed escapes are read as well as they can be", () => {
  assert.deepEqual([parsePlace("").segments, parsePlace("#/").segments], [[], []]);
  assert.deepEqual(parsePlace("#/runs/%E0%A4%A").segments, ["runs", "%E0%A4%A"]);
});
