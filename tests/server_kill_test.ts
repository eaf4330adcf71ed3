/**
 * The real server and real runs: a kill -9 of the server in the middle of a run loses nothing, and the resumed run ends
 * with the adapter that `svc train` makes of the same configuration.
 */

import assert from "node:assert/strict";
import { gpuTest } from "../kernels/gpu_testing.ts";
import { withFolder } from "./folder.ts";
import { ServerProcess } from "./server_process.ts";
import { smallSft, trainedBySvc } from "./small_sft.ts";
import { type ShownEvent, shownEvents } from "./shown_events.ts";

/** A run's events from an id on, up to one for which `isEnough` is true. */
async function follow(
  url: string,
  since: number,
  isEnough: (event: ShownEvent) => boolean,
): Promise<ShownEvent[]> {
  const events: ShownEvent[] = [];
  for await (const event of shownEvents(url, since)) {
    events.push(event);
    if (isEnough(event)) break;
  }
  return events;
}

gpuTest("a killed server loses nothing, and its run resumes to the bytes of svc train", async () => {
  await withFolder(async (folder) => {
    const root = `${folder}/root`, config = `${folder}/server.toml`;
    await Deno.mkdir(root);
    const small = await smallSft(root, { updates: 3, more: { "checkpoint.every_updates": 1 } });
    const { recipe } = small, expected = await trainedBySvc(root, small);

    await Deno.writeTextFile(config, `bind = "127.0.0.1:0"\npath_roots = [${JSON.stringify(root)}]\n`);
    const headers = { "content-type": "application/json" };
    const first = await ServerProcess.start({ config });
    const created = await fetch(`${first.url}/v1/runs`, {
      method: "POST",
      headers,
      body: JSON.stringify(recipe),
    });
    const run = await created.json();
    assert.equal(created.status, 201, JSON.stringify(run));
    const path = `/v1/runs/${run.id}`;
    const seen = await follow(`${first.url}${path}/events`, 0, ({ kind }) => kind === "checkpoint");
    await first.stop("SIGKILL");

    const second = await ServerProcess.start({ config });
    try {
      const found = await (await fetch(`${second.url}${path}`)).json();
      assert.equal(found.state, "interrupted");
      const resumed = await fetch(`${second.url}${path}/resume`, { method: "POST" });
      assert.equal(resumed.status, 202, await resumed.text());
      const later = await follow(`${second.url}${path}/events`, seen.at(-1)!.id, () => false);
      const all = [...seen, ...later];
      assert.deepEqual(all.map(({ id }) => id), all.map((_, i) => i + 1));
      assert.equal(all.at(-1)!.kind, "end");
      // What the first server showed is in the log of the second one.
      const again = await follow(`${second.url}${path}/events`, 0, () => false);
      assert.deepEqual(again, all);
      // The events of all runs have each of its states once, too.
      const of_all_runs = await follow(
        `${second.url}/v1/events`,
        0,
        ({ data }) => data.state === "completed",
      );
      const states = all.flatMap(({ kind, data }) => kind === "state" ? [data.state] : []);
      assert.deepEqual(of_all_runs.map(({ data }) => data.state), states);
      const adapter = await fetch(`${second.url}${path}/artifacts/adapter`);
      assert.deepEqual(await adapter.bytes(), expected);
      const { samples } = await (await fetch(`${second.url}${path}/metrics?names=loss/sft`)).json();
      assert.deepEqual(samples.map(({ update }: { update: number }) => update), [1, 2, 3]);
      const names = (await (await fetch(`${second.url}${path}/artifacts`)).json()).artifacts
        .map(({ name }: { name: string }) => name);
      assert.deepEqual(names, ["adapter", "adapter_peft", "config", "events", "metrics", "log"]);
      const config_toml = await (await fetch(`${second.url}${path}/artifacts/config`)).text();
      const planned = await fetch(`${second.url}/v1/plan`, {
        method: "POST",
        headers: { "content-type": "application/toml" },
        body: config_toml,
      });
      assert.equal(planned.status, 200, await planned.text());
    } finally {
      await second.stop("SIGTERM");
    }
  });
});
