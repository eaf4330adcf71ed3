/** A server's `data_dir`, moved with all it contains, then reached through a link. */

import assert from "node:assert/strict";
import { gpuTest } from "../kernels/gpu_testing.ts";
import { fixturePath } from "./fixture.ts";
import { withFolder } from "./folder.ts";
import { serverConfig, ServerProcess } from "./server_process.ts";
import { type ShownEvent, shownEvents } from "./shown_events.ts";
import { textRows } from "./small_sft.ts";

/** Sends a request with a body, or a GET, and checks the status of the answer. */
async function sent(
  url: string,
  { status = 200, type = "application/json", body }: { status?: number; type?: string; body?: string } = {},
) {
  const post = { method: "POST", headers: { "content-type": type } };
  const response = await fetch(url, body === undefined ? {} : { ...post, body }),
    text = await response.text();
  assert.equal(response.status, status, text);
  return JSON.parse(text);
}

/** Waits for an event of a run. */
async function untilEvent(run: string, is: (event: ShownEvent) => boolean): Promise<void> {
  for await (const event of shownEvents(`${run}/events`, 0)) if (is(event)) return;
  throw new Error(`${run} has ended without the event`);
}

gpuTest("a moved data_dir has its runs and datasets, and its runs are resumed and forked", async () => {
  await withFolder(async (folder) => {
    const root = `${folder}/root`, model = `${root}/model.gguf`;
    await Deno.mkdir(root);
    await Deno.copyFile(await fixturePath("models/tiny-agent-f16.gguf"), model);
    const start = async (data_dir: string) => {
      const toml = `data_dir = "${data_dir}"\npath_roots = [${JSON.stringify(root)}]\n`;
      return await ServerProcess.start({ config: await serverConfig(folder, toml) });
    };

    const first = await start("data");
    const rows = { status: 201, type: "application/x-ndjson", body: textRows(12, "cat") };
    const { id: data } = await sent(`${first.url}/v1/datasets`, rows);
    const params = { "training.ctx": 64, "training.batch_tokens": 64 };
    const recipe = { recipe: "sft", model, data, budget: { updates: 100_000 }, params };
    const { id } = await sent(`${first.url}/v1/runs`, { status: 201, body: JSON.stringify(recipe) });
    await untilEvent(`${first.url}/v1/runs/${id}`, ({ kind }) => kind === "update");
    await first.stop();

    await Deno.mkdir(`${folder}/disk`);
    await Deno.rename(`${folder}/data`, `${folder}/disk/moved`);
    await Deno.symlink("disk/moved", `${folder}/link`);
    const second = await start("link"), runs = `${second.url}/v1/runs`;
    try {
      const [run] = (await sent(runs)).runs, { update } = run.progress;
      assert.deepEqual([run.id, run.state], [id, "interrupted"]);
      const dataset = `${second.url}/v1/datasets/${data}`;
      assert.equal((await sent(`${dataset}/preview`)).rows.length, 12);
      const { tokens } = await sent(`${dataset}/rows/1/tokens?model=${encodeURIComponent(model)}`);
      assert.ok(tokens.length > 0);

      await sent(`${runs}/${id}/resume`, { status: 202, body: "" });
      await untilEvent(
        `${runs}/${id}`,
        ({ kind, data }) => kind === "update" && Number(data.update) > update,
      );
      await sent(`${runs}/${id}/cancel`, { status: 202, body: JSON.stringify({ at: "now" }) });
      await untilEvent(`${runs}/${id}`, ({ data }) => data.state === "cancelled");

      const { checkpoints: [{ update: kept }] } = await sent(`${runs}/${id}/checkpoints`);
      const body = JSON.stringify({ fork_from: { run: id }, budget: { updates: kept + 1 } });
      const fork = await sent(runs, { status: 201, body });
      const own = await Deno.readTextFile(`${folder}/disk/moved/runs/${fork.id}/run.toml`);
      assert.match(own, /^data = "\.\.\//m, "the fork can be moved too");
      await untilEvent(`${runs}/${fork.id}`, ({ data }) => data.state === "completed");
      const names = await Array.fromAsync(Deno.readDir(folder), ({ name }) => name);
      assert.ok(!names.includes("data"), "nothing is written to the old place");
    } finally {
      await second.stop();
    }
  });
});
