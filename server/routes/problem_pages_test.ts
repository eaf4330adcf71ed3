import assert from "node:assert/strict";
import { testApp } from "../app_testing.ts";
import { htmlPage } from "../http/html.ts";
import {
  ALL_PROBLEM_TYPES,
  CODE_HELP,
  PROBLEM_TYPES,
  type ProblemCode,
  type ProblemType,
} from "../http/problem_types.ts";
import { ROUTES } from "../route_table.ts";
import { problemsOf } from "../routing/route_problems.ts";

const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; " +
  "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

Deno.test("each type of problem has a page for people, without the token", async () => {
  const { send } = testApp({ toml: 'auth_token = "t"' });
  for (const kind of ALL_PROBLEM_TYPES) {
    const { status, headers, body } = await send(`/problems/${kind}`);
    assert.deepEqual([status, headers["content-type"]], [200, "text/html; charset=utf-8"], kind);
    const text = body.replaceAll(/&#(\d+);/g, (_, code) => String.fromCharCode(code));
    const { title, when, action, codes, status: expected } = PROBLEM_TYPES[kind];
    for (const part of [title, when, action, `HTTP status ${expected}`]) {
      assert.ok(text.includes(part), `${kind}: ${part}`);
    }
    for (const [code, meaning] of Object.entries(CODE_HELP)) {
      assert.equal(text.includes(meaning), codes.includes(code as ProblemCode), `${kind}: ${code}`);
    }
  }
});

Deno.test("a page of no type is 404 as plain text", async () => {
  const { send } = testApp();
  for (const kind of ["nothing", "__proto__", "toString", "conflict/", "", "%00"]) {
    const { status, headers, body } = await send(`/problems/${kind}`);
    assert.deepEqual([status, headers["content-type"]], [404, "text/plain; charset=utf-8"], kind);
    assert.ok(!body.includes("<"), kind);
  }
  assert.equal((await send("/problems/conflict", { hosts: ["evil.com"] })).status, 401);
  assert.equal((await send("/problems/conflict", { method: "POST" })).status, 405);
});

Deno.test("HTML comes with one strict policy, and no other answer has it", async () => {
  const { send } = testApp();
  const page = await send("/problems/internal");
  assert.equal(page.headers["content-security-policy"], POLICY);
  assert.deepEqual([page.headers["referrer-policy"], page.headers["x-content-type-options"]], [
    "no-referrer",
    "nosniff",
  ]);
  assert.ok(!/<script|<style|<link|style=|\son\w+=|src=/i.test(page.body), page.body);
  assert.equal((await send("/v1/health")).headers["content-security-policy"], undefined);
  assert.ok(htmlPage("<script>\"'&", "").includes("<title>&#60;script&#62;&#34;&#39;&#38;</title>"));
});

Deno.test("the codes of a type are those that some route declares for it", () => {
  // Before a route is known there are these.
  const declared: Partial<Record<ProblemType, Set<string>>> = {
    "unauthorized": new Set(["unauthorized"]),
    "not-found": new Set(["not_found"]),
    "method-not-allowed": new Set(),
  };
  for (const route of ROUTES) {
    for (const [type, codes] of Object.entries(problemsOf(route)) as [ProblemType, readonly string[]][]) {
      for (const code of codes) (declared[type] ??= new Set()).add(code);
      declared[type] ??= new Set();
    }
  }
  for (const type of ALL_PROBLEM_TYPES) {
    assert.deepEqual(
      [...declared[type] ?? ["no route has it"]].sort(),
      PROBLEM_TYPES[type].codes.toSorted(),
      type,
    );
  }
});
