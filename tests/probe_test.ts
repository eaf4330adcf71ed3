/**
 * The real server and a real run: requests during the training leave its adapter as `svc train` makes it, and the process
 * that answers afterwards measures what the run measured.
 */

import assert from "node:assert/strict";
import { gpuTest } from "../kernels/gpu_testing.ts";
import { withFolder } from "./folder.ts";
import { ServerProcess } from "./server_process.ts";
import { smallSft, textRows, trainedBySvc } from "./small_sft.ts";

/** A server's configuration, a recipe with held-out rows, and the adapter that `svc train` makes of it. */
async function trainedIn(folder: string) {
  const root = `${folder}/root`, config = `${folder}/server.toml`, heldout = `${root}/heldout.jsonl`;
  await Deno.mkdir(root);
  await Deno.writeTextFile(heldout, textRows(3, "dog"));
  const more = { "evaluation.data": heldout, "evaluation.every_updates": 100 };
  const small = await smallSft(root, { updates: 6, more });
  const expected = await trainedBySvc(root, small);
  await Deno.writeTextFile(config, `bind = "127.0.0.1:0"\npath_roots = [${JSON.stringify(root)}]\n`);
  return { root, config, recipe: small.recipe, expected };
}

const GENERATE = {
  messages: [{ role: "user", content: "Say a word." }],
  ...{ max_new_tokens: 8, temperature: 1, top_p: 1, seed: 5 },
};

/** Sends a body to the server. */
// deno-lint-ignore no-explicit-any -- tests look into documents of every form
type Send = (path: string, body: unknown) => Promise<{ status: number; json: any }>;

/** The run that nobody asked also evaluates, for which it has more room on the device. */
async function checkCalibration(
  send: Send,
  { recipe, root }: { recipe: unknown; root: string },
): Promise<void> {
  const calibrated = await send("/v1/plan?calibrate=true", recipe);
  assert.equal(calibrated.status, 200, JSON.stringify(calibrated.json));
  const { memory, schedule } = calibrated.json;
  const { memory: estimated } = (await send("/v1/plan", recipe)).json;
  const events = await Deno.readTextFile(`${root}/run/events.jsonl`);
  const bytes = Number(/"memory\/device_bytes":(\d+)/.exec(events)![1]), measured = memory.peak_bytes;
  assert.ok(measured <= bytes && measured > 0.99 * bytes, `${measured}, ${bytes}`);
  assert.ok(bytes <= estimated.peak_bytes);
  assert.ok(schedule.calibrated && schedule.seconds_per_update > 0);
  assert.equal(schedule.eta_seconds, 6 * schedule.seconds_per_update);
}

/** Asks a run as soon as it trains. @returns The answers, and the text of all events when it has ended. */
async function askLive(send: Send, { url, path }: { url: string; path: string }) {
  let text = "", asked: Promise<Awaited<ReturnType<Send>>[]> | null = null;
  const followed = await fetch(`${url}${path}/events`);
  for await (const piece of followed.body!.pipeThrough(new TextDecoderStream())) {
    text += piece;
    if (!text.includes('"state":"running"')) continue;
    asked ??= Promise.all([
      send(`${path}/generate`, GENERATE),
      send(`${path}/evaluate`, { limit: 2 }),
      send(`${path}/generate`, { ...GENERATE, adapter: false }),
    ]);
  }
  return { text, answers: await asked! };
}

gpuTest("requests do not change a run's bytes, and measure what it measured", async () => {
  await withFolder(async (folder) => {
    const { root, config, recipe, expected } = await trainedIn(folder);
    const server = await ServerProcess.start({ config });
    const send: Send = async (path, body) => {
      const headers = { "content-type": "application/json" };
      const response = await fetch(`${server.url}${path}`, {
        method: "POST",
        headers,
        body: JSON.stringify(body),
      });
      return { status: response.status, json: await response.json() };
    };
    try {
      await checkCalibration(send, { recipe, root });
      const created = await send("/v1/runs", recipe);
      assert.equal(created.status, 201, JSON.stringify(created.json));
      const path = `/v1/runs/${created.json.id}`,
        { text, answers } = await askLive(send, { url: server.url, path });
      for (const { status, json } of answers) assert.equal(status, 200, JSON.stringify(json));
      assert.match(text, /"command":"generate"/);
      assert.match(text, /"command":"evaluate"/);
      const adapter = await fetch(`${server.url}${path}/artifacts/adapter`);
      assert.deepEqual(await adapter.bytes(), expected);

      // The base model's answer does not depend on when it is asked.
      const base = await send(`${path}/generate`, { ...GENERATE, adapter: false });
      assert.deepEqual(base, answers[2]);
      const evaluated = await send(`${path}/evaluate`, {});
      const { evaluations: [last] } = await (await fetch(`${server.url}${path}/evaluations`)).json();
      const { n: _, update, time: __, ...measured } = last;
      assert.equal(update, 6);
      assert.deepEqual(evaluated, {
        status: 200,
        json: { checkpoint: null, ...measured, deterministic: true },
      });
      const long = [{ role: "user", content: "a word ".repeat(100) }];
      const refused = await send(`${path}/generate`, { ...GENERATE, messages: long });
      assert.deepEqual([refused.status, refused.json.errors[0].pointer], [422, "/messages"]);
    } finally {
      await server.stop("SIGTERM");
    }
  });
});
