/** Which attempts came to nothing, and why: what an update lost, and what an evaluation could not try. */

import type { Group } from "../trajectory/group.ts";
import type { Failure, Trajectory, TurnRecord } from "../trajectory/trajectory.ts";

/** Attempts by reason; a reason that there was not is left out. */
export type ReasonCounts = Record<string, number>;

/**
 * What broke an attempt where the model's writing did not end it. `prompt_too_long`: the prompt leaves no room for a turn;
 * `environment_failed`: there was no environment, as when `setup` fails; `verify_failed`: the verification broke;
 * `tool_failed`: a tool did; `judge_failed`: what grades its group gave no usable answer.
 */
export const BREAK_REASONS = [
  "prompt_too_long",
  "environment_failed",
  "verify_failed",
  "tool_failed",
  "judge_failed",
] as const;

export type BreakReason = typeof BREAK_REASONS[number];

/** Why an attempt tells nothing of the model; null where it was graded, ran out of a budget, or called tools wrongly. */
export function brokenBy({ stop_reason, failure, turns }: Trajectory): BreakReason | null {
  if (failure?.boundary === "prompt") return "prompt_too_long";
  if (failure?.boundary === "judge" || failure?.boundary === "reward") return "judge_failed";
  // Nothing is verified before the first turn, and no environment is opened after it.
  if (stop_reason === "environment_failed") return turns.length > 0 ? "verify_failed" : "environment_failed";
  return stop_reason === "tool_failed" && !endedByMalformedCalls(turns) ? "tool_failed" : null;
}

/** `max_failed_turns` ends a trajectory as `tool_failed` too. */
function endedByMalformedCalls(turns: readonly TurnRecord[]): boolean {
  const calls = turns.at(-1)?.calls ?? [];
  return calls.some(({ malformed }) => malformed) && !calls.some(({ failure }) => failure);
}

/** What broke attempts, counted. */
export function breakReasons(groups: readonly Group[]): ReasonCounts {
  return count(membersOf(groups).flatMap((member) => brokenBy(member) ?? []));
}

/** Attempts that nothing is learned from: truncated and dropped, failed, or gone with their group. */
export function lostMembers(groups: readonly Group[]): Trajectory[] {
  return membersOf(groups).filter(({ status }) => status !== "kept");
}

/**
 * Why attempts were lost, counted: a reason of {@link brokenBy}, else the stop reason; `max_failed_turns` where malformed
 * calls ended them, and `group_dropped` where they were whole and their group was not.
 */
export function lostReasons(groups: readonly Group[]): ReasonCounts {
  return count(lostMembers(groups).map(lostReason));
}

function lostReason(member: Trajectory): string {
  const broken = brokenBy(member);
  if (member.status === "group_dropped" && broken !== "judge_failed") return "group_dropped";
  return broken ?? (member.stop_reason === "tool_failed" ? "max_failed_turns" : member.stop_reason);
}

/** A failure and the scenario that it befell. */
export interface ScenarioFailure extends Failure {
  scenario: string;
}

/** The failure of the first attempt that broke, in the order of groups and members; null without one. */
export function firstFailure(groups: readonly Group[]): ScenarioFailure | null {
  for (const { scenario, members } of groups) {
    const failure = members.find((member) => brokenBy(member) !== null)?.failure;
    if (failure) return { scenario, ...failure };
  }
  return null;
}

/** "2 max_turns, 1 environment_failed" */
export function reasonsText(reasons: ReasonCounts): string {
  return Object.entries(reasons).map(([reason, n]) => `${n} ${reason}`).join(", ");
}

const membersOf = (groups: readonly Group[]) => groups.flatMap(({ members }) => members);

function count(reasons: readonly string[]): ReasonCounts {
  const counts: ReasonCounts = {};
  for (const reason of reasons) counts[reason] = (counts[reason] ?? 0) + 1;
  return counts;
}
