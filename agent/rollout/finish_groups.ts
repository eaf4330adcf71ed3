/** Turns finished rollouts into groups for training. */

import type { Group } from "../trajectory/group.ts";
import { type AdvantageKind, assignAdvantages } from "./advantage.ts";
import { applyTruncation, checkLost } from "./reward.ts";

/** Keys of `[agent]`. */
export interface GradingSettings {
  truncation: "drop" | "min_reward";
  max_dropped_fraction: number;
  /** `agent.max_trajectory_tokens` and `training.ctx`, for advice; absent when not known to be equal. */
  max_trajectory_tokens?: number;
  ctx?: number;
  advantage: AdvantageKind;
}

/**
 * Decides which members are compared, computes all advantages, and fails a run that loses too many trajectories.
 *
 * @throws {ServiceError} `max_dropped_fraction`. The groups are complete even then, so that they can be inspected.
 */
export function finishGroups(groups: readonly Group[], settings: GradingSettings): void {
  for (const group of groups) {
    applyTruncation(group, settings.truncation);
    if (group.status === "kept") assignAdvantages(group, settings.advantage);
  }
  checkLost(groups, settings);
}
