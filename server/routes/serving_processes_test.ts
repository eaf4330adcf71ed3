/** The processes that answer chats: who has the device, which base is loaded, and how answers end early. */

import assert from "node:assert/strict";
import OpenAI from "openai";
import { ManualClock } from "../../core/clock_fake.ts";
import { ServiceError } from "../../core/errors.ts";
import { openGate, TestFleet, untilWaiting } from "../../runs/fleet/fleet_testing.ts";
import type { KeptRun } from "../../runs/fleet/kept_run.ts";
import { makeRecordings } from "../../runs/fleet/recordings.ts";
import type { ServingPlan } from "../../runs/plan/plan_serving.ts";
import { LEAVE_MS, LOAD_MS, SILENCE_MS } from "../../runs/serving/model_process.ts";
import { MAX_CHATS, SETTLE_MS } from "../../runs/serving/serving.ts";
import { fixturePath } from "../../tests/fixture.ts";
import { chatRequest } from "../../tests/scripted_chat.ts";
import {
  count,
  messages,
  post,
  refusal,
  type ServingTest,
  withListener,
  withServing,
} from "../../tests/served_app.ts";

const strict = { sanitizeOps: true, sanitizeResources: true };

/** Resolves when so many wait for the clock. */
async function untilSleeping(clock: ManualClock, number: number): Promise<void> {
  while (clock.sleeping < number) await new Promise((resolve) => setTimeout(resolve));
}

Deno.test(
  "a client that leaves cancels its answer, and the next one is answered",
  strict,
  () =>
    withServing(async (test) => {
      const { openai, completed, script } = test, { id: model } = await completed();
      await script([{ prompt: "Wait", hang: true }, { prompt: "Hi", text: "Hello" }]);
      const leave = new AbortController();
      const waiting = openai.chat.completions.create(
        { model, messages: [{ role: "user", content: "Wait" }], n: 8 },
        { signal: leave.signal },
      );
      // All rows of the decode batch are taken.
      while (await count(test, "sequence_generate") < 8);
      leave.abort();
      await assert.rejects(waiting, OpenAI.APIUserAbortError);
      const { choices } = await openai.chat.completions.create({ model, messages });
      assert.equal(choices[0]!.message.content, "Hello");
      assert.equal(await count(test, "sequence_close"), 9);
    }),
);

Deno.test(
  "a base is unloaded after the idle time, and another one takes its place when it is idle",
  strict,
  async () => {
    const clock = new ManualClock();
    await withServing(async (test) => {
      const { openai, run, script, folder, serving, fleet } = test;
      await script([{ prompt: "Wait", hang: true }, { prompt: "Hi", text: "Hello" }]);
      const file = await fixturePath("models/tiny-agent-f16.gguf"), copy = `${folder}/copy.gguf`;
      await Deno.copyFile(file, copy);
      const one = await run(file), other = await run(copy), longer = await run(file, { ctx: 1024 });
      const ask = (model: string, content = "Hi") =>
        openai.chat.completions.create({ model, messages: [{ role: "user", content }] });
      await ask(one.id);
      await ask(longer.id);
      assert.equal(await count(test, "load"), 1);
      await ask(other.id);
      assert.equal(await count(test, "load"), 2);
      const leave = new AbortController();
      const waiting = openai.chat.completions.create(
        { model: other.id, messages: [{ role: "user", content: "Wait" }] },
        { signal: leave.signal },
      );
      while (await count(test, "sequence_generate") < 4);
      await assert.rejects(ask(one.id), (error: InstanceType<typeof OpenAI.APIError>) => {
        assert.deepEqual([error.status, error.code, error.headers!.get("retry-after")], [
          503,
          "device-busy",
          "30",
        ]);
        return true;
      });
      leave.abort();
      await assert.rejects(waiting);
      await ask(other.id);
      assert.equal(serving.is_loaded, true);
      await clock.advance(600_000);
      await serving.unloaded();
      assert.equal(serving.is_loaded, false);
      assert.deepEqual(fleet.logged.filter(({ level }) => level !== "info"), []);
      await ask(other.id);
      assert.equal(await count(test, "load"), 3);
    }, { clock, idle_seconds: 600 });
  },
);

Deno.test(
  "a run takes the device from serving, and serving waits for the run",
  strict,
  () =>
    withServing(async (test) => {
      const { openai, completed, script, fleet, folder } = test, { id: model } = await completed();
      await script([{ prompt: "Hi", text: "Hello" }]);
      await openai.chat.completions.create({ model, messages });
      const gate = `${folder}/gate`, live = await test.live(gate);
      await assert.rejects(
        openai.chat.completions.create({ model, messages }),
        (error: InstanceType<typeof OpenAI.APIError>) => error.status === 503 && error.code === "device-busy",
      );
      await Deno.mkdir(gate, { recursive: true });
      await Deno.writeTextFile(`${gate}/1`, "");
      await fleet.until(live, "completed");
      await fleet.fleet.idle(live.id);
      const { choices } = await openai.chat.completions.create({ model, messages });
      assert.equal(choices[0]!.message.content, "Hello");
    }),
);

Deno.test("a live run answers from its own process, which trains the same bytes", strict, async () => {
  const adapterOf = (run: KeptRun) => Deno.readFile(`${run.directory}/adapter.gguf`);
  const train = async (chat: (test: ServingTest, run: KeptRun) => Promise<void>) => {
    let bytes = new Uint8Array();
    await withServing(async (test) => {
      const { fleet, folder } = test, gate = `${folder}/gate`, run = await test.live(gate);
      await chat(test, run);
      await Deno.mkdir(gate, { recursive: true });
      await Deno.writeTextFile(`${gate}/1`, "");
      await fleet.until(run, "completed");
      await fleet.fleet.idle(run.id);
      bytes = await adapterOf(run);
      assert.deepEqual(await test.asked(), [], "no process was started for serving");
    });
    return bytes;
  };
  const undisturbed = await train(async () => {});
  const asked = await train(async ({ openai, send }, { id }) => {
    const said = [{ role: "user" as const, content: "abc" }];
    for (const model of [id, `${id}@base`]) {
      const stream = await openai.chat.completions.create({
        ...{ model, messages: said, stream: true, n: 2, seed: 3, max_completion_tokens: 20, logprobs: true },
      });
      const counts = [0, 0];
      for await (const { choices: [choice] } of stream) {
        counts[choice!.index]! += choice!.logprobs?.content?.length ?? 0;
      }
      assert.ok(counts.every((count) => count > 0), String(counts));
    }
    // Its own words go through a pipe with a limit.
    const long = { model: id, messages: [{ role: "user", content: "x".repeat(5 << 20) }] };
    assert.deepEqual(refusal(await send("/v1/chat/completions", post(long))), [
      422,
      "invalid-request",
      ["/messages invalid_value"],
    ]);
    const leave = new AbortController(), signal = leave.signal;
    const stream = await openai.chat.completions.create({ model: id, messages: said, stream: true }, {
      signal,
    });
    for await (const _ of stream) leave.abort();
  });
  assert.deepEqual(asked, undisturbed);
});

Deno.test(
  "a run that pauses does not chat, and one that has just paused or completed answers when its process has left",
  strict,
  () =>
    withServing(async (test) => {
      const { send, openai, live, folder, fleet, script } = test;
      await script([{ prompt: "Hi", text: "Hello" }]);
      const gate = `${folder}/gate`, leaves = `${folder}/leaves`;
      const run = await live(gate, { leaves }), { id: model } = run;
      await untilWaiting(gate, 1);
      assert.equal((await send(`/v1/runs/${model}/pause`, { method: "POST" })).status, 202);
      await fleet.until(run, "pausing");
      const refused = await send("/v1/chat/completions", post({ model, messages }));
      assert.deepEqual(refusal(refused), [409, "conflict", [" conflict"]]);
      await openGate(gate, 1);
      const answer = async () => {
        assert.notEqual(run.child, null, "its process has not left");
        const asked = openai.chat.completions.create({ model, messages });
        await Deno.writeTextFile(leaves, "");
        const { choices } = await asked;
        assert.deepEqual([choices[0]!.message.content, run.child], ["Hello", null]);
        await Deno.remove(leaves);
      };
      await fleet.until(run, "paused");
      await answer();
      assert.equal((await send(`/v1/runs/${model}/resume`, { method: "POST" })).status, 202);
      await fleet.until(run, "completed");
      await answer();
    }),
);

Deno.test("a run's process that does not leave is not waited for for ever", strict, async () => {
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
    const { send, completed, script, hang, serving, fleet } = test, { id: model } = await completed();
    await script([{ prompt: "Wait", hang: true }, { prompt: "Hi", text: "Hello" }]);
    const chat = (content = "Hi") =>
      send("/v1/chat/completions", post({ model, messages: [{ role: "user", content }] }));
    const answers = async () => {
      const { status, json } = await chat();
      assert.deepEqual([status, json.choices?.[0].message.content], [200, "Hello"]);
    };
    await hang("load");
    const loading = chat();
    await untilSleeping(clock, 1);
    await clock.advance(LOAD_MS);
    assert.equal((await loading).status, 500);
    await hang(null);
    await answers();
    const silent = chat("Wait");
    while (await count(test, "sequence_generate") < 2);
    await clock.advance(SILENCE_MS - 1);
    assert.ok(serving.is_loaded);
    await clock.advance(1);
    assert.equal((await silent).status, 500);
    await serving.unloaded();
    await hang("close");
    await answers();
    await untilSleeping(clock, 2);
    await clock.advance(600_000);
    while (serving.is_loaded) {
      await clock.advance(LEAVE_MS);
      await new Promise((resolve) => setTimeout(resolve));
    }
    await hang(null);
    await answers();
    const told = fleet.logged.filter(({ level }) => level === "warning").map(({ message }) => message);
    assert.deepEqual(told, [
      "The process that serves models ended: it said nothing for 600 seconds",
      "The process that serves models ended: it said nothing for 300 seconds",
      "The process that serves models ended: it does not leave",
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
        assert.deepEqual(refusal(await send("/v1/chat/completions", post({ model, messages }))), [
          409,
          "conflict",
          [
            " conflict",
          ],
        ]);
        return String(fleet.logged.at(-1)!.message);
      };
      const adapter = `${one.checkpointRoot}/update_000001/adapter.gguf`,
        bytes = await Deno.readFile(adapter);
      bytes[bytes.length - 1]! ^= 1;
      await Deno.writeFile(adapter, bytes);
      assert.match(await refused(`${one.id}@update_000001`), /adapter.gguf is damaged: its SHA-256 differs/);
      const { choices } = await openai.chat.completions.create({ model: one.id, messages });
      assert.equal(choices[0]!.message.content, "Hello");
      assert.deepEqual(
        (await asked()).filter(({ method }) => method === "load").map(({ request }) => request.path),
        [
          path,
        ],
      );
      const model = await Deno.readFile(path);
      model[model.length - 1]! ^= 1;
      await Deno.writeFile(path, model);
      assert.match(await refused(other.id), /model.path changed since the run/);
      await openai.chat.completions.create({ model: one.id, messages });
    }),
);

Deno.test(
  "a stream that must end early says why in its last event",
  strict,
  () =>
    withServing(async ({ openai, completed, script }) => {
      const { id: model } = await completed();
      await script([{ prompt: "Hi", text: "one two three four five six", fails: true }]);
      const stream = await openai.chat.completions.create({ model, messages, stream: true });
      let text = "";
      const reading = (async () => {
        for await (const { choices } of stream) text += choices[0]!.delta.content ?? "";
      })();
      await assert.rejects(reading, (error: InstanceType<typeof OpenAI.APIError>) => {
        assert.deepEqual([error.code, error.type, error.message], [
          "internal",
          "server_error",
          "The server failed",
        ]);
        return true;
      });
      assert.ok(text.startsWith("one two"));
    }),
);

Deno.test(
  "only so many requests are answered or wait",
  strict,
  () =>
    withServing(async ({ serving, completed, script }) => {
      const run = await completed(), model = (await serving.find(run.id))!, leave = new AbortController();
      await script([{ prompt: "Hi", hang: true }]);
      const chat = () => serving.chat(model, chatRequest(), leave.signal).next();
      const waiting = Array.from({ length: MAX_CHATS }, chat);
      await assert.rejects(chat(), { code: "device_unavailable", details: { retry_after_seconds: 30 } });
      leave.abort();
      const ended = await Promise.allSettled(waiting);
      assert.ok(ended.every(({ status }) => status === "rejected"));
    }),
);

Deno.test("over a connection chunks come as they are sampled, and closing it cancels the answer", () =>
  withServing((test) =>
    withListener(test, async (openai) => {
      const { id: model } = await test.completed();
      await test.script([{ prompt: "Hi", text: "one two three four five six seven" }]);
      const words: string[] = [];
      for await (
        const { choices } of await openai.chat.completions.create({ model, messages, stream: true })
      ) {
        words.push(choices[0]!.delta.content ?? "");
      }
      assert.equal(words.join(""), "one two three four five six seven");
      assert.ok(words.filter((word) => word !== "").length > 2, "in several chunks");
      await test.script([{ prompt: "Hi", hang: true }]);
      const leave = new AbortController(), { signal } = leave;
      const waiting = openai.chat.completions.create({ model, messages, n: 2 }, { signal });
      while (await count(test, "sequence_generate") < 3);
      leave.abort();
      await assert.rejects(waiting, OpenAI.APIUserAbortError);
      while (await count(test, "sequence_close") < 3);
      await openai.chat.completions.create({ model: "none", messages }).then(
        () => assert.fail("there is no such model"),
        (error) => assert.equal(error.status, 404),
      );
      openai.apiKey = "wrong";
      await assert.rejects(
        openai.models.list().then(() => {}),
        (error: InstanceType<typeof OpenAI.APIError>) =>
          error.status === 401 && error.type === "authentication_error",
      );
    })
  ));

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
