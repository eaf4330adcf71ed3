import assert from "node:assert/strict";
import type { EventData } from "../../runs/record/event.ts";
import { startTestRun } from "../../runs/run_fake.ts";
import { withFolder } from "../../tests/folder.ts";
import { ScriptedEngine } from "../../trainer/engine/scripted_engine_fake.ts";
import { testApp } from "../app_testing.ts";
import { metrics, resumed, runsOf, storedRun, writeEvents } from "../runs_testing.ts";

type Result = { rule: string; level: string; value: number; since_update: number | null };

async function healthOf(events: readonly EventData[]): Promise<Result[]> {
  let rules: Result[] = [];
  await withFolder(async (root) => {
    const run = storedRun(root, "run_A");
    await writeEvents(run.directory!, events);
    rules = (await testApp({ runs: runsOf(run) }).send("/v1/runs/run_A/health")).json.rules;
  });
  return rules;
}

const brief = (rules: Result[]) => rules.map(({ rule, level, since_update }) => [rule, level, since_update]);

Deno.test("the rules of a run have level, value, threshold, update and advice", async () => {
  const [result, ...more] = await healthOf(
    [1, 2, 3].map((n) => metrics(n, { "agent/truncated_fraction": n / 4 })),
  );
  assert.deepEqual(more, []);
  const { advice, ...rest } = result as Result & { advice: string };
  assert.deepEqual(rest, {
    rule: "truncated",
    level: "warning",
    value: 0.5,
    threshold: 0.2,
    since_update: 1,
  });
  assert.match(advice, /truncation = "min_reward"/);
});

Deno.test("what a resumed run has not repeated does not count", async () => {
  const failed = (n: number, value: number) => metrics(n, { "eval/failed_fraction": value });
  assert.deepEqual(brief(await healthOf([failed(0, 0), failed(2, 1), resumed(1)])), [[
    "heldout_failed",
    "ok",
    null,
  ]]);
  assert.deepEqual(brief(await healthOf([failed(0, 0), failed(2, 1), resumed(1), failed(2, 0.5)])), [
    ["heldout_failed", "warning", 2],
  ]);
});

Deno.test("a long run is judged by its start, its evaluations and its newest updates", async () => {
  const all = Array.from({ length: 2000 }, (_, i) => {
    const update = i + 1;
    const evaluation = update === 500
      ? { "eval/pass_rate": 0.875 }
      : update === 2000
      ? { "eval/pass_rate": 0.25 }
      : {};
    return metrics(update, {
      "policy/entropy": update <= 10 ? 4 : 0.5,
      "agent/failed_fraction": update === 700 ? 0 : 1,
      ...evaluation,
    });
  });
  assert.deepEqual(brief(await healthOf(all)), [
    // Broken since the eleventh update and longer ago than is looked at.
    ["entropy_collapse", "critical", 15],
    ["failed", "warning", 1],
    ["heldout_falls", "warning", 2000],
  ]);
});

Deno.test("a real run and one without metrics have a health", async () => {
  await withFolder(async (root) => {
    const run = await startTestRun({ root, newEngine: (refuse) => new ScriptedEngine({ refuse }).client });
    await run.ended;
    const { send } = testApp({ runs: runsOf(storedRun(root, "test"), storedRun(root, "run_B")) });
    const { rules } = (await send("/v1/runs/test/health")).json;
    assert.ok(rules.some(({ rule }: Result) => rule === "heldout_failed"));
    assert.deepEqual((await send("/v1/runs/run_B/health")).json, { rules: [] });
    assert.equal((await send("/v1/runs/run_X/health")).json.errors[0].pointer, "/path/id");
  });
});
