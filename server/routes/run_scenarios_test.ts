import assert from "node:assert/strict";
import { scenarioGroupsOf, writeObserved } from "../../runs/views/observed_testing.ts";
import { RUN_PATH, withServer } from "../trajectories_testing.ts";

const SCENARIOS = `${RUN_PATH}/scenarios`;

const ODD = "z/ü %2F";

function test(name: string, body: Parameters<typeof withServer>[0]): void {
  Deno.test({ name, sanitizeOps: true, sanitizeResources: true, fn: () => withServer(body) });
}

test("scenarios are in the order of their file, with their pass rate by update", async (directory, send) => {
  await writeObserved(directory, { updates: 3, groups: scenarioGroupsOf });
  const { json } = await send(SCENARIOS);
  const third = { attempts: 3, passes: 1, failed: 0, pass_rate: 1 / 3, reward_mean: 0.5 / 3 };
  const rates = (passes: number) => ({
    attempts: 2,
    passes,
    failed: 0,
    pass_rate: passes / 2,
    reward_mean: passes / 2,
  });
  assert.deepEqual(json, {
    scenarios: [
      { scenario: ODD, line: 1, ...third, updates: [{ update: 2, ...third }] },
      {
        ...{
          scenario: "b",
          line: 2,
          attempts: 6,
          passes: 5,
          failed: 0,
          pass_rate: 5 / 6,
          reward_mean: 5 / 6,
        },
        updates: [{ update: 1, ...rates(1) }, { update: 2, ...rates(2) }, { update: 3, ...rates(2) }],
      },
    ],
    next_cursor: null,
    skipped_lines: 0,
  });
  const first = await send(`${SCENARIOS}?limit=1`);
  const rest = await send(`${SCENARIOS}?limit=1&cursor=${first.json.next_cursor}`);
  assert.deepEqual([...first.json.scenarios, ...rest.json.scenarios], json.scenarios);
});

test("a scenario has its groups over updates", async (directory, send) => {
  await writeObserved(directory, { updates: 3, every: 3, groups: scenarioGroupsOf });
  const { json } = await send(`${SCENARIOS}/b?limit=2`);
  const { groups, next_cursor, ...scenario } = json;
  assert.deepEqual(scenario, {
    ...{ scenario: "b", line: 2, attempts: 6, passes: 5, failed: 0, pass_rate: 5 / 6, reward_mean: 5 / 6 },
    skipped_lines: 0,
  });
  assert.deepEqual(
    groups.map((group: Record<string, unknown>) => [group.update, group.pass_rate, group.texts_kept]),
    [
      [1, 0.5, true],
      [2, 1, false],
    ],
  );
  assert.deepEqual(groups[0], {
    ...{ update: 1, group: 0, time: "2026-01-01T00:00:00.000Z", status: "kept" },
    ...{ attempts: 2, passes: 1, failed: 0, pass_rate: 0.5, reward_mean: 0.5, texts_kept: true },
  });
  const rest = await send(`${SCENARIOS}/b?limit=2&cursor=${next_cursor}`);
  assert.deepEqual([rest.json.groups[0].update, rest.json.next_cursor], [3, null]);
  const odd = await send(`${SCENARIOS}/${encodeURIComponent(ODD)}`);
  assert.deepEqual([odd.json.scenario, odd.json.groups.length], [ODD, 1]);
});

test("an unknown scenario is 404 at its place", async (directory, send) => {
  await writeObserved(directory, { updates: 1 });
  for (const id of ["x", "__proto__", "constructor", "%00", "%F0%9F%98%80", "y".repeat(8000)]) {
    const { status, json } = await send(`${SCENARIOS}/${id}`);
    assert.deepEqual([status, json.errors[0].pointer, json.errors[0].code], [
      404,
      "/path/scenario",
      "not_found",
    ]);
  }
});
