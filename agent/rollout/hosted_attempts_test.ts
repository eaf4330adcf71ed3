import assert from "node:assert/strict";
import { ManualClock } from "../../core/clock_fake.ts";
import { ServiceError } from "../../core/errors.ts";
import type { EnvironmentFactory } from "../environment/environment.ts";
import type { Group } from "../trajectory/group.ts";
import { type AskPolicy, GROUPS_AHEAD, hostedGroups, type HostedTurn } from "./hosted_attempts.ts";
import { attributionOf, brokenBy } from "./lost.ts";
import { testEnvironments, testScenarios } from "./rollout_fake.ts";

const turn = (name: string, given: object = {}, more: Partial<HostedTurn> = {}): HostedTurn => ({
  content: null,
  tool_calls: [{ id: "x", type: "function", function: { name, arguments: JSON.stringify(given) } }],
  finish_reason: "tool_calls",
  usage: { prompt_tokens: 0, completion_tokens: 0 },
  ...more,
});

const attemptsAt = (
  ids: readonly string[],
  { ask, environment, group_size = 1 }: {
    ask: AskPolicy;
    environment: EnvironmentFactory;
    group_size?: number;
  },
) =>
  hostedGroups({
    ...{ ask, environment, group_size, concurrent_attempts: 4, seed: 1, clock: new ManualClock() },
    scenarios: testScenarios(...ids),
    settings: {
      ...{ max_turns: 4, max_new_tokens_per_turn: 100, max_trajectory_tokens: 1000, max_rollout_secs: 0 },
      ...{ end_on_no_tool_call: true, system_suffix: "" },
    },
    signal: new AbortController().signal,
  });

async function groupsOf(items: AsyncIterable<number | Group>): Promise<Group[]> {
  const groups: Group[] = [];
  for await (const item of items) if (typeof item !== "number") groups.push(item);
  return groups;
}

Deno.test("a call in which the environment fails is the environment's, and one that fails by itself the tool's", async () => {
  const causes = async (breaking: () => never) => {
    const environments = testEnvironments();
    const environment: EnvironmentFactory = {
      ...environments,
      open: async (...given) => ({ ...await environments.open(...given), call: () => Promise.try(breaking) }),
    };
    const ask = () => Promise.resolve(turn("end"));
    const [{ members: [member] }] = await groupsOf(attemptsAt(["a"], { ask, environment })) as [Group];
    return [member!.stop_reason, member!.failure?.boundary, brokenBy(member!), attributionOf(member!)];
  };
  const environment = () => {
    throw new ServiceError("environment_failed", "Cannot step: 500");
  };
  const tool = () => {
    throw new ServiceError("tool_failed", "Cannot call");
  };
  assert.deepEqual(await causes(environment), [
    ...["environment_failed", "environment", "environment_failed", "environment"],
  ]);
  assert.deepEqual(await causes(tool), ["tool_failed", "tool", "tool_failed", "tool"]);
});

Deno.test("the calls of a turn that was cut off are not executed", async () => {
  const log: string[] = [];
  const ask = () =>
    Promise.resolve(turn("say", { text: "half" }, { content: "So", finish_reason: "length" }));
  const environment = testEnvironments({ log: (event) => log.push(event) });
  const [group] = await groupsOf(attemptsAt(["a"], { ask, environment })) as [Group];
  const [member] = group.members;
  assert.deepEqual([log, member!.stop_reason, member!.malformed_calls], [[], "max_turn_tokens", 0]);
  assert.deepEqual(member!.turns.map(({ calls }) => calls), [[]]);
  assert.deepEqual(member!.messages.slice(1), [{ role: "assistant", content: "So" }]);
});

Deno.test("groups are yielded in order, and only so many are held beside a slow one", async () => {
  const ids = Array.from({ length: 3 * GROUPS_AHEAD }, (_, i) => `s${i}`);
  const opened = new Set<string>(), last = Promise.withResolvers<void>();
  const environments = testEnvironments();
  const environment: EnvironmentFactory = {
    ...environments,
    catalog(scenario, signal) {
      opened.add(scenario.id);
      return environments.catalog(scenario, signal);
    },
  };
  const ask: AskPolicy = async ({ messages }) => {
    const { content } = messages[0]!;
    if (content === `s${GROUPS_AHEAD - 1}`) last.resolve();
    // The first attempt ends after those of all groups that may be held.
    if (content === "s0") await last.promise;
    return turn("submit");
  };
  const groups = attemptsAt(ids, { ask, environment });
  await groups.next();
  assert.equal(opened.size, GROUPS_AHEAD);
  const seen = await groupsOf(groups);
  assert.deepEqual(seen.map(({ scenario }) => scenario), ids);
  assert.deepEqual([opened.size, environments.live], [ids.length, 0]);
});
