/** Computes the advantage of every token from the rewards of its group. */

import type { Group } from "../trajectory/group.ts";
import { isTruncated, type Trajectory } from "../trajectory/trajectory.ts";
import { survivors } from "./reward.ts";

export type AdvantageKind = "leave_one_out" | "mean" | "mean_std";

/** A group is degenerate when no advantage exceeds this. */
const DEGENERATE_ADVANTAGE = 1e-6;

/** Below this standard deviation of the rewards, `mean_std` does not divide, because it would amplify noise. */
const MIN_REWARD_STD = 1e-3;
const STD_EPSILON = 1e-4;

/**
 * Turn-index leave-one-out, γ = 1, for a token of turn κ over the G surviving members:
 *
 *   A_{i,κ} = [Σ_{k≥κ} r_{i,k} − 1/(G−1) Σ_{j≠i} Σ_{k≥κ} r_{j,k}] + [R_{i,T} − 1/(G−1) Σ_{j≠i} R_{j,T}]
 *
 * Empty sums are 0: a member that ended earlier has no later steps. The terminal part is the same at every turn.
 * `mean` uses 1/G Σ_j in place of 1/(G−1) Σ_{j≠i}; `mean_std` divides that by the population standard deviation σ of
 * the total rewards plus 1e-4 where σ > 1e-3.
 *
 * Sets `turn_advantages`, `advantage` and the tokens' column of every surviving member. Marks a group as degenerate
 * when its largest |A| is at most 1e-6.
 *
 * @source leave-one-out: RLOO (arXiv 2402.14740); `mean`: Dr. GRPO (arXiv 2503.20783); `mean_std`: GRPO (arXiv
 * 2402.03300).
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 * import { rewardedGroup } from "./group_testing.ts";
 *
 * const group = rewardedGroup([1, 0, 0]);
 * assignAdvantages(group, "leave_one_out");
 * assert.deepEqual(group.members.map(({ advantage }) => advantage), [1, -0.5, -0.5]);
 * ```
 */
export function assignAdvantages(group: Group, kind: AdvantageKind): void {
  const members = survivors(group);
  const longest = Math.max(0, ...members.map(({ turns }) => turns.length));
  const terminal = baselined(members.map((member) => member.terminal_reward!), kind);
  const scale = kind === "mean_std" ? deviationScale(members) : 1;
  // Rewards that `min_reward` assigned carry no information when no member earned one.
  const nobody_finished = members.every(({ stop_reason }) => isTruncated(stop_reason));
  for (const member of members) member.turn_advantages = [];
  for (let turn = 0; turn < Math.max(1, longest); turn++) {
    const steps = baselined(members.map((member) => returnFrom(member, turn)), kind);
    members.forEach((member, i) => {
      if (turn >= member.turns.length) return;
      member.turn_advantages.push(nobody_finished ? 0 : (steps[i]! + terminal[i]!) * scale);
    });
  }
  for (const member of members) spread(member);
  const largest = Math.max(0, ...members.flatMap(({ turn_advantages }) => turn_advantages.map(Math.abs)));
  if (members.length > 0 && largest <= DEGENERATE_ADVANTAGE) group.status = "degenerate";
}

/** Each value minus its baseline. */
function baselined(values: readonly number[], kind: AdvantageKind): number[] {
  const total = values.reduce((sum, value) => sum + value, 0);
  if (kind !== "leave_one_out") return values.map((value) => value - total / values.length);
  return values.map((value, i) => {
    const others = values.reduce((sum, other, j) => j === i ? sum : sum + other, 0);
    return value - others / (values.length - 1);
  });
}

function returnFrom({ step_rewards }: Trajectory, turn: number): number {
  return step_rewards.slice(turn).reduce((sum, reward) => sum + reward, 0);
}

function deviationScale(members: readonly Trajectory[]): number {
  const rewards = members.map(({ total_reward }) => total_reward!);
  const mean = rewards.reduce((sum, r) => sum + r, 0) / rewards.length;
  const deviation = Math.sqrt(rewards.reduce((sum, r) => sum + (r - mean) ** 2, 0) / rewards.length);
  return deviation > MIN_REWARD_STD ? 1 / (deviation + STD_EPSILON) : 1;
}

/** Sets the advantage of every model token to that of its turn. */
function spread(member: Trajectory): void {
  const { turn_advantages } = member;
  let total = 0, tokens = 0;
  for (const { sampled } of member.fragments) {
    sampled.advantages = sampled.turns.map((turn) => turn_advantages[turn]!);
    for (const turn of sampled.turns) total += turn_advantages[turn]!;
    tokens += sampled.turns.length;
  }
  const all_equal = turn_advantages.every((advantage) => advantage === turn_advantages[0]);
  member.advantage = all_equal ? turn_advantages[0] ?? 0 : total / tokens;
}
