import assert from "node:assert/strict";
import { join } from "node:path";
import { writeObserved } from "../../runs/views/observed_testing.ts";
import { withFolder } from "../../tests/folder.ts";
import { testApp } from "../app_testing.ts";
import { isApi } from "../routing/route.ts";
import { ROUTES } from "../route_table.ts";
import { RUN_PATH, sourceOf } from "../trajectories_testing.ts";
import { viewRoutes } from "../view_routes.ts";

function test(name: string, body: (directory: string) => Promise<void>): void {
  Deno.test({ name, sanitizeOps: true, sanitizeResources: true, fn: () => withFolder(body) });
}

function viewApp(directory: string) {
  const runs = sourceOf(directory);
  return testApp({ runs, routes: viewRoutes(runs), probeDevices: () => Promise.resolve([]) });
}

/** The paths of view mode in the contract, of which some are not built. */
const SERVED = [
  "/v1/capabilities",
  "/v1/openapi.json",
  "/v1/runs",
  "/v1/runs/{id}",
  "/v1/runs/{id}/health",
  "/v1/runs/{id}/metrics",
  "/v1/runs/{id}/scenarios",
  "/v1/runs/{id}/scenarios/{scenario}",
  "/v1/runs/{id}/trajectories",
  "/v1/runs/{id}/trajectories/search",
  "/v1/runs/{id}/trajectories/updates/{update}",
  "/v1/runs/{id}/trajectories/updates/{update}/groups/{group}",
  "/v1/runs/{id}/trajectories/updates/{update}/groups/{group}/diff",
  "/v1/runs/{id}/trajectories/updates/{update}/groups/{group}/members/{member}/tokens",
];

test("view mode answers GET on its routes, 405 to other methods on them, and 404 elsewhere", async (directory) => {
  await writeObserved(directory, { updates: 1 });
  const { send } = viewApp(directory);
  const values: Record<string, string> = {
    ...{ id: "run_view", update: "1", group: "0", member: "0", scenario: "s0" },
  };
  for (const template of new Set(ROUTES.map(({ path }) => path))) {
    const path = template.replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "x");
    const { status } = await send(path + (template.endsWith("diff") ? "?a=0&b=1" : ""));
    const built = ROUTES.find((route) => route.path === template && route.method === "GET")?.handler;
    const is_own = ["/v1/runs", "/v1/runs/{id}"].includes(template);
    assert.equal(status, SERVED.includes(template) ? (built || is_own ? 200 : 501) : 404, template);
    for (const method of ["POST", "PATCH", "DELETE", "PUT"]) {
      const answer = await send(path, { method });
      assert.equal(answer.status, SERVED.includes(template) ? 405 : 404, `${method} ${template}`);
      if (answer.status === 405) assert.equal(answer.headers.allow, "GET, HEAD, OPTIONS");
    }
    assert.ok(SERVED.includes(template) || !isApi(template) || status === 404);
  }
});

test("the run of a finished directory is what the directory tells", async (directory) => {
  await writeObserved(directory, { updates: 10 });
  const { send } = viewApp(directory);
  const { json } = await send(RUN_PATH);
  const time = "2026-01-01T00:00:00.000Z";
  assert.deepEqual(json, {
    ...{ id: "run_view", name: "demo", notes: "", tags: [], algorithm: "agent_grpo" },
    ...{ state: "completed", state_reason: null, created_at: time, started_at: null, ended_at: time },
    progress: { update: 10, updates: 10, step: 20, eta_seconds: null, phase: null },
    ...{ config: {}, plan: null, parent: null, error: null, deterministic: true },
    last_metrics: { "reward/mean": 1 },
  });
  assert.deepEqual((await send("/v1/runs")).json, { runs: [json], next_cursor: null });
  const filtered = async (query: string) => (await send(`/v1/runs?${query}`)).json.runs.length;
  assert.equal(await filtered("state=completed&algorithm=agent_grpo&name=demo"), 1);
  for (const other of ["state=failed", "algorithm=sft", "name=x"]) assert.equal(await filtered(other), 0);
  assert.equal((await send("/v1/runs?state=done")).status, 422);
  assert.equal((await send("/v1/runs/run_other")).status, 404);
});

test("the run has the algorithm that the index names, if this program knows it", async (directory) => {
  const { send } = viewApp(directory);
  for (
    const [written, shown] of [["preference", "preference"], ["of_another_build", "agent_grpo"]] as const
  ) {
    await writeObserved(directory, { updates: 1, algorithm: written });
    assert.equal((await send(RUN_PATH)).json.algorithm, shown);
  }
});

test("a directory can be viewed while it is written", async (root) => {
  const directory = join(root, "demo_run", "trajectories");
  await Deno.mkdir(directory, { recursive: true });
  const { send } = viewApp(directory);
  const empty = (await send(RUN_PATH)).json;
  assert.deepEqual(
    [empty.name, empty.state, empty.created_at, empty.progress.update, empty.progress.updates],
    ["demo_run", "running", "2025-12-31T00:00:00.000Z", 0, null],
  );
  assert.match(empty.state_reason, /^Update 0 is the last one in the directory/);
  const seen: number[] = [];
  for (let updates = 1; updates <= 3; updates++) {
    await writeObserved(directory, { updates, every: 2 });
    const { json } = await send(RUN_PATH);
    seen.push(json.progress.update);
    assert.match(json.state_reason, new RegExp(`^Update ${updates} of 10 is the last`));
    const group = await send(`${RUN_PATH}/trajectories/updates/${updates}/groups/0`);
    assert.equal(group.json.texts_kept, true);
  }
  assert.deepEqual(seen, [1, 2, 3]);
  // Another run replaces the directory.
  await Deno.remove(directory, { recursive: true });
  assert.equal((await send(RUN_PATH)).json.progress.update, 0);
  await writeObserved(directory, { updates: 1, run_name: "next" });
  assert.deepEqual((await send(RUN_PATH)).json.name, "next");
});

test("no answer of view mode has a path of this machine", async (directory) => {
  await writeObserved(directory, { updates: 2 });
  const { send } = viewApp(directory);
  const group = `${RUN_PATH}/trajectories/updates/1/groups/0`;
  const targets = [
    ...["/v1/runs", RUN_PATH, `${RUN_PATH}/trajectories`, `${RUN_PATH}/scenarios`, "/v1/capabilities"],
    ...[group, `${group}/members/0/tokens`, `${RUN_PATH}/trajectories/updates/9`],
  ];
  for (const target of targets) assert.ok(!(await send(target)).body.includes(directory), target);
});

test("the list of view mode refuses a cursor that is not its own", async (directory) => {
  await writeObserved(directory, { updates: 1 });
  const { send } = viewApp(directory);
  for (const cursor of ["", "AAAA", "!", btoa("runs:run_other")]) {
    const { status, json } = await send(`/v1/runs?cursor=${cursor}`);
    assert.deepEqual([status, json.errors?.[0].pointer], [422, "/query/cursor"], cursor);
  }
});
