import assert from "node:assert/strict";
import { nextToken, nextTrained, shownToken } from "./token_steps.ts";

Deno.test("the keys of a list of tokens stop at its ends", () => {
  const after = (key: string, at: number) => nextToken(key, at, 3);
  assert.deepEqual([after("ArrowRight", -1), after("ArrowRight", 0), after("ArrowDown", 2)], [0, 1, 2]);
  assert.deepEqual([after("ArrowLeft", 2), after("ArrowUp", 0), after("ArrowLeft", -1)], [1, 0, 0]);
  assert.deepEqual([after("Home", 2), after("End", -1), after("a", 1)], [0, 2, null]);
  assert.equal(nextToken("ArrowRight", -1, 0), null);
});

Deno.test("no token is invisible, and a line break stays one", () => {
  assert.equal(shownToken("a\n\n"), "a↵\n↵\n");
  assert.deepEqual([shownToken("  "), shownToken(" a")], ["␣␣", " a"]);
  assert.deepEqual([shownToken(""), shownToken("\t"), shownToken("\r\n")], ["∅", "⇥\t", "␍↵\n"]);
});

Deno.test("the next trained part begins after the place, or is the first one again", () => {
  const tokens = [false, true, true, false, true].map((trained) => ({ trained }));
  assert.deepEqual([-1, 1, 2, 4].map((at) => nextTrained(tokens, at)), [1, 4, 4, 1]);
  assert.equal(nextTrained([{ trained: false }], -1), null);
});
