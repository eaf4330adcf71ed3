import assert from "node:assert/strict";
import type { ChatFormat } from "../../agent/rollout/chat_format.ts";
import type { Grader } from "../../agent/grading/grader.ts";
import { testScenarios } from "../../agent/rollout/rollout_fake.ts";
import { ManualClock } from "../../core/clock_fake.ts";
import { ServiceError } from "../../core/errors.ts";
import { ScriptedEngine } from "../../trainer/engine/scripted_engine_fake.ts";
import { testConfig } from "../config_testing.ts";
import { followRollouts } from "../record/activity.ts";
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

Deno.test("an evaluation asks only graders of evaluations, and starts no other", async () => {
  const started: string[] = [], asked: string[] = [];
  const grader = (source: "environment" | "reward", grades_evaluations: boolean): Grader => ({
    ...{ source, grades_evaluations, shared_measures: [], coverage: () => "all" },
    start: () => Promise.resolve(void started.push(source)),
    grade: ({ attempts }) => {
      asked.push(source);
      return Promise.resolve({ grades: attempts.map(() => ({ reward: 1 })), deterministic: true });
    },
  });
  const { client: engine } = new ScriptedEngine({});
  const graders = [grader("reward", false), grader("environment", true)];
  const host = testAgentHost({ config: testConfig("/nowhere"), engine, clock: new ManualClock(), graders });
  const rollout = async (domain: "train" | "evaluation") => {
    const { signal } = new AbortController();
    const rollouts = host.rollout({
      ...{ update: 1, scenarios: testScenarios("ab"), group_size: 2, concurrent_rollouts: 2, adapter: null },
      sampling: { domain, seed: 1, temperature: 1 },
    }, signal);
    const [group] = await followRollouts(rollouts, () => {});
    return [group!.graded_by, started.splice(0), asked.splice(0)];
  };
  assert.deepEqual(await rollout("evaluation"), ["environment", ["environment"], ["environment"]]);
  assert.deepEqual(await rollout("train"), ["reward", ["reward", "environment"], ["reward"]]);
});

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

/** Generates five tokens with a chat format that renders prompts like this. */
async function generateWith(promptTokens: ChatFormat["promptTokens"]): Promise<unknown> {
  const { client: engine } = new ScriptedEngine(), config = testConfig("/nowhere");
  const host = createAgentHost({
    ...{ settings: null, engine, max_context: config.training.ctx, environment: null, graders: [] },
    ...{ clock: new ManualClock(), chat: { promptTokens } as ChatFormat, model: {} as ChatModel },
  });
  return await host.generate({ ...request, max_new_tokens: 5 }, new AbortController().signal);
}

Deno.test("a prompt that cannot fit is refused before it is encoded", async () => {
  const generating = generateWith((_messages, _tools, max_tokens) => {
    assert.equal(max_tokens, 256);
    throw new ServiceError("config_invalid", "Cannot render the prompt", { least_tokens: 300 });
  });
  await assert.rejects(generating, {
    code: "config_invalid",
    message: "Cannot generate: the messages take at least 300 tokens, and training.ctx is 256; send less",
    details: { field: "messages" },
  });
});

Deno.test("messages that the chat template refuses are named as what is wrong, without the file's path", async () => {
  const generating = generateWith(() => {
    const cause = new Error("roles must alternate");
    const message = "Cannot render the chat template of /secret/model.gguf: roles must alternate";
    throw new ServiceError("template_failed", message, {}, { cause });
  });
  await assert.rejects(generating, {
    code: "template_failed",
    message: "Cannot generate: the chat template refuses the messages: roles must alternate",
    details: { field: "messages" },
  });
});
