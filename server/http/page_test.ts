import assert from "node:assert/strict";
import { ANY_KEYS, PagedList } from "./page.ts";
import { Problem } from "./problems.ts";

const list = new PagedList("letters", ANY_KEYS), newest = new PagedList("newest", /^[a-z]$/);

const keyOf = (item: string) => item;
const items = ["e", "d", "c", "b", "a"];

Deno.test("pages follow each other without repeats, and the last one has no cursor", () => {
  const first = list.page(items, { limit: 2, keyOf });
  assert.deepEqual(first.items, ["e", "d"]);
  const second = list.page(items, { limit: 2, cursor: first.next_cursor!, keyOf });
  assert.deepEqual(second.items, ["c", "b"]);
  const third = list.page(items, { limit: 2, cursor: second.next_cursor!, keyOf });
  assert.deepEqual(third, { items: ["a"], next_cursor: null });
  assert.deepEqual(list.page([], { limit: 2, keyOf }), { items: [], next_cursor: null });
  assert.equal(list.page(items, { limit: 5, keyOf }).next_cursor, null);
});

Deno.test("a new item at the front changes no later page", () => {
  const { next_cursor } = list.page(items, { limit: 2, keyOf });
  assert.deepEqual(list.page(["f", ...items], { limit: 2, cursor: next_cursor!, keyOf }).items, ["c", "b"]);
});

Deno.test("where keys fall, a cursor outlives its item", () => {
  const cursor = newest.cursorOf("d");
  assert.deepEqual(newest.page(["f", "e", "c", "b"], { limit: 1, cursor, keyOf, falling: true }).items, [
    "c",
  ]);
  assert.deepEqual(newest.page(["f"], { limit: 1, cursor, keyOf, falling: true }), {
    items: [],
    next_cursor: null,
  });
  assert.equal(newest.page(["c"], { limit: 1, cursor, keyOf, falling: true }).items[0], "c");
});

Deno.test("a cursor is only taken by its own list, and where keys fall only in their form", () => {
  const refused = (from: PagedList, cursor: string, falling: boolean) =>
    assert.throws(
      () => from.page(items, { limit: 2, cursor, keyOf, falling }),
      (error) => error instanceof Problem && error.errors[0]!.pointer === "/query/cursor",
      cursor,
    );
  for (const cursor of ["!", "", "AAAA", "_w", newest.cursorOf("b"), list.cursorOf("z")]) {
    refused(list, cursor, false);
  }
  for (const cursor of ["", "AAAA", list.cursorOf("b"), newest.cursorOf("zz"), newest.cursorOf("")]) {
    refused(newest, cursor, true);
  }
  const strange = "\u00e4/\u03c0\u{1F600}:";
  assert.equal(list.keyOf(list.cursorOf(strange)), strange);
});
