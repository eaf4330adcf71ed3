/** What limits serving: time, memory, the files of runs, and the life of recorded conversations. */

import assert from "node:assert/strict";
import { ManualClock } from "../../core/clock_fake.ts";
import { ServiceError } from "../../core/errors.ts";
import { TestFleet } from "../../runs/fleet/fleet_testing.ts";
import { makeRecordings } from "../../runs/fleet/recordings.ts";
import type { ServingPlan } from "../../runs/plan/plan_serving.ts";
import { LOAD_MS, SHUTDOWN_MS, SILENCE_MS } from "../../runs/serving/model_process.ts";
import { SETTLE_MS } from "../../runs/serving/serving.ts";
import { fixturePath } from "../../tests/fixture.ts";
import { count, messages, post, withServing } from "../../tests/served_app.ts";
import { refusal } from "../app_testing.ts";

const strict = { sanitizeOps: true, sanitizeResources: true };

/** Resolves when so many wait for the clock. */
async function untilSleeping(clock: ManualClock, number: number): Promise<void> {
  while (clock.sleeping < number) await new Promise((resolve) => setTimeout(resolve));
}

Deno.test("the wait for a run's process to end has a limit", strict, async () => {
  const clock = new ManualClock();
  await withServing(async ({ send, completed, fleet }) => {
    const run = await completed(), { device } = fleet.fleet, { has, freed } = device;
    Object.assign(run, { child: {} });
    Object.assign(device, { has: () => true, freed: () => new Promise(() => {}) });
    const asked = send("/v1/chat/completions", post({ model: run.id, messages }));
    await untilSleeping(clock, 1);
    await clock.advance(SETTLE_MS);
    assert.deepEqual(refusal(await asked), [503, "device-busy", []]);
    Object.assign(run, { child: null });
    Object.assign(device, { has, freed });
  }, { clock });
});

Deno.test("a process that hangs is killed, and the next chat gets another one", strict, async () => {
  const clock = new ManualClock();
  await withServing(async (test) => {
    const { send, completed, script, hang, fleet } = test, { id: model } = await completed();
    const { device } = fleet.fleet;
    await script([{ prompt: "Wait", hang: true }, { prompt: "Hi", text: "Hello" }]);
    const chat = (content = "Hi") =>
      send("/v1/chat/completions", post({ model, messages: [{ role: "user", content }] }));
    const answers = async () => {
      const { status, json } = await chat();
      assert.deepEqual([status, json.choices?.[0].message.content], [200, "Hello"]);
    };
    await hang("load");
    const loading = chat();
    // Before, the chat may wait by the same clock for the process of the run to leave.
    while (await count(test, "load") < 1);
    await clock.advance(LOAD_MS);
    assert.equal((await loading).status, 500);
    await hang(null);
    await answers();
    const silent = chat("Wait");
    while (await count(test, "sequence_generate") < 2);
    await clock.advance(SILENCE_MS - 1);
    assert.throws(() => device.lend("probe"), /it serves a model/);
    await clock.advance(1);
    assert.equal((await silent).status, 500);
    await device.allFree();
    await hang("close");
    await answers();
    await untilSleeping(clock, 2);
    await clock.advance(600_000);
    let is_free = false;
    device.allFree().then(() => is_free = true);
    while (!is_free) {
      await clock.advance(SHUTDOWN_MS);
      await new Promise((resolve) => setTimeout(resolve));
    }
    await hang(null);
    await answers();
    const told = fleet.logged.filter(({ level }) => level === "warning").map(({ message }) => message);
    assert.deepEqual(told, [
      "The process that serves models ended: it said nothing for 600 seconds",
      "The process that serves models ended: it said nothing for 300 seconds",
      "The process that serves models ended: it does not end",
    ]);
  }, { clock, idle_seconds: 600 });
});

Deno.test(
  "another model file and a damaged checkpoint do not answer in a run's place",
  strict,
  () =>
    withServing(async ({ send, openai, run, script, folder, fleet, asked }) => {
      await script([{ prompt: "Hi", text: "Hello" }]);
      const path = `${folder}/model.gguf`, link = `${folder}/link.gguf`;
      await Deno.copyFile(await fixturePath("models/tiny-agent-f16.gguf"), path);
      // The link that the client named leads elsewhere now.
      await Deno.symlink(`${folder}/elsewhere.gguf`, link);
      const one = await run(path, { written: link }), other = await run(path, { written: link });
      const refused = async (model: string) => {
        const sent = await send("/v1/chat/completions", post({ model, messages }));
        assert.deepEqual(refusal(sent), [409, "conflict", [" conflict"]]);
        return String(fleet.logged.at(-1)!.message);
      };
      const adapter = `${one.checkpointRoot}/update_000001/adapter.gguf`,
        bytes = await Deno.readFile(adapter);
      bytes[bytes.length - 1]! ^= 1;
      await Deno.writeFile(adapter, bytes);
      assert.match(await refused(`${one.id}@update_000001`), /adapter.gguf is damaged: its SHA-256 differs/);
      const answers = async (model: string) => {
        const { choices } = await openai.chat.completions.create({ model, messages });
        assert.equal(choices[0]!.message.content, "Hello");
      };
      await answers(one.id);
      const model = await Deno.readFile(path);
      model[model.length - 1]! ^= 1;
      await Deno.writeFile(path, model);
      assert.match(await refused(other.id), /model.path changed since the run/);
      await answers(one.id);
      const copy = `${folder}/copy.gguf`;
      await Deno.copyFile(await fixturePath("models/tiny-agent-f16.gguf"), copy);
      await answers((await run(copy, { written: link })).id);
      const linked = await run(copy, { written: link }), moved = `${folder}/moved.gguf`;
      await Deno.rename(copy, moved);
      await Deno.symlink(moved, copy);
      assert.match(await refused(linked.id), /copy\.gguf: it is a link to .*moved\.gguf/);
      const loads = (await asked()).filter(({ method }) => method === "load");
      assert.deepEqual(loads.map(({ request }) => request.path), [path, copy]);
    }),
);

Deno.test(
  "a base that does not fit is refused, and one that fits in part samples fewer choices at once",
  strict,
  () => {
    const plan: { fits: ServingPlan | null } = { fits: null };
    const meta = {
      ...{ overflow_bytes: 1, vram_budget_bytes: 2, ram_budget_bytes: 3, levers_applied: [], unlocks: [] },
      dominant_posts: [{ post: "kv", bytes: 4 }],
    };
    const planned = () =>
      plan.fits
        ? Promise.resolve(plan.fits)
        : Promise.reject(new ServiceError("out_of_memory", "too large", meta));
    return withServing(async (test) => {
      const { send, openai, completed, script, asked } = test, { id: model } = await completed();
      await script([{ prompt: "Hi", text: "Hello" }]);
      const refused = await send("/v1/chat/completions", post({ model, messages }));
      assert.deepEqual(refusal(refused), [422, "insufficient-memory", ["/model out_of_range"]]);
      assert.deepEqual([refused.json.meta, refused.json.error.param], [meta, "model"]);
      plan.fits = { max_context: 1024, sequences: 2 };
      const { choices } = await openai.chat.completions.create({ model, messages, n: 3 });
      assert.deepEqual(choices.map(({ message }) => message.content), ["Hello", "Hello", "Hello"]);
      const { request } = (await asked()).find(({ method }) => method === "load")!;
      assert.deepEqual([request.max_sequences, request.kv_tokens], [2, 2 * (1024 + 32)]);
    }, { plan: planned });
  },
);

Deno.test(
  "a device that has no memory for a base is told so, and the base is loaded later",
  strict,
  () =>
    withServing(async ({ send, completed, script, fleet }) => {
      const { id: model } = await completed(), full = `${fleet.fleet.list()[0]!.directory}/../full`;
      await script([{ prompt: "Hi", text: "Hello" }]);
      await Deno.writeTextFile(full, "");
      const refused = await send("/v1/chat/completions", post({ model, messages }));
      assert.deepEqual(refusal(refused), [422, "insufficient-memory", ["/model out_of_range"]]);
      const { meta } = refused.json;
      assert.deepEqual(meta.dominant_posts, [{ post: "weights", bytes: 3e9 }, { post: "kv", bytes: 1e9 }]);
      assert.deepEqual([meta.overflow_bytes, meta.vram_budget_bytes, meta.unlocks], [0, 0, []]);
      fleet.fleet.device.lend("probe").release();
      await Deno.remove(full);
      assert.equal((await send("/v1/chat/completions", post({ model, messages }))).status, 200);
    }),
);

Deno.test(
  "recorded conversations end with their run, and only the operator may read them",
  strict,
  () =>
    withServing(async ({ send, openai, completed, script, folder }) => {
      await script([{ prompt: "Hi", text: "Hello" }]);
      const conversations = `${folder}/conversations`, one = await completed(), other = await completed();
      await makeRecordings(conversations);
      for (const model of [one.id, `${one.id}@base`, other.id]) {
        await openai.chat.completions.create({ model, messages });
      }
      const names = async () =>
        (await Array.fromAsync(Deno.readDir(conversations))).map(({ name }) => name).sort();
      assert.deepEqual(await names(), [one.id, `${one.id}@base`, other.id].sort());
      if (Deno.build.os !== "windows") assert.equal((await Deno.stat(conversations)).mode! & 0o777, 0o700);
      assert.equal((await send(`/v1/runs/${one.id}`, { method: "DELETE" })).status, 204);
      assert.deepEqual(await names(), [other.id]);
      const gone = await send("/v1/chat/completions", post({ model: one.id, messages }));
      assert.deepEqual(refusal(gone), [404, "not-found", ["/model not_found"]]);
      // A crash may come between the two.
      await Deno.mkdir(`${conversations}/${one.id}@base`);
      await Deno.mkdir(`${conversations}/mine`);
      const fleet = await TestFleet.open({ folder, conversations });
      await fleet.close();
      assert.deepEqual(await names(), ["mine", other.id]);
    }, { record: true }),
);

Deno.test(
  "a folder of conversations that cannot be opened is tried again",
  strict,
  () =>
    withServing(async ({ send, completed, script, folder }) => {
      await script([{ prompt: "Hi", text: "Hello" }]);
      const { id: model } = await completed(), place = `${folder}/conversations/${model}`;
      await Deno.mkdir(`${folder}/conversations`);
      await Deno.writeTextFile(place, "");
      assert.equal((await send("/v1/chat/completions", post({ model, messages }))).status, 409);
      await Deno.remove(place);
      assert.equal((await send("/v1/chat/completions", post({ model, messages }))).status, 200);
    }, { record: true }),
);
