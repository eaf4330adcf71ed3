import assert from "node:assert/strict";
import { describeKeys } from "./describe.ts";
import { ENVIRONMENT_KINDS, environmentProblems } from "./environments.ts";
import { environmentSchema } from "./sections/environment.ts";

const problemsOf = (keys: object) =>
  environmentProblems(environmentSchema.parse(keys)).map(({ key, missing }) => [key, missing ?? false]);

Deno.test("an environment says where tools run, and what its type needs", () => {
  assert.deepEqual(problemsOf({}), [["type", true]]);
  assert.deepEqual(problemsOf({ type: "local" }), [["type", false]]);
  assert.deepEqual(problemsOf({ type: "local", allow_unsandboxed: true }), []);
  assert.deepEqual(problemsOf({ type: "http" }), [["base_url", true]]);
  assert.deepEqual(problemsOf({ type: "http", base_url: "http://127.0.0.1:1" }), []);
  assert.deepEqual(problemsOf({ type: "container" }), []);
  assert.match(
    environmentProblems(environmentSchema.parse({}))[0]!.message,
    /^is missing: "container", "local" or "http"$/,
  );
});

Deno.test("the keys of a type are keys of the section, and of no other type", () => {
  const known = describeKeys().map(({ key }) => key);
  const own = Object.values(ENVIRONMENT_KINDS).flatMap(({ keys }) => keys);
  assert.equal(new Set(own).size, own.length);
  for (const key of own) {
    const name = `agent.environment.${key}`;
    assert.ok(known.some((found) => found === name || found.startsWith(`${name}.`)), key);
  }
});
