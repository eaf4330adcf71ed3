import assert from "node:assert/strict";
import { z } from "zod";
import { VERSION } from "../core/version.ts";
import { budgetCard } from "./resources/capabilities.ts";
import { PROBLEM_TYPES, type ProblemType } from "./http/problem_types.ts";
import { json, route } from "./routing/route.ts";
import { type Sent, TEST_DEVICE as DEVICE, testApp } from "./app_testing.ts";

/** What the API shows of the device. */
const { vendor: _, subgroup_size: __, ...shown } = DEVICE, CARD = { ...shown, left_out: [] as string[] };

/** Checks a problem document: all required fields, and the type of its status. */
function assertProblem(answer: Sent, type: ProblemType): void {
  const { json } = answer;
  assert.equal(answer.headers["content-type"], "application/problem+json");
  assert.equal(answer.status, PROBLEM_TYPES[type].status);
  const { title, status } = PROBLEM_TYPES[type];
  const { detail, errors, trace_id, ...rest } = json;
  assert.deepEqual(rest, { type: `urn:svc:problems/${type}`, title, status, meta: {} });
  assert.equal(trace_id, answer.headers["x-trace-id"]);
  assert.ok(typeof detail === "string" && detail.length > 0 && Array.isArray(errors));
  assert.equal(answer.headers["x-content-type-options"], "nosniff");
  assert.equal(answer.headers["cache-control"], "no-store");
}

Deno.test("a failed probe is repeated", async () => {
  let asked = 0;
  const probe = () => ++asked === 1 ? Promise.reject(new Error("busy")) : Promise.resolve([DEVICE]);
  const { send } = testApp({ probeDevices: probe });
  assertProblem(await send("/v1/capabilities"), "internal");
  assert.deepEqual((await send("/v1/capabilities")).json.devices, [CARD]);
  await send("/v1/capabilities");
  assert.equal(asked, 2);
});

Deno.test("a device shows the contract's fields and no other", async () => {
  const left_out = ["products of segments"], more = { ...DEVICE, vendor: "4318", left_out };
  const { send } = testApp({ probeDevices: () => Promise.resolve([more]) });
  assert.deepEqual((await send("/v1/capabilities")).json.devices, [{ ...CARD, left_out }]);
});

Deno.test("the answer for an unknown path suggests only routes that there are", async () => {
  const { send } = testApp();
  const missing = await send("/v1/nothing");
  assertProblem(missing, "not-found");
  for (const [path] of missing.json.detail.matchAll(/\/v1\/[\w./-]+/g)) {
    assert.equal((await send(path)).status, 200);
  }
});

Deno.test("health reports the version and seconds of uptime", async () => {
  const { send, clock } = testApp();
  await clock.advance(90_999);
  const answer = await send("/v1/health");
  assert.equal(answer.status, 200);
  assert.deepEqual(answer.json, { status: "ok", version: VERSION, uptime_seconds: 90 });
  assert.match(answer.headers["x-trace-id"]!, /^[0-9a-f]{32}$/);
  assert.equal(answer.headers["cache-control"], "no-store");
});

Deno.test("capabilities has the contract's fields, and devices are probed once", async () => {
  let probes = 0;
  const probe = () => Promise.resolve([(probes++, DEVICE)]);
  const { send } = testApp({ toml: `auth_token = "t"\n[limits]\nvram = 0.5`, probeDevices: probe });
  const headers = { authorization: "Bearer t" };
  const { json } = await send("/v1/capabilities", { headers });
  assert.equal((await send("/v1/capabilities", { headers })).status, 200);
  assert.equal(probes, 1);
  assert.deepEqual(Object.keys(json), [
    "version",
    "features",
    "devices",
    "budgets",
    "algorithms",
    "tensor_types",
    "architectures",
    "environments",
    "limits",
  ]);
  assert.deepEqual(json.features, {
    ui: false,
    auth: true,
    serving_enabled: false,
    mcp: true,
    containers: true,
  });
  assert.deepEqual(json.environments, {
    container: { available: true, reason: null },
    local: true,
    http: true,
  });
  assert.deepEqual(json.devices, [CARD]);
  assert.deepEqual(json.budgets.vram, { requested: 0.5, total_bytes: 1000, effective_bytes: 500 });
  assert.ok(json.budgets.ram.total_bytes > 0);
  assert.deepEqual(json.limits, {
    max_body_bytes: 8388608,
    max_dataset_bytes: 4294967296,
    max_concurrent_runs: 1,
  });
});

Deno.test("capabilities tell whether containers can start, and why not", async () => {
  const answers = [
    { available: false, reason: "Cannot start containers: podman is not installed" },
    { available: true, reason: null },
  ];
  for (const answer of answers) {
    const { send } = testApp({ probeContainers: () => Promise.resolve(answer) });
    assert.deepEqual((await send("/v1/capabilities")).json.environments.container, answer);
  }
});

Deno.test("a budget is a part of the available memory, and null if that is unknown", () => {
  assert.deepEqual(budgetCard("all", 10), { requested: "all", total_bytes: 10, effective_bytes: 10 });
  assert.deepEqual(budgetCard("1KiB", 10), { requested: "1KiB", total_bytes: 10, effective_bytes: 10 });
  assert.deepEqual(budgetCard("1KiB", null), { requested: "1KiB", total_bytes: null, effective_bytes: 1024 });
  assert.deepEqual(budgetCard(0.5, null), { requested: 0.5, total_bytes: null, effective_bytes: null });
});

Deno.test("a wrong method is 405 with Allow, an unknown path 404, OPTIONS 204", async () => {
  const { send } = testApp();
  const wrong = await send("/v1/runs/run_1", { method: "PUT" });
  assertProblem(wrong, "method-not-allowed");
  assert.equal(wrong.headers.allow, "GET, HEAD, PATCH, DELETE, OPTIONS");
  assert.deepEqual(wrong.json.errors, []);
  assertProblem(await send("/v1/plan"), "method-not-allowed");
  assert.equal((await send("/v1/plan", { method: "HEAD" })).status, 405);
  assertProblem(await send("/v1/plan", { method: "TRACE" }), "method-not-allowed");
  for (
    const path of ["/v1", "/v1/", "/v1/nope", "/v1/runs/", "/v1/runs/%zz", "/v1/runs//pause", "/v1//health"]
  ) {
    const answer = await send(path);
    assertProblem(answer, "not-found");
    assert.equal(answer.json.errors[0].code, "not_found", path);
  }
  assertProblem(await send("/v1/x/../health"), "not-found");
  const options = await send("/v1/runs", { method: "OPTIONS" });
  assert.deepEqual([options.status, options.headers.allow, options.body], [
    204,
    "GET, HEAD, POST, OPTIONS",
    "",
  ]);
});

Deno.test("HEAD is GET without the body", async () => {
  const { send } = testApp();
  const answer = await send("/healthz", { method: "HEAD" });
  assert.deepEqual([answer.status, answer.body, answer.headers["content-length"]], [200, "", "15"]);
  assert.equal((await send("/v1/nope", { method: "HEAD" })).status, 404);
});

Deno.test("with a token every API request needs it, unknown routes too; healthz does not", async () => {
  const { send } = testApp({ toml: `auth_token = "t0ken"` });
  for (const target of ["/v1/health", "/v1/nope"]) {
    for (const authorization of [undefined, "Bearer wrong", "Basic t0ken"]) {
      const answer = await send(target, { headers: { authorization } });
      assertProblem(answer, "unauthorized");
      assert.equal(answer.headers["www-authenticate"], "Bearer");
      assert.equal(answer.json.errors[0].code, "unauthorized");
    }
  }
  assert.equal((await send("/v1/health", { headers: { authorization: "Bearer t0ken" } })).status, 200);
  const open = await send("/healthz");
  assert.deepEqual([open.status, open.body], [200, `{"status":"ok"}`]);
});

Deno.test("a wrong Host or Origin is 401 before anything else, in plain text outside the API", async () => {
  const { send } = testApp();
  assertProblem(await send("/v1/nope", { hosts: ["evil.com"] }), "unauthorized");
  const headers = { origin: "http://localhost:3000" };
  assertProblem(await send("/v1/runs", { method: "POST", headers }), "unauthorized");
  const outside = await send("/healthz", { hosts: ["evil.com"] });
  assert.deepEqual([outside.status, outside.headers["content-type"]], [401, "text/plain; charset=utf-8"]);
  assert.equal((await send("/")).status, 404);
  assert.equal((await send("/healthz", { method: "POST" })).headers.allow, "GET, HEAD, OPTIONS");
});

Deno.test("an answer that cannot be written as JSON is a problem too", async () => {
  const wrong = route({
    method: "GET",
    path: "/v1/wrong",
    operation: "wrong",
    summary: "A value that JSON does not have.",
    answers: { 200: { description: "None.", content: { "application/json": z.unknown() } } },
    handler: () => json(200, 1n as unknown),
  });
  for (const toml of ["", "redact_error_paths = true"]) {
    const { send, logged } = testApp({ toml, routes: [wrong] });
    assertProblem(await send("/v1/wrong"), "internal");
    assert.match(String(logged[0]!.message), /BigInt/);
  }
});

Deno.test("a failure is 500 with a trace_id that is also in the log, and no other details", async () => {
  const { send, logged } = testApp({ probeDevices: () => Promise.reject(new Error("secret path /srv/x")) });
  const answer = await send("/v1/capabilities");
  assertProblem(answer, "internal");
  assert.deepEqual(answer.json.errors, []);
  assert.ok(!answer.body.includes("secret"));
  assert.equal(logged.length, 1);
  assert.equal(logged[0]!.trace_id, answer.json.trace_id);
  assert.match(String(logged[0]!.message), /secret path/);
});

Deno.test("another site's page cannot start anything, and its links can be followed", async () => {
  const { send } = testApp();
  const headers = { "sec-fetch-site": "cross-site" };
  assertProblem(await send("/v1/preflight", { method: "POST", headers }), "unauthorized");
  assert.equal((await send("/v1/health", { headers })).status, 200);
  assert.equal((await send("/healthz", { headers })).status, 200);
});

Deno.test("the loopback address to which the server is bound is a Host of it", async () => {
  const { send } = testApp({ toml: 'bind = "127.0.0.2:8471"' });
  assert.equal((await send("/v1/health", { hosts: ["127.0.0.2:8471"] })).status, 200);
  assertProblem(await send("/v1/health", { hosts: ["127.0.0.3:8471"] }), "unauthorized");
  assertProblem(await testApp().send("/v1/health", { hosts: ["127.0.0.2:8471"] }), "unauthorized");
});
