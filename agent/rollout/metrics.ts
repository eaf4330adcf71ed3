/** Metrics of an update's rollouts. Means are taken over trajectories first, so that long ones do not weigh more. */

import { assert } from "../../core/errors.ts";
import type { Group } from "../trajectory/group.ts";
import {
  actionTokens,
  ATTRIBUTIONS,
  isFailed,
  isTruncated,
  STOP_REASONS,
  type Trajectory,
} from "../trajectory/trajectory.ts";
import { attributionOf, brokenBy } from "./lost.ts";
import { earnedReward, meanActionTokens, passed, survivors } from "./reward.ts";

type RolloutMetrics = Record<string, number>;

/**
 * Metrics of finished groups. A metric without data is left out.
 *
 * Over all started trajectories: `agent/truncated_fraction` (hit a limit), `agent/failed_fraction` (tool or environment
 * failed), `env/verify_failed_fraction` (of these: the verification failed), `env/lost_sandbox_fraction` (a sandbox
 * ended before its attempt or verification; such attempts are graded), `failure/<attribution>_fraction` (share
 * of each cause of a failure), `stop/<reason>` (share of each reason),
 * `agent/turns_mean`, `agent/tokens_mean` (the model's own tokens), `env/acquire_ms_mean`, `time/queue_seconds` (mean
 * wait for a slot), `time/generate_seconds`, `time/tools_seconds` and `time/reward_seconds` (sums of what all turns of
 * the model, all calls and all verifications took). Over those with a turn:
 * `agent/tool_calls_per_turn` (well-formed calls by turns). Over those with a call: `agent/malformed_call_fraction` and
 * `agent/valid_call_fraction` (shares of a trajectory's calls). Over those that executed one: `env/exec_ms_mean` (mean
 * of a trajectory's calls).
 *
 * Also over all trajectories: `reward/mean|std|min|max` (population standard deviation) of the earned rewards: the
 * total reward where the attempt was graded, the step rewards alone where a limit was hit, 0 where something failed.
 *
 * Over the surviving members: `reward/survivors_mean` (of the rewards by which they are compared), `advantage/std`,
 * `agent/tokens_correct_mean` and `agent/tokens_wrong_mean` (own tokens of those that passed, and of the others).
 * Over all groups: `group/degenerate_fraction` and `group/dropped_fraction`. Over those that no judge graded:
 * `group/all_pass_fraction` and `group/all_fail_fraction` (of the survivors). Over the groups that have it: `<grader>/<measure>`, the sum or the mean
 * of what graders measured. Over everything: `time/rollout_seconds`, `tokens/generated_per_second`.
 *
 * @param rollout_seconds From the first rollout's start to the last one's end.
 */
export function rolloutMetrics(groups: readonly Group[], rollout_seconds: number): RolloutMetrics {
  const all = groups.flatMap((group) => group.members);
  const tokens = all.map(actionTokens);
  return combineMetrics([
    trajectoryMetrics(all),
    groupMetrics(groups),
    graderMetrics(groups),
    rewardMetrics(all),
    survivorMetrics(groups.flatMap(survivors)),
    {
      "time/rollout_seconds": rollout_seconds,
      "tokens/generated_per_second": rollout_seconds > 0 ? sum(tokens) / rollout_seconds : null,
    },
  ]);
}

/** Null: a metric without data. */
type NullableMetrics = Record<string, number | null>;

function trajectoryMetrics(all: readonly Trajectory[]): NullableMetrics {
  const share = (test: (trajectory: Trajectory) => boolean) => mean(all.map((t) => test(t) ? 1 : 0));
  const metrics: NullableMetrics = {
    "agent/truncated_fraction": share(({ stop_reason }) => isTruncated(stop_reason)),
    "agent/failed_fraction": share(({ stop_reason }) => isFailed(stop_reason)),
    "agent/turns_mean": mean(all.map(({ turns }) => turns.length)),
    "agent/tokens_mean": mean(all.map(actionTokens)),
    "agent/tool_calls_per_turn": meanOf(all, ({ turns }) => {
      return ratio(
        turns.reduce((n, { calls }) => n + calls.filter((call) => !call.malformed).length, 0),
        turns.length,
      );
    }),
    "agent/malformed_call_fraction": meanOf(all, malformedShare),
    "agent/valid_call_fraction": meanOf(all, (trajectory) => {
      const malformed = malformedShare(trajectory);
      return malformed === null ? null : 1 - malformed;
    }),
    "env/verify_failed_fraction": share((trajectory) => brokenBy(trajectory) === "verify_failed"),
    "env/lost_sandbox_fraction": share(({ sandbox_lost }) => sandbox_lost),
    "env/acquire_ms_mean": mean(all.map(({ timings }) => timings.acquire_ms)),
    "env/exec_ms_mean": meanOf(all, ({ turns }) => {
      return mean(turns.flatMap(({ calls }) => calls.filter(wasExecuted).map(({ exec_ms }) => exec_ms)));
    }),
    "time/queue_seconds": mean(all.map(({ timings }) => timings.queue_ms / 1000)),
    "time/generate_seconds": sum(all.map(({ timings }) => timings.generate_ms / 1000)),
    "time/tools_seconds": sum(all.map(({ timings }) => timings.tools_ms / 1000)),
    "time/reward_seconds": sum(all.map(({ timings }) => timings.reward_ms / 1000)),
  };
  for (const attribution of ATTRIBUTIONS) {
    metrics[`failure/${attribution}_fraction`] = share((trajectory) =>
      attributionOf(trajectory) === attribution
    );
  }
  for (const reason of STOP_REASONS) {
    metrics[`stop/${reason}`] = share(({ stop_reason }) => stop_reason === reason);
  }
  return metrics;
}

/** A call that its tool executed. */
function wasExecuted(call: Trajectory["turns"][number]["calls"][number]): boolean {
  return !call.malformed && (call.result !== null || call.done || call.failure !== null);
}

function malformedShare({ turns, malformed_calls }: Trajectory): number | null {
  return ratio(malformed_calls, turns.reduce((n, { calls }) => n + calls.length, 0));
}

function groupMetrics(groups: readonly Group[]): NullableMetrics {
  const share = (test: (group: Group) => boolean, of = groups) =>
    mean(of.map((group) => test(group) ? 1 : 0));
  // A judge compares the attempts of a group: its scores above 0 do not say that they passed.
  const others = groups.filter(({ graded_by }) => graded_by !== "judge");
  const unanimous = (pass: boolean) =>
    share((group) => {
      const members = survivors(group);
      return members.length > 0 && members.every((member) => passed(member) === pass);
    }, others);
  return {
    "group/degenerate_fraction": share(({ status }) => status === "degenerate"),
    "group/dropped_fraction": share(({ status }) => status === "too_small" || status === "ungraded"),
    "group/all_pass_fraction": unanimous(true),
    "group/all_fail_fraction": unanimous(false),
  };
}

/** The measures of graders, each over the groups that have it. */
function graderMetrics(groups: readonly Group[]): NullableMetrics {
  const measures = groups.flatMap((group) =>
    Object.entries(group.measures).map(([name, measure]) => ({ name, ...measure }))
  );
  return Object.fromEntries([...Map.groupBy(measures, ({ name }) => name)].map(([name, same]) => {
    const values = same.map(({ value }) => value),
      rules = new Set(same.map(({ over_groups }) => over_groups));
    assert(rules.size === 1, `${name} combines in one way`);
    return [name, rules.has("sum") ? sum(values) : mean(values)];
  }));
}

function rewardMetrics(all: readonly Trajectory[]): NullableMetrics {
  if (all.length === 0) return {};
  const rewards = all.map((trajectory) => earnedReward(trajectory) ?? 0);
  return {
    "reward/mean": mean(rewards),
    "reward/std": deviation(rewards),
    "reward/min": Math.min(...rewards),
    "reward/max": Math.max(...rewards),
  };
}

function survivorMetrics(kept: readonly Trajectory[]): NullableMetrics {
  if (kept.length === 0) return {};
  return {
    "reward/survivors_mean": mean(kept.map(({ total_reward }) => total_reward!)),
    "advantage/std": deviation(kept.map(({ advantage }) => advantage ?? 0)),
    "agent/tokens_correct_mean": meanActionTokens(kept.filter(passed)),
    "agent/tokens_wrong_mean": meanActionTokens(kept.filter((member) => !passed(member))),
  };
}

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
const mean = (values: readonly number[]) => values.length > 0 ? sum(values) / values.length : null;
const ratio = (part: number, whole: number) => whole > 0 ? part / whole : null;

/** The mean over the trajectories that have a value. */
function meanOf(all: readonly Trajectory[], value: (trajectory: Trajectory) => number | null): number | null {
  return mean(all.map(value).filter((x) => x !== null));
}

function deviation(values: readonly number[]): number {
  const center = mean(values)!;
  return Math.sqrt(sum(values.map((value) => (value - center) ** 2)) / values.length);
}

/** The metrics of all parts that have a value. No two parts have a metric of one name. */
function combineMetrics(parts: readonly NullableMetrics[]): RolloutMetrics {
  const entries = parts.flatMap((part) => Object.entries(part)), seen = new Set<string>();
  for (const [name] of entries) {
    assert(!seen.has(name), `${name} is one metric`);
    seen.add(name);
  }
  return Object.fromEntries(entries.filter((entry): entry is [string, number] => entry[1] !== null));
}
