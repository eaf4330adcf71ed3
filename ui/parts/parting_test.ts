import assert from "node:assert/strict";
import type { TrajectoryMember, TrajectoryToken } from "../../api/types.ts";
import { partingsOf } from "./parting.ts";

const member = (text: string, result: string) =>
  ({ turns: [{ turn: 0, text, calls: [{ index: 0, result }] }] }) as unknown as TrajectoryMember;
const token = (text: string) => ({ text }) as TrajectoryToken;

Deno.test("attempts part in the model's text, or else in a tool's result", () => {
  const at = { turn: 0, a_token: token("b"), b_token: token("c") };
  assert.deepEqual(partingsOf(member("ab", "x"), member("ac", "y"), at), [
    { text: { start: 1, end: 2 }, result: null },
    { text: { start: 1, end: 2 }, result: null },
  ]);
  assert.deepEqual(partingsOf(member("a", "ok b"), member("a", "ok c"), at), [
    { text: null, result: { index: 0, mark: { start: 3, end: 4 } } },
    { text: null, result: { index: 0, mark: { start: 3, end: 4 } } },
  ]);
});

Deno.test("nothing is marked where attempts do not part, or part in a turn that one of them lacks", () => {
  const a = member("a", "x"), none = { turns: [] } as unknown as TrajectoryMember;
  assert.equal(partingsOf(a, a, { turn: null, a_token: null, b_token: null }), null);
  assert.equal(partingsOf(a, none, { turn: 0, a_token: token("a"), b_token: null }), null);
  // They part in what lies between the texts, such as the template's tokens.
  assert.deepEqual(partingsOf(a, a, { turn: 0, a_token: token("<a>"), b_token: token("<b>") }), [
    ...[{ text: null, result: null }, { text: null, result: null }],
  ]);
});
