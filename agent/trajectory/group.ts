/** The attempts of one update at one scenario, which are each other's baseline. */

import type { Message, ToolFunction } from "../../core/chat.ts";
import type { Trajectory } from "./trajectory.ts";

/**
 * `kept`; `degenerate`: kept, but no token has an advantage; `too_small`: fewer than two members survived;
 * `judge_failed`: nothing could grade it. The last two train nothing and count nowhere in the loss.
 */
export type GroupStatus = "kept" | "degenerate" | "too_small" | "judge_failed";

/** The first that can grade a group is its only reward. */
export type RewardSource = "environment" | "reward" | "judge";

/** Plain data, as the observe directory and the API give it. */
export interface Group {
  update: number;
  /** Position in the update, from 0. */
  group: number;
  /** The scenario's id, and its line in the file. */
  scenario: string;
  line: number;
  toolset: { name: string; version: string } | null;
  tools: ToolFunction[];
  /** The messages that every member starts from, and their tokens. */
  prompt_messages: Message[];
  prompt_tokens: number[];
  graded_by: RewardSource | null;
  status: GroupStatus;
  /** Every member that was started, in their order, lost ones too. */
  members: Trajectory[];
}
