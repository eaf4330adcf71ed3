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
  for (const base_url of ["http://127.0.0.1:1", "https://me:secret@env.example/a/b", "http://[::1]:80/"]) {
    assert.deepEqual(problemsOf({ type: "http", base_url }), []);
  }
  for (const base_url of ["http://h:x", "http://[::1", "http://a,b/", "http://h/?a=1", "http://h/#a"]) {
    assert.deepEqual(problemsOf({ type: "http", base_url }), [["base_url", false]], base_url);
  }
  const http = { type: "http", base_url: "http://h" };
  assert.deepEqual(problemsOf({ ...http, tools: { default: "files" } }), [["tools.default", false]]);
  assert.deepEqual(problemsOf({ ...http, scenario_toolsets: ["files"] }), [["scenario_toolsets", false]]);
  assert.deepEqual(problemsOf({ type: "container" }), [["profile", true]]);
  assert.deepEqual(problemsOf({ type: "container", profile: "python" }), []);
  assert.deepEqual(problemsOf({ type: "container", profile: "custom" }), [["image", true]]);
  assert.deepEqual(problemsOf({ type: "container", profile: "custom", image: "a@sha256:1" }), []);
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
