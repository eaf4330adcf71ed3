import { deepEqual, equal } from "node:assert/strict";
import { ServiceError } from "../../core/errors.ts";
import { BoundaryFailure } from "../trajectory/boundary.ts";
import { ATTRIBUTIONS } from "../trajectory/trajectory.ts";
import { ScriptedEngine } from "../../trainer/engine/scripted_engine_fake.ts";
import { finishGroups } from "./finish_groups.ts";
import {
  attributionOf,
  breakReasons,
  brokenBy,
  firstFailure,
  firstFailures,
  lostReasons,
  reasonsText,
} from "./lost.ts";
import { rolloutMetrics } from "./metrics.ts";
import { earnedReward } from "./reward.ts";
import {
  callText,
  rolloutGroups,
  testEnvironments,
  type TestRollout,
  testRollout,
  testScenarios,
  turnTokens,
} from "./rollout_fake.ts";
import { rewardedGroup, testGroup } from "./group_testing.ts";

/** One attempt with these turns. */
async function attempt(turns: string[], more: TestRollout = {}) {
  const engine = new ScriptedEngine({ script: ({ turn }) => turnTokens(turns[turn] ?? "b") });
  const groups = await Array.fromAsync(rolloutGroups(testRollout(engine.client, more)));
  return { groups, member: groups[0]!.members[0]!, reason: brokenBy(groups[0]!.members[0]!) };
}

const broken = () => {
  throw new ServiceError("environment_failed", "Cannot start: broken");
};
const end = callText("end");

Deno.test("failures outside the model are distinguished from the model's own", async () => {
  const environment = (more: Parameters<typeof testEnvironments>[0]) => ({
    environment: testEnvironments(more),
  });
  equal((await attempt([end])).reason, null);
  equal((await attempt([end], environment({ open: broken }))).reason, "environment_failed");
  equal((await attempt([end], environment({ grade: broken }))).reason, "verify_failed");
  equal((await attempt([callText("fail")])).reason, "tool_failed");
  equal((await attempt([callText("say", { text: "a" })], { settings: { max_turns: 1 } })).reason, null);
  const malformed = await attempt(["{a"], { settings: { max_failed_turns: 1 } });
  deepEqual([lostReasons(malformed.groups), firstFailure(malformed.groups)], [{ max_failed_turns: 1 }, null]);
  equal(
    (await attempt([`{a\n${callText("fail")}`], { settings: { max_failed_turns: 1 } })).reason,
    "tool_failed",
  );
  // A tool that works nowhere is found at the end of an attempt, which may have a malformed call.
  const dead = () => {
    throw new BoundaryFailure({ boundary: "tool", message: "Cannot run it" }, "failed");
  };
  for (const turn of [end, `{a\n${end}`, "b"]) {
    const { member, reason } = await attempt([turn], environment({ grade: dead }));
    deepEqual([reason, attributionOf(member), member.status], ["tool_failed", "tool", "failed"], turn);
  }
});

Deno.test("each failure is attributed to one cause", async () => {
  const attributionFor = async (turns: string[], more: TestRollout = {}) => {
    const { member, groups } = await attempt(turns, more);
    const metrics = rolloutMetrics(groups, 1);
    const counted = ATTRIBUTIONS.filter((name) => metrics[`failure/${name}_fraction`]! > 0);
    const attribution = attributionOf(member);
    deepEqual(counted, attribution === null ? [] : [attribution]);
    return attribution;
  };
  const environment = (more: Parameters<typeof testEnvironments>[0]) => ({
    environment: testEnvironments(more),
  });
  const noDisk = () => {
    throw new ServiceError("infrastructure_failed", "Cannot make a workspace: the disk is full");
  };
  equal(await attributionFor([end]), null);
  equal(await attributionFor(["{a"], { settings: { max_failed_turns: 1 } }), "model");
  equal(await attributionFor([callText("say", { text: "a" })], { settings: { max_turns: 1 } }), "budget");
  const full = { scenarios: testScenarios("abcd"), settings: { max_trajectory_tokens: 9 } };
  equal(await attributionFor([end], full), "budget");
  equal(await attributionFor([callText("fail")]), "tool");
  equal(await attributionFor([end], environment({ open: broken })), "environment");
  equal(await attributionFor([end], environment({ grade: broken })), "environment");
  equal(await attributionFor([end], environment({ open: noDisk })), "infrastructure");
  equal(await attributionFor([end], environment({ grade: noDisk })), "infrastructure");
  for (const boundary of ["reward", "judge"] as const) {
    const group = testGroup([{ stop_reason: "submitted" }]);
    group.members[0]!.failure = { boundary, message: "no answer" };
    equal(attributionOf(group.members[0]!), "judge");
  }
});

Deno.test("a prompt that leaves no room for a turn is named with both lengths", async () => {
  const scenarios = testScenarios("abcd");
  // "u:abcd" and a line end, then "a:".
  for (const [max_trajectory_tokens, reason] of [[9, "prompt_too_long"], [10, null]] as const) {
    const { groups, member, reason: found } = await attempt([end], {
      scenarios,
      settings: { max_trajectory_tokens },
    });
    deepEqual([found, member.stop_reason], [reason, "max_trajectory_tokens"]);
    deepEqual(
      firstFailure(groups),
      reason && {
        scenario: "abcd",
        boundary: "prompt",
        message: 'the prompt of scenario "abcd" has 9 tokens, which leaves no room for a turn within ' +
          "9 (agent.max_trajectory_tokens, at most training.ctx)",
      },
    );
    equal(earnedReward(member), reason ? null : 0);
  }
});

Deno.test("lost attempts are counted by reason, and kept ones are not", () => {
  const groups = [
    testGroup([{ terminal: 1 }, { terminal: 0 }, { stop_reason: "max_turns" }, { stop_reason: "max_turns" }]),
    testGroup([{ terminal: 1 }, { stop_reason: "environment_failed", step_rewards: [] }], 1),
    testGroup([{ terminal: 1 }, { terminal: 0 }, { stop_reason: "environment_failed" }], 2),
    rewardedGroup([1, 1], 3),
  ];
  finishGroups(groups, { truncation: "drop", max_dropped_fraction: 1, advantage: "leave_one_out" });
  const reasons = lostReasons(groups);
  deepEqual(reasons, { max_turns: 2, group_dropped: 1, environment_failed: 1, verify_failed: 1 });
  equal(reasonsText(reasons), "2 max_turns, 1 group_dropped, 1 environment_failed, 1 verify_failed");
  deepEqual(breakReasons(groups), { environment_failed: 1, verify_failed: 1 });
  deepEqual(Object.keys(firstFailures(groups)), ["environment_failed", "verify_failed"]);
  equal(firstFailure(groups)!.scenario, "s1");
});
