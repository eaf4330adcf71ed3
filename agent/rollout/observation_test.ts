/** Environments that start with something for the model, and the seeds of their start. */

import { deepEqual, equal, notEqual, ok } from "node:assert/strict";
import type { Message } from "../../core/chat.ts";
import { ServiceError } from "../../core/errors.ts";
import { ScriptedEngine } from "../../trainer/engine/scripted_engine_fake.ts";
import type { Scenario } from "../../data/scenario.ts";
import type { Trajectory } from "../trajectory/trajectory.ts";
import {
  callText,
  rolloutGroups,
  testEnvironments,
  type TestRollout,
  testRollout,
  testScenarios,
  TextChat,
  textTokens,
  turnTokens,
} from "./rollout_fake.ts";

/** Runs an episode with the given turns, and checks that nothing stays open. */
async function episode(turns: string[], more: TestRollout): Promise<Trajectory> {
  const engine = new ScriptedEngine({ script: ({ turn }) => turnTokens(turns[turn]!) });
  const options = testRollout(engine.client, more);
  const [group] = await Array.fromAsync(rolloutGroups(options));
  deepEqual([engine.openSequences, options.clock.sleeping], [[], 0]);
  return group!.members[0]!;
}

const say = callText("say", { text: "hi" });

Deno.test("what an environment starts with follows the task, in the member's own prompt", async () => {
  const seen: [unknown, string][] = [["look", "look"], [{ a: [1] }, '{"a":[1]}'], ["", ""], [0, "0"]];
  for (const [observation, text] of seen) {
    const environment = testEnvironments({ observation: () => observation });
    const trajectory = await episode([say, callText("end")], { environment });
    deepEqual(trajectory.messages[0], { role: "user", content: `s\n\n${text}` });
    const prompt = textTokens(`u:s\n\n${text}\na:`);
    const [fragment] = trajectory.fragments;
    deepEqual(fragment!.tokens.slice(0, prompt.length), prompt);
    deepEqual(fragment!.spans[0], { start: 0, end: prompt.length, origin: "prompt" });
    equal(trajectory.turns[0]!.start, prompt.length);
    deepEqual([trajectory.fragments.length, trajectory.stop_reason, environment.live], [1, "completed", 0]);
  }
  const nothing = testEnvironments({ observation: () => null });
  deepEqual((await episode([say, callText("end")], { environment: nothing })).messages[0], {
    role: "user",
    content: "s",
  });
});

Deno.test("a template that rewrites earlier turns keeps what the environment started with", async () => {
  const environment = testEnvironments({ observation: () => "look" });
  const trajectory = await episode([say, callText("end")], { environment, chat: new TextChat(true) });
  const start = textTokens("u:s\n\nlook\na:");
  equal(trajectory.fragments.length, 2);
  // The second fragment ends the first turn with a line end, as TextChat writes it.
  for (const { tokens } of trajectory.fragments) deepEqual(tokens.slice(0, start.length), start);
});

Deno.test("members whose environments start equally share their prompt, which runs once as far as it is the task's", async () => {
  const engine = new ScriptedEngine({ script: () => turnTokens(callText("end")) });
  const environment = testEnvironments({ observation: () => "look" });
  const options = testRollout(engine.client, { environment, group_size: 3 });
  const [group] = await Array.fromAsync(rolloutGroups(options));
  const own = textTokens("u:s\n\nlook\na:"),
    task = textTokens("u:s\na:"),
    common = textTokens("u:s\n").length;
  deepEqual(group!.prompt_tokens, own);
  deepEqual(group!.prompt_messages, [{ role: "user", content: "s\n\nlook" }]);
  const [{ user, system, metadata }] = options.scenarios as [Scenario];
  deepEqual(group!.task, { user, system, metadata }, "as its scenario says it");
  const counters = await engine.client.call("counters", null);
  equal(counters.prefill_tokens, task.length + 3 * (own.length - common));
  deepEqual([engine.openSequences, counters.kv_pages_used], [[], 0]);
  for (const { fragments } of group!.members) deepEqual(fragments[0]!.tokens.slice(0, own.length), own);
});

Deno.test("members whose environments start differently share what their prompts begin with", async () => {
  let next = 0;
  const texts = ["look left", "look right"];
  const environment = testEnvironments({ observation: () => texts[next++] });
  const engine = new ScriptedEngine({ script: () => turnTokens(callText("end")) });
  const [group] = await Array.fromAsync(
    rolloutGroups(testRollout(engine.client, { environment, group_size: 2 })),
  );
  deepEqual(group!.prompt_tokens, textTokens("u:s\n\nlook "));
  deepEqual(group!.prompt_messages, [{ role: "user", content: "s" }]);
  deepEqual(group!.members.map(({ messages }) => messages[0]!.content), [
    "s\n\nlook left",
    "s\n\nlook right",
  ]);
});

Deno.test("a prompt that shares nothing with the task's runs alone", async () => {
  const engine = new ScriptedEngine({ script: () => turnTokens(callText("end")) });
  const chat = new class extends TextChat {
    override promptTokens(messages: readonly Message[]): number[] {
      return super.promptTokens(messages).reverse();
    }
  }();
  const environment = testEnvironments({ observation: () => "xx" });
  const [group] = await Array.fromAsync(rolloutGroups(testRollout(engine.client, { environment, chat })));
  const own = textTokens(":a\nxx\n\ns:u");
  deepEqual(group!.members[0]!.fragments[0]!.tokens.slice(0, own.length), own);
  deepEqual(engine.openSequences, []);
});

Deno.test("an environment that starts with too much leaves no room for a turn, and is closed", async () => {
  const environment = testEnvironments({ observation: () => "0123456789" });
  // "u:s", a blank line and the text, a line end and "a:".
  for (
    const [max_trajectory_tokens, reason] of [[18, "max_trajectory_tokens"], [60, "no_tool_call"]] as const
  ) {
    const trajectory = await episode(["b"], { environment, settings: { max_trajectory_tokens } });
    deepEqual([trajectory.stop_reason, environment.live], [reason, 0]);
    if (reason === "no_tool_call") continue;
    deepEqual(trajectory.failure, {
      boundary: "prompt",
      message: 'the prompt of scenario "s" has 18 tokens, which leaves no room for a turn within 18 ' +
        "(agent.max_trajectory_tokens, at most training.ctx)",
    });
    equal(trajectory.timings.rollout_ms, 0);
  }
  const chat = new class extends TextChat {
    override promptTokens(messages: readonly Message[], _: unknown = [], max_tokens?: number): number[] {
      if (max_tokens === undefined) return super.promptTokens(messages);
      throw new ServiceError("config_invalid", "Cannot render the prompt: too long", { least_tokens: 99 });
    }
  }();
  const trajectory = await episode(["b"], { environment, chat });
  deepEqual([trajectory.stop_reason, environment.live], ["max_trajectory_tokens", 0]);
  ok(trajectory.failure!.message.includes('"s" has at least 99 tokens'), trajectory.failure!.message);
});

Deno.test("all members of a group start with one seed, which differs between updates, scenarios and runs", async () => {
  const seedsOf = async (more: TestRollout) => {
    const seeds: number[] = [];
    const environment = testEnvironments({ open: (_, seed) => void seeds.push(seed) });
    const engine = new ScriptedEngine({ script: () => turnTokens(callText("end")) });
    await Array.fromAsync(rolloutGroups(testRollout(engine.client, { environment, group_size: 2, ...more })));
    equal(new Set(seeds).size, 1);
    return seeds[0]!;
  };
  const sampling = (domain: "train" | "evaluation", seed = 42) => ({
    sampling: { domain, seed, temperature: 1 },
  });
  const first = await seedsOf({});
  equal(await seedsOf({}), first);
  ok(Number.isSafeInteger(first) && first >= 0);
  for (
    const more of [
      { update: 1 },
      { scenarios: testScenarios("t") },
      sampling("train", 43),
      sampling("evaluation"),
    ]
  ) {
    notEqual(await seedsOf(more), first);
  }
  equal(
    await seedsOf({ ...sampling("evaluation"), update: 1 }),
    await seedsOf(sampling("evaluation")),
    "evaluations before and after training start equal",
  );
});
