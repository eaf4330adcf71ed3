/** From rolled-out groups to groups that can be learned from. */

import type { Group } from "../trajectory/group.ts";
import { type AdvantageKind, assignAdvantages } from "./advantage.ts";
import { applyTruncation, checkLost } from "./reward.ts";

/** Keys of `[agent]`. */
export interface GradingSettings {
  truncation: "drop" | "min_reward";
  max_dropped_fraction: number;
  /** `agent.max_trajectory_tokens` and `training.ctx`, for advice; left out: not known to be equal. */
  max_trajectory_tokens?: number;
  ctx?: number;
  advantage: AdvantageKind;
}

/**
 * Settles who is compared, gives every token its advantage, and stops a run that loses too many trajectories.
 *
 * @throws {ServiceError} `max_dropped_fraction`; the groups are settled even then, so that they can be looked at.
 */
export function finishGroups(groups: readonly Group[], settings: GradingSettings): void {
  for (const group of groups) {
    applyTruncation(group, settings.truncation);
    if (group.status === "kept") assignAdvantages(group, settings.advantage);
  }
  checkLost(groups, settings);
}
