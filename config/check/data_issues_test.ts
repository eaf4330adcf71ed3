import assert from "node:assert/strict";
import { z } from "zod";
import { describeIssue } from "./data_issues.ts";

const schema = z.strictObject({
  id: z.union([z.string(), z.number()]),
  kind: z.enum(["a", "b"]),
  count: z.number().int().min(1).max(9),
  inner: z.strictObject({ on: z.boolean().optional() }).optional(),
});

Deno.test("a problem names its field, the expected and the actual value", () => {
  const said = (value: unknown) => schema.safeParse(value).error!.issues.map((i) => describeIssue(i, value));
  const whole = { id: 1, kind: "a", count: 1 };
  assert.deepEqual(said({ ...whole, id: true }), ["id: must be a string or a number, not true"]);
  assert.deepEqual(said({ id: 1, kind: "a" }), ["count: is missing: a number"]);
  assert.deepEqual(said({ ...whole, kind: "c" }), ['kind: must be "a" or "b", not "c"']);
  assert.deepEqual(said({ ...whole, count: 0 }), ["count: must be at least 1, not 0"]);
  assert.deepEqual(said({ ...whole, count: 10 }), ["count: must be at most 9, not 10"]);
  assert.deepEqual(said({ ...whole, count: 1.5 }), ["count: must be an integer, not 1.5"]);
  assert.deepEqual(said({ ...whole, inner: { on: "x", x: 1, y: 2 } }), [
    'inner.on: must be true or false, not "x"',
    'inner: unknown fields "x", "y"',
  ]);
  assert.deepEqual(said(null), ["must be an object, not null"]);
  assert.deepEqual(said({ ...whole, inner: [] }), ["inner: must be an object, not a list"]);
  assert.deepEqual(said({ ...whole, count: {} }), ["count: must be a number, not an object"]);
});

Deno.test("for a union the problem of the best matching member is reported", () => {
  const either = z.object({
    of: z.discriminatedUnion("type", [
      z.object({ type: z.literal("one"), a: z.string() }),
      z.object({ type: z.literal("two") }),
    ]),
    or: z.union([z.string(), z.object({ deep: z.object({ x: z.number() }) })]).optional(),
  });
  const said = (value: unknown) => either.safeParse(value).error!.issues.map((i) => describeIssue(i, value));
  assert.deepEqual(said({ of: { type: "three" } }), ['of.type: must be "one" or "two", not "three"']);
  assert.deepEqual(said({ of: { type: "one", a: 1 } }), ["of.a: must be a string, not 1"]);
  assert.deepEqual(said({ of: { type: "two" }, or: { deep: {} } }), ["or.deep.x: is missing: a number"]);
});
