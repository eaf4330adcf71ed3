import { deepEqual, equal, ok, throws } from "node:assert/strict";
import type { Group } from "../trajectory/group.ts";
import type { CallRecord, Trajectory } from "../trajectory/trajectory.ts";
import { finishGroups } from "./finish_groups.ts";
import { rolloutMetrics } from "./metrics.ts";
import { rewardedGroup, testGroup, type TestMember } from "./group_testing.ts";

const settings = { truncation: "drop", max_dropped_fraction: 1, advantage: "leave_one_out" } as const;

type CallKind = "ok" | "malformed" | "skipped" | "failed";

/** Sets the calls of a member's turns, by kind and time. */
function giveCalls(member: Trajectory, turns: [CallKind, number][][]): void {
  turns.forEach((calls, t) => {
    member.turns[t]!.calls = calls.map(([kind, exec_ms], index): CallRecord => ({
      index,
      id: `call_${t}_${index}`,
      name: "say",
      arguments: {},
      text: null,
      malformed: kind === "malformed",
      result: kind === "ok" ? "ok" : kind === "malformed" ? "error" : null,
      reward: null,
      done: false,
      failure: kind === "failed" ? { boundary: "tool", message: "" } : null,
      exec_ms,
    }));
  });
  member.malformed_calls = turns.flat().filter(([kind]) => kind === "malformed").length;
}

function update() {
  const first = testGroup([
    { terminal: 1, step_rewards: [0, 0], turn_tokens: [3, 1], stop_reason: "submitted" },
    { terminal: 0, step_rewards: [0], turn_tokens: [8], stop_reason: "no_tool_call" },
    { stop_reason: "max_turns", step_rewards: [0, 0, 0, 0], turn_tokens: [1, 1, 1, 1] },
    { stop_reason: "environment_failed", step_rewards: [] },
  ]);
  const [a, b, c, d] = first.members;
  b!.sandbox_lost = true;
  giveCalls(a!, [[["ok", 10]], [["ok", 30]]]);
  giveCalls(b!, [[]]);
  giveCalls(c!, [[["malformed", 0], ["ok", 100]], [["malformed", 0]], [["malformed", 0]], [["skipped", 0]]]);
  a!.timings = {
    ...a!.timings,
    queue_ms: 0,
    acquire_ms: 100,
    generate_ms: 3000,
    tools_ms: 40,
    reward_ms: 500,
  };
  b!.timings = { ...b!.timings, queue_ms: 2000, acquire_ms: 300, reward_ms: 1500 };
  d!.timings = { ...d!.timings, queue_ms: 6000, generate_ms: 250, tools_ms: 10 };
  const groups = [
    first,
    rewardedGroup([1, 1], 1),
    testGroup([{ terminal: 1 }, { stop_reason: "tool_failed" }], 2),
  ];
  finishGroups(groups, settings);
  return groups;
}

Deno.test("every metric of an update equals its hand-computed value", () => {
  const { "reward/std": reward_std, "advantage/std": advantage_std, ...metrics } = rolloutMetrics(
    update(),
    10,
  );
  deepEqual(metrics, {
    // 8 trajectories: four of the first group, two in each of the others.
    "agent/truncated_fraction": 1 / 8,
    "agent/failed_fraction": 2 / 8,
    "agent/turns_mean": (2 + 1 + 4 + 0 + 1 + 1 + 1 + 1) / 8,
    "agent/tokens_mean": (4 + 8 + 4 + 0 + 2 + 2 + 2 + 2) / 8,
    // 7 have a turn: 2/2, 0/1, (1 well-formed + 1 skipped)/4, and four without a call.
    "agent/tool_calls_per_turn": (1 + 0 + 0.5) / 7,
    // Two have calls: 0 of 2, 3 of 5.
    "agent/malformed_call_fraction": 0.6 / 2,
    "agent/valid_call_fraction": (1 + 0.4) / 2,
    // One at its limit, one without an environment, one of a broken tool.
    "failure/model_fraction": 0,
    "failure/budget_fraction": 1 / 8,
    "failure/tool_fraction": 1 / 8,
    "failure/environment_fraction": 1 / 8,
    "failure/judge_fraction": 0,
    "failure/infrastructure_fraction": 0,
    "env/verify_failed_fraction": 0,
    "env/lost_sandbox_fraction": 1 / 8,
    "env/acquire_ms_mean": 400 / 8,
    // Means of 10 and 30, and of 100: not of 10, 30 and 100.
    "env/exec_ms_mean": (20 + 100) / 2,
    "time/queue_seconds": 8 / 8,
    "time/generate_seconds": 3.25,
    "time/tools_seconds": 0.05,
    "time/reward_seconds": 2,
    "stop/completed": 3 / 8,
    "stop/no_tool_call": 1 / 8,
    "stop/submitted": 1 / 8,
    "stop/max_turns": 1 / 8,
    "stop/max_turn_tokens": 0,
    "stop/max_trajectory_tokens": 0,
    "stop/timeout": 0,
    "stop/tool_failed": 1 / 8,
    "stop/environment_failed": 1 / 8,
    "stop/cancelled": 0,
    "group/degenerate_fraction": 1 / 3,
    "group/dropped_fraction": 1 / 3,
    "group/all_pass_fraction": 1 / 3,
    "group/all_fail_fraction": 0,
    // All eight: 1, 0, two not graded; 1, 1; 1 in a dropped group, and one that failed.
    "reward/mean": 4 / 8,
    "reward/min": 0,
    "reward/max": 1,
    // Four survivors: 1, 0, 1, 1.
    "reward/survivors_mean": 3 / 4,
    "agent/tokens_correct_mean": (4 + 2 + 2) / 3,
    "agent/tokens_wrong_mean": 8,
    "time/rollout_seconds": 10,
    "tokens/generated_per_second": 24 / 10,
  });
  // Standard deviations of four ones and four zeros around 1/2, and of 1, −1, 0, 0 around 0.
  ok(Math.abs(reward_std! - 1 / 2) < 1e-15);
  ok(Math.abs(advantage_std! - Math.sqrt(0.5)) < 1e-15);
});

Deno.test("a metric without data is left out", () => {
  const groups = [testGroup([{ stop_reason: "environment_failed", step_rewards: [] }])];
  finishGroups(groups, settings);
  const metrics = rolloutMetrics(groups, 0);
  equal(metrics["reward/mean"], 0, "an attempt that broke counts as 0");
  for (
    const name of ["reward/survivors_mean", "advantage/std", "agent/tool_calls_per_turn", "env/exec_ms_mean"]
  ) {
    equal(name in metrics, false, name);
  }
  equal("tokens/generated_per_second" in metrics, false);
  ok(Object.values(rolloutMetrics([], 0)).every(Number.isFinite));
  equal("reward/mean" in rolloutMetrics([], 0), false);
});

Deno.test("a grader's measure with the name of another metric is a mistake", () => {
  const group = rewardedGroup([0, 1]);
  group.measures = { "reward/mean": { value: 1, over_groups: "mean" } };
  throws(() => rolloutMetrics([group], 1), /reward\/mean is one metric/);
});

Deno.test("truncated attempts count with what they earned, also under min_reward, and have not passed", () => {
  const members: TestMember[] = [{ terminal: 1 }, { terminal: 1 }, {
    stop_reason: "max_turns",
    step_rewards: [0.5],
  }];
  for (const truncation of ["drop", "min_reward"] as const) {
    const group = testGroup(members);
    finishGroups([group], { ...settings, truncation });
    const metrics = rolloutMetrics([group], 1);
    equal(metrics["reward/mean"], 2.5 / 3);
    equal(metrics["reward/min"], 0.5);
    equal(metrics["reward/survivors_mean"], 1);
    equal(metrics["group/all_pass_fraction"], truncation === "drop" ? 1 : 0);
  }
});

Deno.test("groups that a judge scores have neither all passed nor all failed", () => {
  const judged = rewardedGroup([0.2, 0.6]), others = [rewardedGroup([1, 1]), rewardedGroup([0, 0])];
  judged.graded_by = "judge";
  const fractions = (groups: Group[]) => {
    const metrics = rolloutMetrics(groups, 1);
    return [metrics["group/all_pass_fraction"], metrics["group/all_fail_fraction"]];
  };
  deepEqual(fractions([judged, ...others]), [1 / 2, 1 / 2]);
  deepEqual(fractions([judged]), [undefined, undefined]);
});

Deno.test("failed verifications are a share of all attempts", () => {
  const group = testGroup([{ terminal: 1 }, { terminal: 0 }, { stop_reason: "environment_failed" }, {
    stop_reason: "environment_failed",
    step_rewards: [],
  }]);
  finishGroups([group], settings);
  const metrics = rolloutMetrics([group], 1);
  deepEqual([metrics["env/verify_failed_fraction"], metrics["agent/failed_fraction"]], [1 / 4, 2 / 4]);
});
