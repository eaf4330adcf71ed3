/** Chat completions with OpenAI's client, from runs whose models have a scripted engine. */

import assert from "node:assert/strict";
import OpenAI from "openai";
import { fixturePath } from "../../tests/fixture.ts";
import { count, messages, post, withServing } from "../../tests/served_app.ts";
import { refusal, testApp } from "../app_testing.ts";

const strict = { sanitizeOps: true, sanitizeResources: true };

const TOOL = {
  type: "function" as const,
  function: { name: "add", description: "Adds.", parameters: { type: "object", properties: {} } },
};

const CALL = '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>';

Deno.test("serving that is switched off answers 501, before the body is looked at", async () => {
  const { send } = testApp();
  for (const given of [post({}), { method: "POST", body: "x", headers: { "content-type": "text/plain" } }]) {
    assert.deepEqual(refusal(await send("/v1/chat/completions", given)), [501, "not-implemented", []]);
  }
  const { json } = await send("/v1/models");
  assert.deepEqual([json.status, json.error.type, json.error.code], [501, "server_error", "not-implemented"]);
});

Deno.test(
  "a run is answered from its adapter, its checkpoints and its base",
  strict,
  () =>
    withServing(async (test) => {
      const { openai, completed, script } = test, run = await completed();
      await script([{ prompt: "Hi", text: "Hello there" }]);
      const names = [run.id, `${run.id}@base`, `${run.id}@update_000002`, `${run.id}@update_000001`];
      const { data } = await openai.models.list();
      assert.deepEqual(data.map(({ id }) => id), names);
      const [{ object, created, owned_by }] = data as [OpenAI.Model];
      const created_at = Math.floor(Date.parse(run.record.created_at) / 1000);
      assert.deepEqual([object, created, owned_by], ["model", created_at, "svc"]);
      for (const model of names) {
        const answer = await openai.chat.completions.create({ model, messages });
        const { choices: [choice], usage, ...rest } = answer;
        assert.deepEqual([rest.object, rest.model], ["chat.completion", model]);
        assert.match(rest.id, /^chatcmpl-./);
        assert.ok(rest.created > 1.7e9);
        assert.deepEqual(choice, {
          index: 0,
          message: { role: "assistant", content: "Hello there", refusal: null },
          logprobs: null,
          finish_reason: "stop",
        });
        assert.equal(usage!.total_tokens, usage!.prompt_tokens + usage!.completion_tokens);
      }
      const opened = (await test.asked()).filter(({ method }) => method === "adapter_open");
      const files = opened.map(({ request }) => request.source.path.replace(run.directory, ""));
      assert.deepEqual(files, [
        "/adapter.gguf",
        "/checkpoints/update_000002/adapter.gguf",
        "/checkpoints/update_000001/adapter.gguf",
      ]);
      assert.equal(await count(test, "load"), 1, "the base is loaded once");
    }),
);

Deno.test(
  "a stream has the chunks of OpenAI's form",
  strict,
  () =>
    withServing(async ({ openai, completed, script }) => {
      const { id: model } = await completed();
      const text = "one two three four five six seven eight nine ten eleven twelve";
      await script([{ prompt: "Hi", text }, { prompt: "Sum", text: `Well: ${CALL}${CALL}` }]);
      const stream = await openai.chat.completions.create({
        ...{ model, messages, stream: true, logprobs: true, seed: 7 },
        stream_options: { include_usage: true },
      });
      const chunks: OpenAI.ChatCompletionChunk[] = [];
      for await (const chunk of stream) chunks.push(chunk);
      assert.deepEqual(chunks[0]!.choices[0]!.delta, { role: "assistant", content: "", refusal: null });
      assert.equal(chunks.map(({ choices }) => choices[0]?.delta.content ?? "").join(""), text);
      const counts = chunks.flatMap(({ choices }) => choices[0]?.logprobs?.content?.length ?? []);
      assert.ok(counts.length > 3 && counts.every((count) => count <= 4), `blocks of ${counts}`);
      const finishes = chunks.flatMap(({ choices }) => choices[0]?.finish_reason ?? []);
      assert.deepEqual(finishes, ["stop"]);
      const last = chunks.at(-1)!;
      assert.deepEqual(last.choices, []);
      assert.equal(last.usage!.completion_tokens, counts.reduce((sum, count) => sum + count, 0) + 1);
      assert.equal(new Set(chunks.map(({ id, created, model }) => `${id} ${created} ${model}`)).size, 1);
      const runner = openai.chat.completions.stream({
        model,
        messages: [{ role: "user", content: "Sum" }],
        tools: [TOOL],
      });
      const { message, finish_reason } = (await runner.finalChatCompletion()).choices[0]!;
      assert.deepEqual([message.content, finish_reason], ["Well:", "tool_calls"]);
      assert.deepEqual(message.tool_calls!.map(({ id }) => id), ["call_0_0", "call_0_1"]);
    }),
);

Deno.test(
  "tools go to the model, and calls come back in turns that continue",
  strict,
  () =>
    withServing(async ({ openai, completed, script, asked }) => {
      const { id: model } = await completed();
      await script([
        { prompt: "The sum is 3", text: "It is 3." },
        { prompt: "Sum", text: `<think>Easy.</think>${CALL}` },
      ]);
      const question = { role: "user" as const, content: [{ type: "text" as const, text: "Sum" }] };
      const create = (more: object) =>
        openai.chat.completions.create({ model, messages: [question], tools: [TOOL], ...more });
      const first = (await create({}) as OpenAI.ChatCompletion).choices[0]!;
      const call = { name: "add", arguments: '{"a":1}' };
      assert.deepEqual(first.message, {
        role: "assistant",
        content: null,
        refusal: null,
        reasoning_content: "Easy.",
        tool_calls: [{ id: "call_0_0", type: "function", function: call }],
      });
      assert.equal(first.finish_reason, "tool_calls");
      const result = { role: "tool" as const, tool_call_id: "call_0_0", content: "The sum is 3" };
      const system = { role: "developer" as const, content: "Be exact." };
      const more = { messages: [system, question, first.message, result] };
      const second = (await create(more) as OpenAI.ChatCompletion).choices[0]!;
      assert.deepEqual([second.message.content, second.finish_reason], ["It is 3.", "stop"]);
      const none = (await create({ tool_choice: "none" }) as OpenAI.ChatCompletion).choices[0]!;
      assert.deepEqual([none.message.content, none.finish_reason], [CALL, "stop"], "a call is text");
      const generated = (await asked()).filter(({ method }) => method === "sequence_generate");
      assert.equal(generated.length, 3);
    }),
);

Deno.test(
  "sampling follows the request: choices, seed, limits, stop texts and a schema",
  strict,
  () =>
    withServing(async ({ openai, completed, asked }) => {
      const { id: model } = await completed();
      const sample = async (more: Partial<OpenAI.ChatCompletionCreateParamsNonStreaming>) =>
        await openai.chat.completions.create({
          model,
          messages,
          seed: 1,
          max_completion_tokens: 12,
          ...more,
        });
      const { choices, usage } = await sample({ n: 3, temperature: 0.7, top_p: 0.9 });
      const texts = choices.map(({ message }) => message.content);
      assert.deepEqual(choices.map(({ index, finish_reason }) => [index, finish_reason]), [
        [0, "length"],
        [1, "length"],
        [2, "length"],
      ]);
      assert.deepEqual([new Set(texts).size, usage!.completion_tokens], [3, 36]);
      const again = await sample({ n: 3, temperature: 0.7, top_p: 0.9 });
      assert.deepEqual(again.choices.map(({ message }) => message.content), texts);
      const requests = (await asked()).filter(({ method }) => method === "sequence_generate");
      const { max_tokens, sampling: { temperature, top_p, mask } } = requests[0]!.request;
      assert.deepEqual({ max_tokens, temperature, top_p, mask }, {
        max_tokens: 12,
        temperature: 0.7,
        top_p: 0.9,
        mask: null,
      });
      const schema = { type: "object", properties: { __proto__x: { type: "integer" } } };
      const masks: unknown[] = [];
      const formats = [
        { type: "json_schema" as const, json_schema: { name: "answer", schema, strict: true } },
        { type: "json_object" as const },
      ];
      for (const response_format of formats) {
        // The vocabulary of the scripted engine is another one: its text is no JSON.
        await sample({ response_format, max_completion_tokens: 1 });
        const generated = (await asked()).findLast(({ method }) => method === "sequence_generate");
        masks.push(generated!.request.sampling.mask);
      }
      assert.deepEqual(masks, [
        { type: "json_schema", schema: JSON.stringify(schema) },
        { type: "json_schema", schema: '{"type":"object"}' },
      ]);
    }),
);

Deno.test(
  "logarithms of probabilities come with the tokens' texts and bytes",
  strict,
  () =>
    withServing(async ({ openai, completed, script }) => {
      const { id: model } = await completed();
      await script([{ prompt: "Hi", text: "a — b" }]);
      const { choices: [choice] } = await openai.chat.completions.create({ model, messages, logprobs: true });
      const { content } = choice!.logprobs!;
      const bytes = new Uint8Array(content!.flatMap(({ bytes }) => bytes!));
      assert.equal(new TextDecoder().decode(bytes), "a — b");
      assert.ok(content!.every(({ logprob, top_logprobs }) => logprob <= 0 && top_logprobs.length === 0));
    }),
);

Deno.test(
  "what cannot be done is refused at its field, in both forms",
  strict,
  () =>
    withServing(async ({ send, openai, completed }) => {
      const { id: model } = await completed();
      const refused = async (more: object) => {
        const [status, type, entries] = refusal(
          await send("/v1/chat/completions", post({ model, messages, ...more })),
        );
        return [status, type === "invalid-request" ? null : type, ...entries];
      };
      const schema = (schema: object) => ({
        response_format: { type: "json_schema", json_schema: { name: "x", schema } },
      });
      const cases: [object, ...string[]][] = [
        [{ messages: [] }, "/messages invalid_value"],
        [{ messages: [{ role: "user" }] }, "/messages/0/content missing_field"],
        [{ messages: [{ role: "function", content: "" }] }, "/messages/0/role invalid_value"],
        [
          { messages: [{ role: "user", content: [{ type: "image_url" }] }] },
          "/messages/0/content/0/type invalid_value",
          "/messages/0/content/0/text missing_field",
        ],
        [{ temperature: 3 }, "/temperature out_of_range"],
        [{ top_p: 0 }, "/top_p out_of_range"],
        [{ n: 9 }, "/n out_of_range"],
        [{ stop: [..."abcde"] }, "/stop invalid_value"],
        [{ stop: "x".repeat(257) }, "/stop invalid_value"],
        [{ tools: Array(129).fill(TOOL) }, "/tools invalid_value"],
        [{ top_logprobs: 5 }, "/top_logprobs invalid_value"],
        [{ frequency_penalty: 1 }, "/frequency_penalty invalid_value"],
        [{ logit_bias: { "1": 2 } }, "/logit_bias/1 unknown_field"],
        [{ tool_choice: "required" }, "/tool_choice invalid_value"],
        [{ tools: [TOOL], response_format: { type: "json_object" } }, "/response_format invalid_value"],
        [{ max_tokens: 1, max_completion_tokens: 1 }, "/max_tokens invalid_value"],
        [{ stream_options: {} }, "/stream_options invalid_value"],
        [{ modle: "x" }, "/modle unknown_field"],
        [
          schema({ type: "array", contains: {} }),
          "/response_format/json_schema/schema/contains invalid_value",
        ],
        [{ messages: [{ role: "user", content: "word ".repeat(2000) }] }, "/messages out_of_range"],
      ];
      for (const [more, ...entries] of cases) {
        assert.deepEqual(await refused(more), [422, null, ...entries]);
      }
      const call = { id: "a", type: "function", function: { name: "add", arguments: "[1]" } };
      const broken = [...messages, { role: "assistant", content: null, tool_calls: [call] }];
      assert.deepEqual(await refused({ messages: broken }), [
        422,
        null,
        "/messages/1/tool_calls/0/function/arguments invalid_value",
      ]);
      for (
        const name of ["", "gpt-4o", "__proto__", `${model}@update_000009`, `${model}@../x`, "x".repeat(9000)]
      ) {
        assert.deepEqual(await refused({ model: name }), [404, "not-found", "/model not_found"]);
      }
      const asked = openai.chat.completions.create({ model: "gpt-4o", messages });
      await assert.rejects(asked, (error: InstanceType<typeof OpenAI.NotFoundError>) => {
        assert.ok(error instanceof OpenAI.NotFoundError);
        assert.deepEqual([error.param, error.code, error.type], [
          "model",
          "not_found",
          "invalid_request_error",
        ]);
        assert.match(error.message, /There is no such model/);
        return true;
      });
    }),
);

Deno.test(
  "a run without an adapter, and a model file that is gone or broken, are refused",
  strict,
  () =>
    withServing(async ({ send, run, folder }) => {
      const ask = async (model: string) =>
        refusal(await send("/v1/chat/completions", post({ model, messages })));
      const path = `${folder}/model.gguf`, broken = await run(path);
      await Deno.remove(`${broken.directory}/adapter.gguf`);
      await Deno.remove(broken.checkpointRoot, { recursive: true });
      const conflict = [409, "conflict", [" conflict"]];
      assert.deepEqual(await ask(`${broken.id}@base`), conflict);
      await Deno.writeTextFile(path, "no model");
      assert.deepEqual(await ask(`${broken.id}@base`), conflict);
      await Deno.copyFile(await fixturePath("models/tiny-agent-f16.gguf"), path);
      assert.deepEqual(await ask(broken.id), [404, "not-found", ["/model not_found"]]);
      const { json } = await send("/v1/models");
      assert.deepEqual(json.data.map(({ id }: { id: string }) => id), [`${broken.id}@base`]);
    }),
);
