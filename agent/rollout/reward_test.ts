import { deepEqual, equal, ok, throws } from "node:assert/strict";
import { ServiceError } from "../../core/errors.ts";
import { finishGroups } from "./finish_groups.ts";
import { applyTruncation, checkLost, earnedReward, lostFraction, passed } from "./reward.ts";
import { rewardedGroup, testGroup, type TestMember } from "./group_testing.ts";

const settings = { truncation: "drop", max_dropped_fraction: 1, advantage: "leave_one_out" } as const;

Deno.test("a truncated member is dropped before the baseline", () => {
  const group = testGroup([
    { terminal: 1 },
    { terminal: 0 },
    { stop_reason: "max_turns" },
    { stop_reason: "timeout" },
    { stop_reason: "tool_failed" },
  ]);
  finishGroups([group], settings);
  deepEqual(group.members.map(({ status }) => status), ["kept", "kept", "dropped", "dropped", "failed"]);
  deepEqual(group.members.map(({ advantage }) => advantage), [1, -1, null, null, null]);
  equal(group.members[2]!.total_reward, null);
  equal(lostFraction([group]), 3 / 5);
});

Deno.test("min_reward lowers the terminal part, so that the steps keep their returns", () => {
  const group = testGroup([
    { step_rewards: [1, 0], terminal: 1 },
    { step_rewards: [0, 0], terminal: 0.5 },
    { stop_reason: "max_turns", step_rewards: [2, 1] },
  ]);
  finishGroups([group], { ...settings, truncation: "min_reward" });
  const cut = group.members[2]!;
  deepEqual([cut.status, cut.terminal_reward, cut.total_reward], ["kept", -2.5, 0.5]);
  // Steps from turn 0: 3 − (1 + 0)/2; from turn 1: 1 − 0. Terminal: −2.5 − (1 + 0.5)/2.
  deepEqual(cut.turn_advantages, [2.5 - 3.25, 1 - 3.25]);
  equal(lostFraction([group]), 0, "what is kept is not lost");
});

Deno.test("min_reward is the lowest total, not the lowest terminal part", () => {
  const group = testGroup([
    { step_rewards: [2], terminal: 0 },
    { step_rewards: [0], terminal: 1 },
    { stop_reason: "max_turns", step_rewards: [0.25] },
  ]);
  finishGroups([group], { ...settings, truncation: "min_reward" });
  deepEqual([group.members[2]!.total_reward, group.members[2]!.terminal_reward], [1, 0.75]);
});

Deno.test("a group with fewer than two survivors is dropped", () => {
  const group = testGroup([{ terminal: 1 }, { stop_reason: "max_turn_tokens" }, {
    stop_reason: "environment_failed",
  }]);
  finishGroups([group], settings);
  equal(group.status, "too_small");
  deepEqual(group.members.map(({ status }) => status), ["group_dropped", "dropped", "failed"]);
  deepEqual(group.members[0]!.turn_advantages, [], "its reward never becomes an advantage");
  equal(lostFraction([group]), 1);
});

Deno.test("a group that nothing graded is dropped", () => {
  const group = { ...rewardedGroup([1, 0]), graded_by: null };
  applyTruncation(group, "drop");
  equal(group.status, "ungraded");
  equal(lostFraction([group]), 1);
});

Deno.test("losing more than max_dropped_fraction stops the run and says why", () => {
  const lossy = testGroup([{ terminal: 1 }, { terminal: 0 }, { stop_reason: "max_turns" }, {
    stop_reason: "tool_failed",
  }]);
  const groups = [lossy, rewardedGroup([1, 0, 0, 1], 1)];
  finishGroups(groups, { ...settings, max_dropped_fraction: 0.25 });
  throws(() => checkLost(groups, { max_dropped_fraction: 0.249 }), (error: unknown) => {
    if (!(error instanceof ServiceError)) return false;
    equal(error.code, "max_dropped_fraction");
    equal(
      error.message,
      "Cannot learn from the update: 2 of 8 trajectories are lost (1 max_turns, 1 tool_failed), more than " +
        'agent.max_dropped_fraction = 0.249; raise agent.max_turns or set agent.truncation = "min_reward". ' +
        "First failure, of the tool: it broke",
    );
    deepEqual(error.details, {
      update: 1,
      lost: 2,
      trajectories: 8,
      reasons: { max_turns: 1, tool_failed: 1 },
    });
    return true;
  });
});

Deno.test("without a limit that was hit, no advice is given to raise one", () => {
  const failed: TestMember = { stop_reason: "environment_failed", step_rewards: [] };
  const broken = testGroup([{ terminal: 1 }, failed, failed]);
  finishGroups([broken], { ...settings, max_dropped_fraction: 1 });
  throws(() => checkLost([broken], { max_dropped_fraction: 0.5 }), (error: ServiceError) => {
    equal(
      error.message,
      "Cannot learn from the update: 3 of 3 trajectories are lost (1 group_dropped, 2 environment_failed), more than " +
        "agent.max_dropped_fraction = 0.5. First failure, of the tool: it broke",
    );
    return true;
  });
});

Deno.test("an update whose environment gave no reward says so", () => {
  const unrewarded = { ...rewardedGroup([0, 0]), graded_by: null };
  finishGroups([unrewarded], { ...settings, max_dropped_fraction: 1 });
  throws(() => checkLost([unrewarded, rewardedGroup([1, 0], 1)], { max_dropped_fraction: 0.4 }), {
    message: "Cannot learn from the update: 2 of 4 trajectories are lost (2 group_dropped), more than " +
      "agent.max_dropped_fraction = 0.4. In 1 of 2 groups no call had a reward, and nothing else grades them",
  });
});

Deno.test("min_reward compares a truncated attempt by the lowest reward, and it has not passed or earned that", () => {
  const group = testGroup([{ terminal: 1 }, { terminal: 1 }, {
    stop_reason: "max_turns",
    step_rewards: [0.25, 0],
  }]);
  finishGroups([group], { ...settings, truncation: "min_reward" });
  deepEqual(group.members.map(({ total_reward }) => total_reward), [1, 1, 1]);
  deepEqual(group.members.map(passed), [true, true, false]);
  deepEqual(group.members.map(earnedReward), [1, 1, 0.25]);
});

Deno.test("the advice names the limiting key, and no key without effect", () => {
  const message = (
    truncation: "drop" | "min_reward",
    limits: { max_trajectory_tokens?: number; ctx?: number },
  ) => {
    const group = testGroup([{ terminal: 1 }, { stop_reason: "max_trajectory_tokens" }, {
      stop_reason: "environment_failed",
    }]);
    // min_reward keeps the truncated member; without the third there is one member too few.
    const groups = truncation === "drop" ? [group] : [testGroup([
      { stop_reason: "max_trajectory_tokens" },
      { stop_reason: "environment_failed" },
    ])];
    finishGroups(groups, { ...settings, truncation, max_dropped_fraction: 1 });
    try {
      checkLost(groups, { max_dropped_fraction: 0, ...limits });
    } catch (error) {
      return (error as ServiceError).message;
    }
    throw new Error("nothing was lost");
  };
  ok(
    /; raise agent\.max_trajectory_tokens or set/.test(
      message("drop", { max_trajectory_tokens: 512, ctx: 1024 }),
    ),
  );
  ok(/; raise training\.ctx \(agent\.max_trajectory_tokens can be no larger\) or set/.test(
    message("drop", { max_trajectory_tokens: 1024, ctx: 1024 }),
  ));
  ok(!/raise|truncation/.test(message("min_reward", { max_trajectory_tokens: 1024, ctx: 1024 })));
});

Deno.test("an attempt passes with a total above 0", () => {
  const { members } = testGroup([{ terminal: 0.1 }, { terminal: 0 }, {
    stop_reason: "max_turns",
    step_rewards: [1],
  }]);
  deepEqual(members.map(passed), [true, false, false]);
});
