import assert from "node:assert/strict";
import { PagedItems } from "./pages.ts";

/** Pages by their cursors, as a search gives them: some are empty. */
const PAGES: Record<string, { items: number[]; next_cursor: string | null }> = {
  "": { items: [1, 2], next_cursor: "b" },
  b: { items: [], next_cursor: "c" },
  c: { items: [3], next_cursor: "d" },
  d: { items: [4], next_cursor: null },
};

Deno.test("pages are asked for until there is something new, and empty ones are passed", async () => {
  const asked: string[] = [];
  const list = new PagedItems<number>((cursor) => {
    asked.push(cursor ?? "");
    return Promise.resolve(PAGES[cursor ?? ""]!);
  });
  await list.more();
  assert.deepEqual([list.items.value, list.is_done.value, asked], [[1, 2], false, [""]]);
  await list.more();
  assert.deepEqual([list.items.value, asked], [[1, 2, 3], ["", "b", "c"]]);
  await list.more(100);
  assert.deepEqual([list.items.value, list.is_done.value, list.is_busy.value], [[1, 2, 3, 4], true, false]);
  await list.more();
  assert.deepEqual(asked, ["", "b", "c", "d"], "nothing is asked for after the last page");
});

Deno.test("calls while a request is under way ask for nothing, and a failed page is asked for again", async () => {
  const asked: string[] = [];
  let fails = true;
  const list = new PagedItems<number>((cursor) => {
    asked.push(cursor ?? "");
    return fails ? Promise.reject(new Error("away")) : Promise.resolve(PAGES[cursor ?? ""]!);
  });
  await Promise.all([list.more(), list.more()]);
  assert.deepEqual([asked, (list.error.value as Error).message, list.is_busy.value], [[""], "away", false]);
  fails = false;
  await list.more();
  assert.deepEqual([asked, list.error.value, list.items.value], [["", ""], null, [1, 2]]);
});

Deno.test("an answer after the end changes nothing", async () => {
  let answer = (_page: { items: number[]; next_cursor: null }) => {};
  const list = new PagedItems<number>(() => new Promise((resolve) => answer = resolve));
  const asked = list.more();
  list.close();
  answer({ items: [1], next_cursor: null });
  await asked;
  assert.deepEqual(list.items.value, []);
});
