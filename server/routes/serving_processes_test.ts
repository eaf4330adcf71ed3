/** The processes that answer chats: who has the device, which base is loaded, and how answers end early. */

import assert from "node:assert/strict";
import OpenAI from "openai";
import { ManualClock } from "../../core/clock_fake.ts";
import { openGate, untilThere } from "../../runs/fleet/fleet_testing.ts";
import type { ManagedRun } from "../../runs/fleet/managed_run.ts";
import { MAX_CHATS } from "../../runs/serving/serving.ts";
import { fixturePath } from "../../tests/fixture.ts";
import { chatRequest } from "../../tests/scripted_chat.ts";
import {
  count,
  messages,
  post,
  type ServingTest,
  withListener,
  withServing,
} from "../../tests/served_app.ts";
import { refusal } from "../app_testing.ts";

const strict = { sanitizeOps: true, sanitizeResources: true };

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
      const { openai, run, script, folder, fleet } = test, { device } = fleet.fleet;
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
      assert.throws(() => device.lend("probe"), /it serves a model/);
      await clock.advance(600_000);
      await device.allFree();
      device.lend("probe").release();
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
  const adapterOf = (run: ManagedRun) => Deno.readFile(`${run.directory}/adapter.gguf`);
  const train = async (chat: (test: ServingTest, run: ManagedRun) => Promise<void>) => {
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
      await fleet.untilTraining(run, gate, 1);
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

Deno.test(
  "a chat with a run that has trained and is not completed yet is answered when it is",
  strict,
  () =>
    withServing(async ({ openai, live, folder, script }) => {
      await script([{ prompt: "Hi", text: "Hello" }]);
      const gate = `${folder}/gate`, saves = `${folder}/saves`;
      const run = await live(gate, { saves });
      await openGate(gate, 1);
      await untilThere(`${saves}.waits`);
      assert.equal(run.record.state, "running");
      const child = run.child!, chat = child.chat.bind(child), refused = Promise.withResolvers<void>();
      child.chat = async function* (...given) {
        try {
          yield* chat(...given);
        } finally {
          refused.resolve();
        }
      };
      const asked = openai.chat.completions.create({ model: run.id, messages });
      await refused.promise;
      await Deno.writeTextFile(saves, "");
      const { choices } = await asked;
      assert.deepEqual([choices[0]!.message.content, run.record.state], ["Hello", "completed"]);
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
    withServing(async (test) => {
      const { serving, completed, script } = test;
      const run = await completed(), model = (await serving.find(run.id))!, leave = new AbortController();
      await script([{ prompt: "Hi", hang: true }]);
      const chat = () => serving.chat(model, chatRequest(), leave.signal).next();
      const waiting = Array.from({ length: MAX_CHATS }, chat);
      await assert.rejects(chat(), { code: "device_unavailable", details: { retry_after_seconds: 30 } });
      // By then the others have looked at the run's files, and wait for their turn.
      while (await count(test, "sequence_generate") < 1);
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
