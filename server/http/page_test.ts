import assert from "node:assert/strict";
import { decodeCursor, encodeCursor, page } from "./page.ts";
import { Problem } from "./problems.ts";

const keyOf = (item: string) => item;
const items = ["e", "d", "c", "b", "a"];

Deno.test("pages follow each other without repeats, and the last one has no cursor", () => {
  const first = page(items, { limit: 2, keyOf });
  assert.deepEqual(first.items, ["e", "d"]);
  const second = page(items, { limit: 2, cursor: first.next_cursor!, keyOf });
  assert.deepEqual(second.items, ["c", "b"]);
  const third = page(items, { limit: 2, cursor: second.next_cursor!, keyOf });
  assert.deepEqual(third, { items: ["a"], next_cursor: null });
  assert.deepEqual(page([], { limit: 2, keyOf }), { items: [], next_cursor: null });
  assert.equal(page(items, { limit: 5, keyOf }).next_cursor, null);
});

Deno.test("a new item at the front changes no later page", () => {
  const { next_cursor } = page(items, { limit: 2, keyOf });
  assert.deepEqual(page(["f", ...items], { limit: 2, cursor: next_cursor!, keyOf }).items, ["c", "b"]);
});

Deno.test("where keys fall, a cursor outlives its item", () => {
  const cursor = encodeCursor("d");
  assert.deepEqual(page(["f", "e", "c", "b"], { limit: 1, cursor, keyOf, falling: true }).items, ["c"]);
  assert.deepEqual(page(["f"], { limit: 1, cursor, keyOf, falling: true }), { items: [], next_cursor: null });
  assert.equal(page(["c"], { limit: 1, cursor, keyOf, falling: true }).items[0], "c");
});

Deno.test("a broken or foreign cursor is refused", () => {
  for (const cursor of ["!", "", encodeCursor("z"), "_w"]) {
    assert.throws(
      () => page(items, { limit: 2, cursor, keyOf }),
      (error) => error instanceof Problem && error.errors[0]!.pointer === "/query/cursor",
      cursor,
    );
  }
  assert.equal(decodeCursor(encodeCursor("ä/π\u{1F600}")), "ä/π\u{1F600}");
});
