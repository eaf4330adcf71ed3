import assert from "node:assert/strict";
import { firstDifference, marksOf } from "./difference.ts";

Deno.test("the first difference is that of two characters, or the end of the shorter text", () => {
  assert.deepEqual([firstDifference("abc", "abd"), firstDifference("ab", "abc"), firstDifference("a", "a")], [
    ...[2, 2, null],
  ]);
});

Deno.test("different tokens are marked from their start, also when they begin alike", () => {
  assert.deepEqual(marksOf("the zebra", "the zeal", ["bra", "al"]), [{ start: 6, end: 9 }, {
    ...{ start: 6, end: 8 },
  }]);
  assert.deepEqual(marksOf("say foo", "say far", [" foo", " far"]), [{ start: 3, end: 7 }, {
    ...{ start: 3, end: 7 },
  }]);
});

Deno.test("an attempt that has ended is marked at its end", () => {
  assert.deepEqual(marksOf("go", "go on", [null, " on"]), [{ start: 2, end: 2 }, { start: 2, end: 5 }]);
});

Deno.test("tokens that the texts do not have leave the first different character, and equal texts no mark", () => {
  assert.deepEqual(marksOf("aé", "aö", ["\ufffd", "\ufffd"]), [{ start: 1, end: 2 }, { start: 1, end: 2 }]);
  assert.equal(marksOf("same", "same", ["a", "b"]), null);
});
