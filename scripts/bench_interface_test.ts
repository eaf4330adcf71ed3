import assert from "node:assert/strict";
import { withFolder } from "../tests/folder.ts";
import { ViewServer } from "../tests/browser/world.ts";
import { summary } from "./bench_interface.ts";
import { writeLargeRun } from "./bench_interface/large_run.ts";

Deno.test("the long run of the bench is read as it was written", async () => {
  await withFolder(async (folder) => {
    await writeLargeRun(folder, { updates: 3, metrics: 12, groups: 2, attempts_per_group: 4 });
    await using view = await ViewServer.start(folder);
    const ask = async (path: string) => await (await fetch(`${view.url}/v1/runs/run_view${path}`)).json();
    assert.equal((await ask("/metrics?limit=1000")).samples.length, 3 * 12);
    const { groups, skipped_lines } = await ask("/trajectories/updates/3");
    const sizes = groups.map(({ members }: { members: unknown[] }) => members.length);
    assert.deepEqual([sizes, skipped_lines], [[4, 4], 0]);
  });
});

Deno.test("frame times are told by quantiles", () => {
  const times = Array.from({ length: 100 }, (_, i) => 100 - i);
  assert.deepEqual(summary(times), { frames: 100, p50_ms: 51, p95_ms: 96, max_ms: 100 });
});
