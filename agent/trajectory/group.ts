/** The attempts of an update at one scenario, which are each other's baseline. */

import type { RewardSource } from "../../config/sections/agent.ts";
import type { Message, ToolFunction } from "../../core/chat.ts";
import type { Scenario } from "../../data/scenario.ts";
import type { Trajectory } from "./trajectory.ts";

/**
 * `kept`; `degenerate`: kept, but no token has an advantage; `too_small`: fewer than two members survived;
 * `ungraded`: no grader graded it, as when a judge failed. The last two are not trained on and do not count in the loss.
 */
export const GROUP_STATUSES = ["kept", "degenerate", "too_small", "ungraded"] as const;

/** One of {@link GROUP_STATUSES}. */
type GroupStatus = typeof GROUP_STATUSES[number];

/** A number that a grader measured of a group, and how the groups of an update that have it combine. */
export interface Measure {
  /** Finite. */
  value: number;
  /** `sum` for counts, `mean` for shares and levels. A measure has the same rule in every group. */
  over_groups: "sum" | "mean";
}

/** What a scenario's line says besides its id. */
export type Task = Pick<Scenario, "user" | "system" | "metadata">;

/** The task of a scenario. */
export function taskOf({ user, system, metadata }: Scenario): Task {
  return { user, system, metadata };
}

/** Plain data. */
export interface Group {
  update: number;
  /** Position in the update, from 0. */
  group: number;
  /** The scenario's id and its line in the file. */
  scenario: string;
  line: number;
  /** Null for a conversation that is no attempt at a scenario. */
  task: Task | null;
  toolset: { name: string; version: string } | null;
  tools: ToolFunction[];
  /** The messages of the shared prompt, and their tokens. */
  prompt_messages: Message[];
  prompt_tokens: number[];
  graded_by: RewardSource | null;
  /** The measures of graders, by the name of the update's metric: `<grader>/<measure>`. */
  measures: Record<string, Measure>;
  status: GroupStatus;
  /** All started members, in order, including lost ones. */
  members: Trajectory[];
}
