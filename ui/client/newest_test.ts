import assert from "node:assert/strict";
import { Newest } from "./newest.ts";

Deno.test("an answer that was overtaken is not taken", () => {
  const newest = new Newest(), first = newest.ask(), second = newest.ask(), third = newest.ask();
  const takes = [["a", second], ["a", first], ["b", first], ["a", third], ["a", second]] as const;
  assert.deepEqual(takes.map(([what, request]) => newest.takes(what, request)), [
    true,
    false,
    true,
    true,
    false,
  ]);
});
