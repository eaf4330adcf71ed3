/** From environment rewards to the rewards by which members are compared. */

import { ServiceError } from "../../core/errors.ts";
import type { Group } from "../trajectory/group.ts";
import {
  actionTokens,
  isComplete,
  isTruncated,
  type StopReason,
  type Trajectory,
} from "../trajectory/trajectory.ts";
import { brokenBy, firstFailure, lostMembers, lostReasons, reasonsText } from "./lost.ts";

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);

/** Members in the group's baseline. */
export function survivors(group: Group): Trajectory[] {
  return group.members.filter(({ status }) => status === "kept");
}

/**
 * Whether an attempt succeeded: it completed, was graded, and its total reward is above 0. A truncated one did not,
 * whatever reward `truncation = "min_reward"` gives it.
 */
export function passed({ stop_reason, total_reward }: Trajectory): boolean {
  return !isTruncated(stop_reason) && (total_reward ?? 0) > 0;
}

/**
 * The environment's reward: the total reward of a graded attempt, the step rewards alone of a truncated one. Null: the
 * attempt failed before it could be graded.
 */
export function earnedReward(trajectory: Trajectory): number | null {
  if (brokenBy(trajectory) !== null) return null;
  return isTruncated(trajectory.stop_reason) ? sum(trajectory.step_rewards) : trajectory.total_reward;
}

/**
 * Decides which members are compared. A member that hit a limit is dropped, or, under `min_reward`, kept with the
 * lowest total of the complete members: its terminal part becomes `min_total − Σ step_rewards`, so that its steps keep
 * their returns. A group with fewer than two members left, or without grades, is dropped with all of them.
 */
export function applyTruncation(group: Group, truncation: "drop" | "min_reward"): void {
  for (const member of group.members) {
    if (truncation === "drop" && isTruncated(member.stop_reason)) member.status = "dropped";
  }
  if (group.graded_by === null) return drop(group, "ungraded");
  const kept = survivors(group);
  const complete = kept.filter(({ stop_reason }) => !isTruncated(stop_reason));
  const lowest = Math.min(...complete.map(({ total_reward }) => total_reward!));
  for (const member of kept) {
    if (!isTruncated(member.stop_reason)) continue;
    // Without a complete member to compare with, all are equal and the group will be degenerate.
    member.total_reward = complete.length > 0 ? lowest : 0;
    member.terminal_reward = member.total_reward - sum(member.step_rewards);
  }
  if (kept.length < 2) drop(group, "too_small");
}

function drop(group: Group, status: "ungraded" | "too_small"): void {
  group.status = status;
  for (const member of survivors(group)) member.status = "group_dropped";
}

/** The share of an update's trajectories that were lost: truncated and dropped, failed, or dropped with their group. */
export function lostFraction(groups: readonly Group[]): number {
  const members = groups.flatMap((group) => group.members);
  return members.length === 0 ? 0 : lostMembers(groups).length / members.length;
}

/** The limits by which attempts are lost, for the advice in errors. */
export interface LossLimits {
  max_dropped_fraction: number;
  max_trajectory_tokens?: number;
  ctx?: number;
}

/**
 * Fails a run that loses more than `max_dropped_fraction` of an update's trajectories.
 *
 * @throws {ServiceError} `max_dropped_fraction`, with the count of each reason ({@link lostReasons}).
 */
export function checkLost(groups: readonly Group[], limits: LossLimits): void {
  const { max_dropped_fraction } = limits;
  const fraction = lostFraction(groups);
  if (fraction <= max_dropped_fraction) return;
  const members = groups.flatMap((group) => group.members);
  const lost = lostMembers(groups), reasons = lostReasons(groups), failure = firstFailure(groups);
  const unrewarded = groups.filter(isUnrewarded).length;
  throw new ServiceError(
    "max_dropped_fraction",
    `Cannot learn from the update: ${lost.length} of ${members.length} trajectories are lost (${
      reasonsText(reasons)
    }), more than agent.max_dropped_fraction = ${max_dropped_fraction}${advice(lost, limits)}` +
      (failure ? `. First failure, of the ${failure.boundary}: ${failure.message}` : "") +
      (unrewarded > 0
        ? `. In ${unrewarded} of ${groups.length} groups no call had a reward, and nothing else grades them`
        : ""),
    { update: groups[0]?.update ?? null, lost: lost.length, trajectories: members.length, reasons },
  );
}

/** Whether attempts completed and every grader passed the group on, as when an environment server gave no reward. */
function isUnrewarded({ status, members }: Group): boolean {
  return status === "ungraded" &&
    members.some(({ stop_reason, failure }) => isComplete(stop_reason) && failure === null);
}

/** The keys whose limits end a trajectory. */
const LIMIT_KEYS: Partial<Record<StopReason, string>> = {
  max_turns: "agent.max_turns",
  max_turn_tokens: "agent.max_new_tokens_per_turn",
  max_trajectory_tokens: "agent.max_trajectory_tokens",
  timeout: "agent.max_rollout_secs",
};

/**
 * What to change for the limits that were hit; empty when none was, such as when an environment failed. Trajectories
 * that were dropped with their group hit no limit.
 */
function advice(lost: readonly Trajectory[], { max_trajectory_tokens, ctx }: LossLimits): string {
  const truncated = lost.filter(({ status }) => status === "dropped");
  const hit = new Set(truncated.map(({ stop_reason }) => LIMIT_KEYS[stop_reason]));
  hit.delete(undefined);
  if (ctx !== undefined && max_trajectory_tokens === ctx && hit.delete(LIMIT_KEYS.max_trajectory_tokens)) {
    hit.add("training.ctx (agent.max_trajectory_tokens can be no larger)");
  }
  return hit.size === 0 ? "" : `; raise ${[...hit].join(", ")} or set agent.truncation = "min_reward"`;
}

/** Mean number of action tokens; null for no trajectories. */
export function meanActionTokens(trajectories: readonly Trajectory[]): number | null {
  return trajectories.length === 0 ? null : sum(trajectories.map(actionTokens)) / trajectories.length;
}
