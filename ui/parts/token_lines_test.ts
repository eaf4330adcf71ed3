import assert from "node:assert/strict";
import fc from "fast-check";
import {
  columnsOf,
  firstShown,
  lineOf,
  linesOf,
  scrollFor,
  shownText,
  tokenAfterKey,
} from "./token_lines.ts";

Deno.test("tokens fill lines of a width, and a line ends with a line end", () => {
  // Each token takes its characters and one column of space.
  assert.deepEqual(linesOf(["abc", "de", "f", "ghij"], 9, 1), [0, 3]);
  assert.deepEqual(linesOf(["a", "b\n", "c", "d"], 80, 1), [0, 2]);
  assert.deepEqual(linesOf(["a", "x".repeat(50), "b"], 9, 1), [0, 1, 2]);
  assert.deepEqual(linesOf([], 9, 1), []);
});

Deno.test("no line is wider than the width unless it has one token, and every token has a line", () => {
  const text = fc.constantFrom("a", "bcd", "\n", "x\n", "漢字", "", "\t", "y".repeat(30));
  fc.assert(fc.property(fc.array(text, { minLength: 1 }), fc.integer({ min: 4, max: 40 }), (texts, width) => {
    const starts = linesOf(texts, width, 1);
    assert.equal(starts[0], 0);
    starts.forEach((start, line) => {
      const inside = texts.slice(start, starts[line + 1]);
      const used = inside.reduce((sum, each) => sum + columnsOf(shownText(each)) + 1, 0);
      assert.ok(inside.length === 1 || used <= width, `${used} of ${width}`);
      assert.ok(inside.slice(0, -1).every((each) => !each.endsWith("\n")));
      assert.equal(lineOf(starts, start), line);
    });
  }));
});

Deno.test("wide characters take two columns, and nothing that is drawn breaks a line or turns it", () => {
  assert.deepEqual(["abc", "漢字", "😀", "é"].map(columnsOf), [3, 4, 2, 1]);
  assert.deepEqual(["a\nb", "\t", "", "\u202ex", "\u0000"].map(shownText), ["a⏎b", "⇥", "∅", "␀x", "␀"]);
});

Deno.test("keys move by token, by line, by page and to both ends", () => {
  const starts = [0, 4, 6, 9], at = { starts, count: 12, page: 2 };
  const moves: [string, number, number][] = [
    ...([["ArrowRight", 0, 1], ["ArrowRight", 11, 11], ["ArrowLeft", 0, 0]] as [string, number, number][]),
    ...([["ArrowDown", 1, 5], ["ArrowDown", 3, 5], ["ArrowUp", 5, 1]] as [string, number, number][]),
    ...([["ArrowUp", 2, 2], ["PageDown", 0, 6], ["PageDown", 7, 10]] as [string, number, number][]),
    ...([["PageUp", 10, 5], ["Home", 7, 0], ["End", 7, 11]] as [string, number, number][]),
  ];
  for (const [key, from, to] of moves) assert.equal(tokenAfterKey(key, from, at), to, `${key} from ${from}`);
  assert.equal(tokenAfterKey("a", 0, at), null);
});

Deno.test("the tokens open where the address says, else where the model begins", () => {
  const turns = [{ start: null }, { start: 333 }, { start: 360 }];
  assert.deepEqual(["12", "0", null, "", "-1", "x", "1e3"].map((wanted) => firstShown(wanted, turns)), [
    ...[12, 0, 333, 333, 333, 333, 333],
  ]);
  assert.equal(firstShown(null, []), 0);
});

Deno.test("a line beside the view scrolls by itself, one far away comes to the top with the one before it", () => {
  const of = (at: number) => scrollFor(at, { top: 100, height: 100, line: 10 });
  assert.deepEqual([100, 180, 90, 190, 191, 500, 80, 5].map(of), [100, 100, 90, 110, 181, 490, 70, 0]);
});
