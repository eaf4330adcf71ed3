import assert from "node:assert/strict";
import { join } from "node:path";
import { withFolder } from "../../tests/folder.ts";
import { MAX_RUNS, ObservedRuns } from "./observed_runs.ts";
import { scenarioGroupsOf, writeObserved } from "./observed_testing.ts";
import { LineTables, MAX_LINES, UpdateLines } from "./update_lines.ts";

function test(name: string, body: (directory: string) => Promise<void>): void {
  Deno.test({ name, sanitizeOps: true, sanitizeResources: true, fn: () => withFolder(body) });
}

Deno.test("the directory that was used longest ago is forgotten first", () => {
  const runs = new ObservedRuns();
  const [first, second] = [runs.in("0"), runs.in("1")];
  for (let i = 2; i < MAX_RUNS; i++) runs.in(String(i));
  assert.equal(runs.in("0"), first);
  runs.in("one more");
  assert.equal(runs.in("0"), first);
  assert.notEqual(runs.in("1"), second);
});

test("lines above the most that are found count as skipped", async (directory) => {
  const path = join(directory, "update_000001.jsonl");
  for (const [count, skipped] of [[MAX_LINES, 0], [MAX_LINES + 1, 1]] as const) {
    const lines = Array.from({ length: count }, (_, group) => `{"group":${group},"facts":0}\n`);
    await Deno.writeTextFile(path, lines.join(""));
    using file = await UpdateLines.open(directory, 1, { tables: new LineTables() });
    assert.deepEqual([file!.lines.length, file!.skipped_lines], [MAX_LINES, skipped]);
  }
});

test("lines are found once for a file, and again when it is replaced", async (directory) => {
  const tables = new LineTables();
  await writeObserved(directory, { updates: 1 });
  const linesOf = async () => {
    using file = await UpdateLines.open(directory, 1, { tables });
    return file!.lines;
  };
  const found = await linesOf();
  assert.equal(await linesOf(), found);
  await writeObserved(directory, { updates: 2, every: 5, groups: scenarioGroupsOf });
  assert.notEqual(await linesOf(), found);
});
