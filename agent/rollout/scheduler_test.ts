import { deepEqual, equal, ok, rejects } from "node:assert/strict";
import type { ManualClock } from "../../core/clock_fake.ts";
import { ScriptedEngine, type ScriptedTurn } from "../../trainer/engine/scripted_engine_fake.ts";
import type { Group } from "../trajectory/group.ts";
import { promptMessages } from "./prompts.ts";
import { rolloutProgress } from "./scheduler.ts";
import {
  callText,
  rolloutGroups,
  testEnvironments,
  testRollout,
  testScenarios,
  TextChat,
  textTokens,
  turnTokens,
} from "./rollout_fake.ts";

const END_TURN = turnTokens(callText("end"));

/** After this many turns of the event loop without sampling, nothing more is expected to happen. */
const QUIET_TURNS = 20;

/** Lets everything run that needs no time, however long the engine samples. */
async function settle({ client }: ScriptedEngine): Promise<void> {
  let steps = -1;
  for (let quiet = 0; quiet < QUIET_TURNS; quiet++) {
    await new Promise((resolve) => setTimeout(resolve));
    const { decode_steps } = await client.call("counters", null);
    if (decode_steps !== steps) quiet = 0;
    steps = decode_steps;
  }
}

function outcomes(groups: Group[]): string[][] {
  return groups.map(({ members }) => members.map(({ stop_reason }) => stop_reason));
}

Deno.test("a tool that never answers blocks only its own member, and freed slots are refilled at once", async () => {
  const events: string[] = [];
  const engine = new ScriptedEngine({ script: () => END_TURN });
  const environment = testEnvironments({
    call_timeout_ms: 5000,
    open: ({ id }) => void events.push(`begin ${id}`),
    grade: ({ id }) => {
      events.push(`end ${id}`);
      return 1;
    },
  });
  const open = environment.open;
  let first = true;
  environment.open = async (...args) => {
    const opened = await open(...args);
    if (!first) return opened;
    first = false;
    return { ...opened, call: () => new Promise(() => events.push("hang a")) };
  };
  const options = testRollout(engine.client, {
    environment,
    scenarios: testScenarios("a", "b", "c"),
    group_size: 2,
    concurrent_rollouts: 2,
  });
  const running = Array.fromAsync(rolloutGroups(options));
  await settle(engine);
  deepEqual(events.filter((event) => event.startsWith("begin")), [
    "begin a",
    "begin a",
    "begin b",
    "begin b",
    "begin c",
    "begin c",
  ], "every member began before the limit, over one remaining slot");
  equal(events.filter((event) => event.startsWith("end")).length, 5, "and all others have finished");
  deepEqual(events.slice(events.indexOf("hang a") + 1).filter((event) => event !== "end a").slice(0, 4), [
    "begin b",
    "end b",
    "begin b",
    "end b",
  ], "the next group follows in the freed slot");
  await options.clock.advance(5000);
  const groups = await running;
  deepEqual(outcomes(groups), [["tool_failed", "completed"], ["completed", "completed"], [
    "completed",
    "completed",
  ]]);
  const hung = groups[0]!.members[0]!;
  deepEqual(hung.failure, { boundary: "tool", message: "the tool gave no answer within 5 s" });
  equal(hung.deterministic, false);
  equal(hung.turns[0]!.calls[0]!.exec_ms, 5000);
  deepEqual([engine.openSequences, environment.live, options.clock.sleeping], [[], 0, 0]);
});

Deno.test("there are never more episodes than slots", async () => {
  let most = 0;
  const engine = new ScriptedEngine({ script: () => END_TURN });
  const environment = testEnvironments({ grade: () => (most = Math.max(most, environment.live), 1) });
  const options = testRollout(engine.client, {
    environment,
    scenarios: testScenarios("a", "b", "c", "d"),
    group_size: 3,
    concurrent_rollouts: 5,
  });
  equal((await Array.fromAsync(rolloutGroups(options))).length, 4);
  ok(most <= 5 && most > 1, String(most));
});

Deno.test("groups are yielded in the scenarios' order, each as soon as it is complete", async () => {
  const slow = Promise.withResolvers<number>();
  const engine = new ScriptedEngine({ script: () => END_TURN });
  const environment = testEnvironments({ grade: ({ id }) => id === "b" ? slow.promise : 1 });
  const scenarios = testScenarios("a", "b", "c");
  const groups = rolloutGroups(testRollout(engine.client, { environment, scenarios, update: 7 }));
  const first = (await groups.next()).value as Group;
  deepEqual([first.scenario, first.group, first.update, first.line], ["a", 0, 7, 1]);
  let second = false;
  const waiting = groups.next().then((next) => (second = true, next));
  await settle(engine);
  equal(second, false);
  slow.resolve(0);
  equal(((await waiting).value as Group).scenario, "b");
  const third = (await groups.next()).value as Group;
  deepEqual([third.scenario, third.graded_by, third.status], ["c", "environment", "kept"]);
  deepEqual(third.toolset, { name: "test", version: "1" });
  equal((await groups.next()).done, true);
});

Deno.test("episodes are counted as they end, whichever group they are of", async () => {
  const slow = Promise.withResolvers<number>();
  const engine = new ScriptedEngine({ script: () => END_TURN });
  let first = true;
  const environment = testEnvironments({
    grade: () => {
      if (!first) return 1;
      first = false;
      return slow.promise;
    },
  });
  const scenarios = testScenarios("a", "b");
  const progress = rolloutProgress(testRollout(engine.client, { environment, scenarios, group_size: 2 }));
  let ended = 0;
  while (ended < 3) {
    const { value } = await progress.next();
    ok(
      value && "ended" in value && value.ended > ended,
      "it grows, and no group comes before the first is complete",
    );
    ended = value.ended;
  }
  slow.resolve(1);
  const rest = await Array.fromAsync(progress);
  deepEqual(rest.map((item) => "ended" in item ? item.ended : item.group.scenario), [4, "a", "b"]);
});

/** Runs one member whose first turn is sampled by `script`, and advances by `seconds` when nothing else happens. */
async function timed(
  script: (
    turn: ScriptedTurn,
  ) => ReturnType<NonNullable<ConstructorParameters<typeof ScriptedEngine>[0]>["script"] & object>,
  pass: (clock: ManualClock) => Promise<void>,
): Promise<Group> {
  const engine = new ScriptedEngine({ script });
  const environment = testEnvironments({ call_timeout_ms: 10_000_000 });
  const options = testRollout(engine.client, { environment, settings: { max_rollout_secs: 60 } });
  const running = Array.fromAsync(rolloutGroups(options));
  await settle(engine);
  await pass(options.clock);
  const [group] = await running;
  deepEqual([engine.openSequences, environment.live, options.clock.sleeping], [[], 0, 0]);
  return group!;
}

Deno.test("the wall-clock limit ends a generation, a tool and the steps after them", async () => {
  const generation = await timed(() => "hang", (clock) => clock.advance(60_000));
  deepEqual(outcomes([generation]), [["timeout"]]);
  deepEqual([generation.members[0]!.deterministic, generation.members[0]!.status], [false, "kept"]);
  equal(generation.members[0]!.timings.rollout_ms, 60_000);
  const tool = await timed(() => turnTokens(callText("hang")), (clock) => clock.advance(60_000));
  deepEqual(outcomes([tool]), [["timeout"]]);
  equal(tool.members[0]!.failure, null, "the limit ended it, not the tool");
});

Deno.test("jumps of the machine's clock neither end an attempt nor give it more time", async () => {
  const hour_ms = 3_600_000;
  for (const jump_ms of [hour_ms, -hour_ms]) {
    const group = await timed(() => "hang", async (clock) => {
      clock.jump(jump_ms);
      await clock.advance(59_999);
      equal(clock.sleeping, 1, "the attempt goes on");
      clock.jump(jump_ms);
      await clock.advance(1);
    });
    deepEqual(outcomes([group]), [["timeout"]]);
    equal(group.members[0]!.timings.rollout_ms, 60_000);
  }
});

Deno.test("the wall-clock limit counts from the first token of the prompt", async () => {
  const ready = Promise.withResolvers<void>();
  const engine = new ScriptedEngine({ script: () => END_TURN });
  const environment = testEnvironments({ open: () => ready.promise });
  const options = testRollout(engine.client, { environment, settings: { max_rollout_secs: 60 } });
  const running = Array.fromAsync(rolloutGroups(options));
  await settle(engine);
  await options.clock.advance(1_000_000);
  ready.resolve();
  const [group] = await running;
  deepEqual(outcomes([group!]), [["completed"]]);
  equal(group!.members[0]!.timings.acquire_ms, 1_000_000);
  equal(group!.members[0]!.timings.rollout_ms, 0);
});

Deno.test("an abort closes every sequence and environment", async () => {
  for (const script of [() => "hang" as const, () => turnTokens(callText("hang"))]) {
    const controller = new AbortController();
    const engine = new ScriptedEngine({ script });
    const environment = testEnvironments();
    const scenarios = testScenarios("a", "b");
    const options = testRollout(engine.client, {
      environment,
      scenarios,
      group_size: 2,
      signal: controller.signal,
    });
    const running = rejects(Array.fromAsync(rolloutGroups(options)), { code: "cancelled" });
    await settle(engine);
    equal(environment.live, 4);
    controller.abort();
    await running;
    deepEqual([engine.openSequences, environment.live, options.clock.sleeping], [[], 0, 0]);
  }
  const aborted = testRollout(new ScriptedEngine().client, { signal: AbortSignal.abort() });
  await rejects(Array.fromAsync(rolloutGroups(aborted)), { code: "cancelled" });
});

Deno.test("leaving the loop early closes everything too", async () => {
  const [b] = textTokens("b");
  // The prompt is "u:" and the scenario.
  const engine = new ScriptedEngine({ script: ({ tokens }) => tokens[2] === b ? "hang" : END_TURN });
  const environment = testEnvironments();
  const options = testRollout(engine.client, {
    environment,
    scenarios: testScenarios("a", "b"),
    group_size: 1,
  });
  for await (const group of rolloutGroups(options)) {
    equal(group.scenario, "a");
    break;
  }
  deepEqual([engine.openSequences, environment.live, options.clock.sleeping], [[], 0, 0]);
});

Deno.test("an error of the engine cancels everything and is thrown after everything is closed", async () => {
  const engine = new ScriptedEngine({
    script: () => "hang",
    refuse: (method, request) => {
      if (method === "sequence_open" && (request as { tokens: number[] }).tokens.length > 6) {
        throw new Error("full");
      }
    },
  });
  const environment = testEnvironments();
  const scenarios = testScenarios("a", "b", "longer");
  const options = testRollout(engine.client, { environment, scenarios });
  await rejects(Array.fromAsync(rolloutGroups(options)), /full/);
  deepEqual([engine.openSequences, environment.live, options.clock.sleeping], [[], 0, 0]);
});

Deno.test("an environment that is ready after the rollouts were cancelled is closed", async () => {
  const ready = Promise.withResolvers<void>();
  const controller = new AbortController();
  const environment = testEnvironments({ open: () => ready.promise });
  const engine = new ScriptedEngine();
  const options = testRollout(engine.client, { environment, signal: controller.signal });
  const running = rejects(Array.fromAsync(rolloutGroups(options)), { code: "cancelled" });
  await settle(engine);
  controller.abort();
  await running;
  ready.resolve();
  await settle(engine);
  equal(environment.live, 0);
});

Deno.test("the prompt is the system text with its suffix, then the task", async () => {
  const [plain] = testScenarios("s");
  deepEqual(promptMessages(plain!, ""), [{ role: "user", content: "s" }]);
  deepEqual(promptMessages({ ...plain!, system: "be" }, " brief"), [
    { role: "system", content: "be brief" },
    { role: "user", content: "s" },
  ]);
  deepEqual(promptMessages(plain!, "brief")[0], { role: "system", content: "brief" });
  const chat = new class extends TextChat {
    override promptTokens(): never {
      throw new Error("no prompt");
    }
  }();
  await rejects(
    Array.fromAsync(rolloutGroups(testRollout(new ScriptedEngine().client, { chat }))),
    /no prompt/,
  );
});
