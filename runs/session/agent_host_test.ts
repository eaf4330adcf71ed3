import assert from "node:assert/strict";
import type { ChatFormat } from "../../agent/rollout/chat_format.ts";
import { ManualClock } from "../../core/clock_fake.ts";
import { ServiceError } from "../../core/errors.ts";
import { ScriptedEngine } from "../../trainer/engine/scripted_engine_fake.ts";
import { testConfig } from "../config_testing.ts";
import { testAgentHost } from "../run_fake.ts";
import type { ChatModel } from "../chat/answer_chat.ts";
import { createAgentHost } from "./agent_host.ts";

const request = {
  messages: [{ role: "user" as const, content: "abc" }],
  tools: [],
  temperature: 1,
  top_p: 1,
  rng_key: [1, 2, 3, 4] as never,
  adapter: null,
};

Deno.test("a request's new tokens end with the context; a prompt that fills it is refused", async () => {
  const asked: number[] = [], opened: number[] = [];
  const { client: engine } = new ScriptedEngine({
    refuse(method, given) {
      const { max_tokens, tokens } = given as { max_tokens: number; tokens: number[] };
      if (method === "sequence_generate") asked.push(max_tokens);
      if (method === "sequence_open") opened.push(tokens.length);
    },
  });
  const config = testConfig("/nowhere");
  const host = testAgentHost({ config, engine, clock: new ManualClock() });
  const { signal } = new AbortController();
  await host.generate({ ...request, max_new_tokens: 5 }, signal);
  await host.generate({ ...request, max_new_tokens: 1_000_000 }, signal);
  assert.deepEqual(asked, [5, config.training.ctx - opened[0]!]);
  const long = {
    ...request,
    messages: [{ role: "user" as const, content: "a".repeat(config.training.ctx) }],
  };
  await assert.rejects(host.generate({ ...long, max_new_tokens: 5 }, signal), {
    code: "config_invalid",
    message: /training\.ctx is 256/,
  });
  assert.equal(opened.length, 2);
});

Deno.test("messages that the chat template refuses are named as what is wrong, without the file's path", async () => {
  const { client: engine } = new ScriptedEngine(), config = testConfig("/nowhere");
  const chat = {
    promptTokens() {
      const cause = new Error("roles must alternate");
      const message = "Cannot render the chat template of /secret/model.gguf: roles must alternate";
      throw new ServiceError("template_failed", message, {}, { cause });
    },
  } as unknown as ChatFormat;
  const host = createAgentHost({
    ...{ settings: null, engine, chat, max_context: config.training.ctx, environment: null, graders: [] },
    ...{ clock: new ManualClock(), model: {} as ChatModel },
  });
  await assert.rejects(host.generate({ ...request, max_new_tokens: 5 }, new AbortController().signal), {
    code: "template_failed",
    message: "Cannot generate: the chat template refuses the messages: roles must alternate",
    details: { field: "messages" },
  });
});
