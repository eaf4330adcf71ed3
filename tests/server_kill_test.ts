/**
 * The real server and real runs: a kill -9 of the server in the middle of a run loses nothing, and the resumed run ends
 * with the adapter that `svc train` makes of the same configuration.
 */

import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { gpuTest } from "../kernels/gpu_testing.ts";
import { fixturePath } from "./fixture.ts";
import { withFolder } from "./folder.ts";
import { ServerProcess } from "./server_process.ts";
import { type ShownEvent, shownEvents } from "./shown_events.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

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

/** SFT of a small model: three updates of a few rows. */
async function recipeIn(root: string): Promise<{ recipe: Record<string, unknown>; toml: string }> {
  const model = `${root}/model.gguf`, data = `${root}/rows.jsonl`;
  await Deno.copyFile(await fixturePath("models/tiny-agent-f16.gguf"), model);
  const rows = Array.from(
    { length: 12 },
    (_, i) => JSON.stringify({ text: `Once there was a cat number ${i}.` }),
  );
  await Deno.writeTextFile(data, rows.join("\n"));
  const params = {
    "training.ctx": 64,
    "training.batch_tokens": 64,
    "training.lr": 1e-3,
    "checkpoint.every_updates": 1,
  };
  const toml = `
[run]
algorithm = "sft"
directory = "run"
[model]
path = "model.gguf"
[sft]
data = "rows.jsonl"
[training]
ctx = 64
batch_tokens = 64
lr = 1e-3
updates = 3
[checkpoint]
every_updates = 1
`;
  return { recipe: { recipe: "sft", model, data, budget: { updates: 3 }, params }, toml };
}

gpuTest("a killed server loses nothing, and its run resumes to the bytes of svc train", async () => {
  await withFolder(async (folder) => {
    const root = `${folder}/root`, config = `${folder}/server.toml`;
    await Deno.mkdir(root);
    const { recipe, toml } = await recipeIn(root);
    await Deno.writeTextFile(`${root}/run.toml`, toml);
    const trained = await new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", `${ROOT}cli.ts`, "train", `${root}/run.toml`],
      stdout: "null",
    }).output();
    assert.ok(trained.success, new TextDecoder().decode(trained.stderr));
    const expected = await Deno.readFile(`${root}/run/adapter.gguf`);

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
