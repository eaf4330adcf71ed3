import { deepEqual, equal, notDeepEqual, ok, rejects } from "node:assert/strict";
import { ServiceError } from "../../core/errors.ts";
import { rngKey } from "../../core/random.ts";
import { ScriptedEngine, type ScriptedTurn } from "../../trainer/engine/scripted_engine_fake.ts";
import type { StopReason, Trajectory } from "../trajectory/trajectory.ts";
import { CLOSE_TIMEOUT_MS } from "./episode.ts";
import { turnRngKey } from "./random_keys.ts";
import {
  callText,
  END,
  rolloutGroups,
  testEnvironments,
  type TestRollout,
  testRollout,
  TextChat,
  textTokens,
  turnTokens,
} from "./rollout_fake.ts";

/** Runs an episode with the given turns, and checks that nothing stays open. */
async function episode(turns: string[], more: TestRollout = {}): Promise<Trajectory> {
  const engine = new ScriptedEngine({ script: ({ turn }) => turnTokens(turns[turn] ?? "nothing left") });
  const environment = testEnvironments();
  const options = testRollout(engine.client, { environment, ...more });
  const [group] = await Array.fromAsync(rolloutGroups(options));
  deepEqual(engine.openSequences, []);
  if (!more.environment) equal(environment.live, 0);
  equal(options.clock.sleeping, 0, "no timer stays");
  return group!.members[0]!;
}

const say = callText("say", { text: "hi" });

Deno.test("a trajectory contains its exact tokens, each with its origin", async () => {
  const trajectory = await episode([say, callText("submit")]);
  equal(trajectory.stop_reason, "submitted");
  const parts = [
    textTokens("u:s\na:"),
    turnTokens(say),
    textTokens("\nt:ok\na:"),
    turnTokens(callText("submit")),
  ];
  const { tokens, spans, sampled } = trajectory.fragments[0]!;
  deepEqual(tokens, parts.flat());
  const ends = parts.map((_, i) => parts.slice(0, i + 1).flat().length);
  deepEqual(spans, [
    { start: 0, end: ends[0], origin: "prompt" },
    { start: ends[0], end: ends[1], origin: "model" },
    { start: ends[1], end: ends[2], origin: "tool" },
    { start: ends[2], end: ends[3], origin: "model" },
  ]);
  deepEqual(sampled.turns, [...parts[1]!.map(() => 0), ...parts[3]!.map(() => 1)]);
  equal(sampled.sampler_logprobs.length, sampled.turns.length);
  ok(sampled.sampler_logprobs.every((lp) => lp < 0));
  deepEqual(trajectory.turns.map(({ start, end, text }) => [start, end, text]), [
    [ends[0], ends[1], say],
    [ends[2], ends[3], callText("submit")],
  ]);
  deepEqual(trajectory.messages, [
    { role: "user", content: "s" },
    {
      role: "assistant",
      content: "",
      tool_calls: [{
        id: "call_0_0",
        type: "function",
        function: { name: "say", arguments: { text: "hi" } },
      }],
    },
    { role: "tool", content: "ok", tool_call_id: "call_0_0", name: "say" },
    {
      role: "assistant",
      content: "",
      tool_calls: [{ id: "call_1_0", type: "function", function: { name: "submit", arguments: {} } }],
    },
  ]);
  deepEqual([trajectory.terminal_reward, trajectory.total_reward, trajectory.step_rewards], [1, 1, [0, 0]]);
  deepEqual([trajectory.status, trajectory.failure, trajectory.deterministic], ["kept", null, true]);
});

Deno.test("the engine runs the prompt and the results once each", async () => {
  const turns = [say, say, callText("submit")];
  const engine = new ScriptedEngine({ script: ({ turn }) => turnTokens(turns[turn]!) });
  const groups = await Array.fromAsync(rolloutGroups(testRollout(engine.client, { group_size: 3 })));
  const counters = await engine.client.call("counters", null);
  const prompt = textTokens("u:s\na:").length, results = 2 * textTokens("\nt:ok\na:").length;
  equal(counters.prefill_tokens, prompt + 3 * results, "the group's prompt once, every result once");
  equal(counters.kv_pages_used, 0);
  equal(counters.decode_tokens, 3 * turns.flatMap(turnTokens).length);
  equal(groups[0]!.members.length, 3);
});

const stops: [string, StopReason, string[], TestRollout][] = [
  ["a call that says done", "completed", [callText("end")], {}],
  ["a turn without a call", "no_tool_call", ["hello"], {}],
  ["the last turn", "max_turns", [say, say, say], { settings: { max_turns: 2 } }],
  ["a turn that is too long", "max_turn_tokens", [say], { settings: { max_new_tokens_per_turn: 5 } }],
  ["a sequence that is too long", "max_trajectory_tokens", [say], {
    settings: { max_trajectory_tokens: 20 },
  }],
  ["a result that leaves no room", "max_trajectory_tokens", [say, say], {
    settings: { max_trajectory_tokens: 6 + turnTokens(say).length + textTokens("\nt:ok\na:").length },
  }],
  ["a prompt that leaves no room", "max_trajectory_tokens", [say], {
    settings: { max_trajectory_tokens: 6 },
  }],
  ["a tool that breaks", "tool_failed", [callText("fail")], {}],
];

for (const [what, reason, turns, more] of stops) {
  Deno.test(`${what} ends a trajectory as ${reason}`, async () => {
    const trajectory = await episode(turns, more);
    equal(trajectory.stop_reason, reason);
    const graded = ["completed", "no_tool_call"].includes(reason);
    equal(trajectory.total_reward, graded ? 0 : null, "only what came to its end is graded");
    equal(trajectory.status, reason === "tool_failed" ? "failed" : "kept");
  });
}

Deno.test("budgets are checked in their published order", async () => {
  const exact = turnTokens(say).length;
  const settings = { max_new_tokens_per_turn: exact - 1, max_trajectory_tokens: 6 + exact - 1 };
  equal(
    (await episode([say], { settings })).stop_reason,
    "max_turn_tokens",
    "the turn's before the trajectory's",
  );
  const full = { max_new_tokens_per_turn: exact, max_turns: 1 };
  equal(
    (await episode([say], { settings: full })).stop_reason,
    "max_turns",
    "a turn may be exactly as long as allowed",
  );
  const done = { max_turns: 1 };
  equal((await episode([callText("end")], { settings: done })).stop_reason, "completed", "done before turns");
  equal((await episode(["bye"], { settings: done })).stop_reason, "no_tool_call", "no call before turns");
});

Deno.test("an unfinished turn is kept as text, and no call in it is executed", async () => {
  const executed: string[] = [];
  const environment = testEnvironments({ log: (event) => executed.push(event) });
  const settings = { max_new_tokens_per_turn: textTokens(say).length };
  const trajectory = await episode([say], { settings, environment });
  equal(trajectory.stop_reason, "max_turn_tokens");
  deepEqual(executed, []);
  deepEqual(trajectory.messages.at(-1), { role: "assistant", content: say });
  equal(trajectory.fragments[0]!.tokens.at(-1) === END, false);
});

Deno.test("a malformed call is answered with what is wrong, and counted", async () => {
  const trajectory = await episode([
    "{broken",
    callText("nobody"),
    callText("say", { text: 1 }),
    callText("end"),
  ]);
  equal(trajectory.stop_reason, "completed");
  equal(trajectory.malformed_calls, 3);
  const shown = trajectory.messages.filter(({ role }) => role === "tool").map(({ content }) => content);
  deepEqual(shown, ["error: no json", "error: unknown tool", "error: bad arguments"]);
  const [broken, unknown] = trajectory.turns.map(({ calls }) => calls[0]!);
  deepEqual([broken!.malformed, broken!.text, broken!.arguments], [true, "{broken", null]);
  deepEqual([unknown!.malformed, unknown!.text, unknown!.arguments], [true, null, {}]);
  deepEqual(trajectory.messages[1], { role: "assistant", content: "{broken" }, "its text is kept");
});

Deno.test("turns with malformed calls in a row end a trajectory when that is asked for", async () => {
  const settings = { max_failed_turns: 2 };
  const ended = await episode(["{a", "{b", callText("end")], { settings });
  equal(ended.stop_reason, "tool_failed");
  deepEqual(ended.failure, { boundary: "tool", message: "2 turns in a row with a malformed call" });
  equal((await episode(["{a", say, "{b", callText("end")], { settings })).stop_reason, "completed");
});

Deno.test("parallel calls are executed in their order and answered by index", async () => {
  const executed: string[] = [];
  const environment = testEnvironments({ log: (event) => executed.push(event) });
  const turn = [say, "{broken", callText("reward", { value: 0.5 }), callText("end"), say].join("\n");
  const trajectory = await episode([turn], { environment });
  deepEqual(executed, ["s say", "s reward", "s end"], "nothing after the call that says done");
  const { calls, reward } = trajectory.turns[0]!;
  deepEqual(calls.map(({ index, id, result, malformed, done }) => [index, id, result, malformed, done]), [
    [0, "call_0_0", "ok", false, false],
    [1, "call_0_1", "error: no json", true, false],
    [2, "call_0_2", "ok", false, false],
    [3, "call_0_3", null, false, true],
    [4, "call_0_4", null, false, false],
  ]);
  equal(reward, 0.5);
  const results = trajectory.messages.filter(({ role }) => role === "tool");
  deepEqual(results.map(({ tool_call_id }) => tool_call_id), ["call_0_0", "call_0_1", "call_0_2"]);
});

Deno.test("step rewards stand by their turn and count in the total", async () => {
  const reward = (value: number) => callText("reward", { value });
  const trajectory = await episode([`${reward(1)}\n${reward(2)}`, say, reward(-0.5), callText("end")]);
  deepEqual(trajectory.step_rewards, [3, 0, -0.5, 0]);
  deepEqual([trajectory.terminal_reward, trajectory.total_reward], [1, 3.5]);
});

Deno.test("if the environment decides the end, a turn without a call is answered and the trajectory continues", async () => {
  const trajectory = await episode(["b", callText("end")], {
    settings: { end_on_no_tool_call: false },
    chat: new class extends TextChat {
      override continuation() {
        return { type: "extend" as const, forced: [1], tokens: textTokens("go"), origin: "prompt" as const };
      }
    }(),
  });
  equal(trajectory.stop_reason, "completed");
  equal(trajectory.messages[2]!.role, "user");
  deepEqual(trajectory.fragments[0]!.spans.map(({ origin }) => origin), [
    "prompt",
    "model",
    "forced",
    "prompt",
    "model",
  ]);
});

Deno.test("an environment that cannot open, or cannot grade, fails only its own trajectory", async () => {
  const broken = () => {
    throw new ServiceError("environment_failed", "Cannot start: broken");
  };
  const unopened = await episode([say], { environment: testEnvironments({ open: broken }) });
  deepEqual([unopened.stop_reason, unopened.status, unopened.turns.length], [
    "environment_failed",
    "failed",
    0,
  ]);
  deepEqual(unopened.failure, { boundary: "environment", message: "Cannot start: broken" });
  for (const grade of [broken, () => NaN, () => Infinity]) {
    const trajectory = await episode([callText("end")], { environment: testEnvironments({ grade }) });
    deepEqual([trajectory.stop_reason, trajectory.total_reward], ["environment_failed", null]);
    equal(trajectory.failure?.boundary, "environment");
  }
  const step = await episode([callText("fail")]);
  deepEqual(step.failure, { boundary: "tool", message: "Cannot run the tool: it broke" });
  deepEqual(step.turns[0]!.calls[0]!.failure, step.failure, "attributed once, where it broke");
});

Deno.test("a trajectory records how its verification ended", async () => {
  const verification = { ended: "timeout" as const, code: null, output: "", capped: false };
  const environment = testEnvironments();
  const open = environment.open;
  environment.open = async (...args) => ({
    ...await open(...args),
    grade: () => Promise.resolve({ reward: 0, timed_out: true, verification }),
  });
  const trajectory = await episode([callText("end")], { environment });
  deepEqual([trajectory.terminal_reward, trajectory.deterministic], [0, false]);
  deepEqual(trajectory.verification, verification);
  environment.open = async (...args) => ({
    ...await open(...args),
    grade: () => Promise.resolve({ reward: null, failure: "it hung", timed_out: true, verification }),
  });
  const failed = await episode([callText("end")], { environment });
  deepEqual([failed.stop_reason, failed.status, failed.deterministic], [
    "environment_failed",
    "failed",
    false,
  ]);
  deepEqual([failed.terminal_reward, failed.total_reward, failed.verification], [null, null, verification]);
  deepEqual(failed.failure, { boundary: "environment", message: "it hung" });
  equal((await episode([callText("end")])).verification, null);
});

Deno.test("a trajectory records that its sandbox has ended, as a call or the grade says, and is graded", async () => {
  const lost = { sandbox_lost: true as const }, environment = testEnvironments(), open = environment.open;
  environment.open = async (...args) => ({
    ...await open(...args),
    call: () => Promise.resolve({ result: "gone", reward: null, done: true, ...lost }),
  });
  const called = await episode([callText("say", { text: "hi" })], { environment });
  deepEqual([called.sandbox_lost, called.status, called.terminal_reward], [true, "kept", 0]);
  environment.open = async (...args) => ({
    ...await open(...args),
    grade: () => Promise.resolve({ reward: 0, timed_out: false, ...lost }),
  });
  equal((await episode([callText("end")], { environment })).sandbox_lost, true);
  equal((await episode([callText("end")])).sandbox_lost, false);
});

Deno.test("an environment that does not close is abandoned after CLOSE_TIMEOUT_MS", async () => {
  const engine = new ScriptedEngine({ script: () => turnTokens(callText("end")) });
  const environment = testEnvironments(), open = environment.open;
  const closing = Promise.withResolvers<void>();
  environment.open = async (...args) => ({
    ...await open(...args),
    close: () => (closing.resolve(), new Promise(() => {})),
  });
  const options = testRollout(engine.client, { environment, settings: { max_rollout_secs: 0 } });
  let ended = false;
  const rolled = Array.fromAsync(rolloutGroups(options)).finally(() => ended = true);
  await closing.promise;
  while (options.clock.sleeping === 0) await new Promise((resolve) => setTimeout(resolve));
  await options.clock.advance(CLOSE_TIMEOUT_MS - 1);
  await new Promise((resolve) => setTimeout(resolve));
  equal(ended, false);
  await options.clock.advance(1);
  equal((await rolled)[0]!.members[0]!.stop_reason, "completed");
});

Deno.test("a reward that is not a number fails its tool", async () => {
  const environment = testEnvironments();
  const open = environment.open;
  environment.open = async (...args) => ({
    ...await open(...args),
    call: () => Promise.resolve({ result: "ok", reward: NaN, done: false }),
  });
  equal((await episode([say], { environment })).stop_reason, "tool_failed");
});

Deno.test("errors that end the run are thrown", async () => {
  const lost = new ServiceError("device_lost", "Cannot go on: the device is gone");
  const engine = new ScriptedEngine({ script: () => lost });
  await rejects(Array.fromAsync(rolloutGroups(testRollout(engine.client))), { code: "device_lost" });
  const chat = new class extends TextChat {
    override continuation(): never {
      throw new ServiceError("template_failed", "Cannot render: it throws");
    }
  }();
  await rejects(episode([say, say], { chat }), { code: "template_failed" });
});

Deno.test("a template that is not prefix-stable gives a fragment for each turn", async () => {
  const trajectory = await episode([say, callText("end")], { chat: new TextChat(true) });
  equal(trajectory.stop_reason, "completed");
  deepEqual(trajectory.fragments.map(({ spans }) => spans.map(({ origin }) => origin)), [
    ["prompt", "model"],
    ["prompt", "model"],
  ]);
  const second = textTokens(`u:s\na:${say}\nt:ok\na:`);
  deepEqual(trajectory.fragments[1]!.tokens.slice(0, second.length), second);
  deepEqual(trajectory.fragments.map(({ sampled }) => new Set(sampled.turns)), [new Set([0]), new Set([1])]);
  deepEqual(trajectory.turns.map(({ fragment }) => fragment), [0, 1]);
});

Deno.test("a render that extends the tokens so far begins no fragment", async () => {
  const so_far = textTokens("u:s\na:").concat(turnTokens(say));
  const chat = new class extends TextChat {
    override continuation() {
      return { type: "restart" as const, tokens: [...so_far, ...textTokens("\nt:ok\na:")] };
    }
  }();
  const trajectory = await episode([say, callText("end")], { chat });
  deepEqual(trajectory.fragments.map(({ spans }) => spans.map(({ origin }) => origin)), [
    ["prompt", "model", "tool", "model"],
  ]);
});

Deno.test("samples depend only on seed, update, scenario, member and turn", async () => {
  const at = { update: 3, scenario: "a", member: 2, turn: 1 };
  const train = { domain: "train", seed: 42, temperature: 1 } as const;
  deepEqual(turnRngKey(train, at), rngKey(42, 3, "a", 2, 1));
  const evaluation = { ...train, domain: "evaluation" } as const;
  deepEqual(
    turnRngKey(evaluation, at),
    turnRngKey(evaluation, { ...at, update: 9 }),
    "the same at every evaluation",
  );
  notDeepEqual(turnRngKey(evaluation, at), turnRngKey(train, at));
  const script = ({ turn }: ScriptedTurn) => turn === 0 ? undefined : turnTokens(callText("end"));
  const settings = { max_new_tokens_per_turn: 12, end_on_no_tool_call: false };
  const tokensOf = async (concurrent_rollouts: number) => {
    const engine = new ScriptedEngine({ script });
    const options = testRollout(engine.client, { group_size: 4, concurrent_rollouts, settings });
    const [group] = await Array.fromAsync(rolloutGroups(options));
    return group!.members.map(({ fragments }) => fragments[0]!.tokens);
  };
  const apart = await tokensOf(1);
  deepEqual(await tokensOf(4), apart);
  equal(new Set(apart.map(String)).size, 4, "members differ");
});
