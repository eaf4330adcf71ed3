import assert from "node:assert/strict";
import { describeKeys } from "./describe.ts";
import { ENVIRONMENT_KINDS, environmentProblems, missingPart } from "./environments.ts";
import { environmentSchema } from "./sections/environment.ts";

const problemsOf = (keys: object) =>
  environmentProblems(environmentSchema.parse(keys)).map(({ key, missing }) => [key, missing ?? false]);

Deno.test("an environment says where tools run, and what its type needs", () => {
  assert.deepEqual(problemsOf({}), [["type", true]]);
  assert.deepEqual(problemsOf({ type: "local" }), [["type", false]]);
  assert.deepEqual(problemsOf({ type: "local", allow_unsandboxed: true }), []);
  assert.deepEqual(problemsOf({ type: "http" }), [["base_url", true]]);
  for (const base_url of ["http://127.0.0.1:1", "https://env.example/a/b", "http://[::1]:80/"]) {
    assert.deepEqual(problemsOf({ type: "http", base_url }), []);
  }
  for (const base_url of ["http://h:x", "http://[::1", "http://a,b/", "http://h/?a=1", "http://h/#a"]) {
    assert.deepEqual(problemsOf({ type: "http", base_url }), [["base_url", false]], base_url);
  }
  for (const base_url of ["http://me:secret@h", "https://me@h/", "http://:secret@h"]) {
    assert.deepEqual(environmentProblems(environmentSchema.parse({ type: "http", base_url })), [{
      key: "base_url",
      message: "must have no user name or password",
      hint: "name the environment variable of a key in api_key_env",
    }]);
  }
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

/** A value that a key may have, and that does something. */
const GIVEN: Record<string, unknown> = {
  allow_unsandboxed: true,
  allow_network: true,
  base_url: "http://h",
  profile: "python",
  "pool.max_live": 2,
  "limits.cpus": 2,
  "limits.memory_mb": 64,
  scenario_toolsets: ["files"],
  toolsets: { own: { version: 1, tools: ["read_file"] } },
  protect: ["tests/**"],
};

Deno.test("a key that means nothing for the type is refused, with what to do", () => {
  const plain = {
    local: { type: "local", allow_unsandboxed: true },
    http: { type: "http", base_url: "http://h" },
  };
  const sandbox = ["protect", "tools.default", "scenario_toolsets", "toolsets"];
  // The keys of a container are refused with their part until it is built.
  const of_container = missingPart(ENVIRONMENT_KINDS.container) === null
    ? ENVIRONMENT_KINDS.container.keys.map((key) => key === "pool" ? "pool.max_live" : key)
    : [];
  const meaningless = {
    local: [...ENVIRONMENT_KINDS.http.keys, ...of_container],
    http: [...ENVIRONMENT_KINDS.local.keys, ...of_container, ...sandbox],
  };
  for (const type of ["local", "http"] as const) {
    assert.deepEqual(environmentProblems(environmentSchema.parse(plain[type])), []);
    for (const key of meaningless[type]) {
      const value = key.split(".").reduceRight<unknown>(
        (value, part) => ({ [part]: value }),
        GIVEN[key] ?? "x",
      );
      const given = { ...plain[type], ...value as object };
      const [problem, ...others] = environmentProblems(environmentSchema.parse(given));
      assert.deepEqual([problem?.message, others], [`has no meaning with type "${type}"`, []], key);
      assert.ok(key.startsWith(problem!.key), key);
      assert.match(problem!.hint!, /^remove it/, key);
    }
  }
  for (const key of sandbox) {
    const value = key.split(".").reduceRight<unknown>(
      (value, part) => ({ [part]: value }),
      GIVEN[key] ?? "x",
    );
    assert.deepEqual(problemsOf({ ...plain.local, ...value as object }), [], key);
  }
});
