/** Chat completions of a real model on the device, compared with PyTorch's results on the same files. */

import assert from "node:assert/strict";
import type OpenAI from "openai";
import { LineTables } from "../runs/views/update_lines.ts";
import { ObservedRun } from "../runs/views/observed_run.ts";
import { withServing } from "./served_app.ts";
import { fixturePath, readFixtureJson } from "./fixture.ts";
import { type Golden, GOLDEN_ADAPTER, type GoldenLora } from "./golden/golden.ts";
import { validatorOf } from "./schema_validator.ts";

type Prompt = Golden["prompts"][number] & { messages: OpenAI.ChatCompletionMessageParam[] | null };

/** The goldens' arguments are objects; OpenAI's are text. */
function openAiMessages(messages: OpenAI.ChatCompletionMessageParam[]): OpenAI.ChatCompletionMessageParam[] {
  return messages.map((message) => {
    if (message.role !== "assistant" || !message.tool_calls) return message;
    const tool_calls = message.tool_calls.map((call, i) => {
      assert.ok(call.type === "function");
      const text = JSON.stringify(call.function.arguments);
      return { ...call, id: call.id ?? `call_${i}`, function: { ...call.function, arguments: text } };
    });
    return { ...message, tool_calls };
  });
}

const SCHEMA = {
  type: "object",
  properties: {
    name: { type: "string", maxLength: 8 },
    count: { type: "integer", minimum: 1, maximum: 99 },
    tags: { type: "array", items: { enum: ["a", "b"] }, maxItems: 3 },
  },
  required: ["name", "count", "tags"],
  additionalProperties: false,
};

Deno.test("a served model gives PyTorch's tokens, with an adapter and without, and valid JSON", () =>
  withServing(async ({ openai, completed, fleet, folder }) => {
    const run = await completed(), golden = await readFixtureJson("models/tiny-agent/golden.json");
    await Deno.copyFile(await fixturePath(GOLDEN_ADAPTER), `${run.directory}/adapter.gguf`);
    // The log has the hash of the adapter that the run wrote.
    await Deno.remove(`${run.directory}/events.jsonl`);
    const lora: GoldenLora = await readFixtureJson("models/tiny-agent/golden-lora.json");
    const { prompts, tools } = golden as { prompts: Prompt[]; tools: OpenAI.ChatCompletionTool[] };
    const asked: { model: string; ids: number[] }[] = [];
    for (const i of [0, 1]) {
      const { messages, f16: base } = prompts[i]!, adapted = lora.f16.prompts[i]!;
      for (const [model, { ids }] of [[run.id, adapted.greedy], [`${run.id}@base`, base.greedy]] as const) {
        const { choices: [choice], usage } = await openai.chat.completions.create({
          ...{ model, tools, temperature: 0 },
          messages: openAiMessages(messages!),
        });
        // The goldens go on after the turn.
        const turn = ids.slice(0, ids.indexOf(golden.eos) + 1);
        asked.push({ model, ids: turn });
        assert.deepEqual([usage!.prompt_tokens, usage!.completion_tokens], [
          prompts[i]!.ids.length,
          turn.length,
        ]);
        assert.equal(choice!.finish_reason, "tool_calls");
      }
    }
    for (const { model, ids } of asked) {
      const observed = new ObservedRun(`${folder}/conversations/${model}`, new LineTables());
      const mine = asked.filter((other) => other.model === model);
      const page = { update: mine.findIndex((other) => other.ids === ids) + 1, group: 0, member: 0 };
      const { items } = (await observed.tokens(page, { after: -1, limit: 5000 }))!;
      const sampled = items.filter(({ origin }) => origin === "model");
      assert.deepEqual(sampled.map(({ id }) => id), ids, `the greedy tokens of ${model}`);
    }
    const response_format = {
      type: "json_schema" as const,
      json_schema: { name: "answer", schema: SCHEMA, strict: true },
    };
    const { choices } = await openai.chat.completions.create({
      ...{ model: run.id, response_format, n: 3, seed: 5, max_completion_tokens: 400 },
      messages: [{ role: "user", content: "Tell me." }],
    });
    const validate = validatorOf(SCHEMA)!;
    for (const { message, finish_reason } of choices) {
      assert.equal(finish_reason, "stop");
      assert.ok(validate(JSON.parse(message.content!)), message.content!);
    }
    const loads = fleet.logged.filter(({ message }) => String(message).startsWith("A model is loaded"));
    assert.equal(loads.length, 1, "the base is loaded once");
  }, { program: "real", record: true }));
