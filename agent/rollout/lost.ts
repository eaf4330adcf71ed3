/** Lost attempts and their reasons, for updates and evaluations. */

import { type GraderName, GRADERS } from "../../config/sections/agent.ts";
import type { Group } from "../trajectory/group.ts";
import {
  type Attribution,
  type Failure,
  isTruncated,
  type Trajectory,
  type TurnRecord,
} from "../trajectory/trajectory.ts";

/** Number of attempts by reason, without zeros. */
export type ReasonCounts = Record<string, number>;

/**
 * Why an attempt broke other than by the model's text. `prompt_too_long`: the prompt leaves no room for a turn;
 * `environment_failed`: there was no environment, such as when `setup` fails, or it broke during a call;
 * `verify_failed`: the verification failed; `tool_failed`: a tool failed; `infrastructure_failed`: what sandboxes run on
 * failed; `<grader>_failed`: a grader besides the environment, the reward program or the judge, gave no usable answer
 * for its group.
 */
type BreakReason =
  | "prompt_too_long"
  | "environment_failed"
  | "verify_failed"
  | "tool_failed"
  | "infrastructure_failed"
  | `${GraderName}_failed`;

/** The grader that could not grade the attempt's group; null when there is none. */
const failedGrader = (failure: Failure | null) =>
  GRADERS.find((grader) => grader === failure?.boundary) ?? null;

/** Why an attempt says nothing about the model; null when it was graded, hit a limit, or called tools wrongly. */
export function brokenBy({ stop_reason, failure, turns }: Trajectory): BreakReason | null {
  if (failure?.boundary === "prompt") return "prompt_too_long";
  if (failure?.boundary === "infrastructure") return "infrastructure_failed";
  const grader = failedGrader(failure);
  if (grader) return `${grader}_failed`;
  // No verification runs before the first turn or after a call that failed, and no environment opens after it.
  if (stop_reason === "environment_failed") {
    return turns.length > 0 && !hasFailedCall(turns) ? "verify_failed" : "environment_failed";
  }
  return stop_reason === "tool_failed" && !endedByMalformedCalls(turns) ? "tool_failed" : null;
}

/** The one cause of an attempt's failure; null when it was graded, or the run was stopped. */
export function attributionOf(trajectory: Trajectory): Attribution | null {
  const { stop_reason, failure } = trajectory, reason = brokenBy(trajectory);
  if (failedGrader(failure)) return "judge";
  if (reason === "infrastructure_failed") return "infrastructure";
  if (isTruncated(stop_reason)) return "budget";
  if (stop_reason === "environment_failed") return "environment";
  if (stop_reason !== "tool_failed") return null;
  return reason === "tool_failed" ? "tool" : "model";
}

/** `max_failed_turns` also ends a trajectory as `tool_failed`, but none that a call has ended. */
function endedByMalformedCalls(turns: readonly TurnRecord[]): boolean {
  const calls = turns.at(-1)?.calls ?? [];
  return calls.some(({ malformed }) => malformed) && !calls.some(({ done }) => done) && !hasFailedCall(turns);
}

/** Whether a call of the last turn ended the attempt. */
function hasFailedCall(turns: readonly TurnRecord[]): boolean {
  return turns.at(-1)?.calls.some(({ failure }) => failure) ?? false;
}

/** Counts the reasons of broken attempts. */
export function breakReasons(groups: readonly Group[]): ReasonCounts {
  return count(membersOf(groups).flatMap((member) => brokenBy(member) ?? []));
}

/** Attempts that are not trained on: truncated and dropped, failed, or dropped with their group. */
export function lostMembers(groups: readonly Group[]): Trajectory[] {
  return membersOf(groups).filter(({ status }) => status !== "kept");
}

/**
 * Counts the reasons of lost attempts: a reason of {@link brokenBy}, else the stop reason; `max_failed_turns` when
 * malformed calls ended them, and `group_dropped` when they were complete and their group was dropped.
 */
export function lostReasons(groups: readonly Group[]): ReasonCounts {
  return count(lostMembers(groups).map(lostReason));
}

function lostReason(member: Trajectory): string {
  const broken = brokenBy(member);
  const was_graded = failedGrader(member.failure) === null;
  if (member.status === "group_dropped" && was_graded) return "group_dropped";
  return broken ?? (member.stop_reason === "tool_failed" ? "max_failed_turns" : member.stop_reason);
}

/** A failure and its scenario. */
export interface ScenarioFailure extends Failure {
  scenario: string;
}

/** The first failure of each reason of {@link brokenBy}, in the order of groups and members. */
export function firstFailures(groups: readonly Group[]): Record<string, ScenarioFailure> {
  const failures: Record<string, ScenarioFailure> = {};
  for (const { scenario, members } of groups) {
    for (const member of members) {
      const reason = brokenBy(member);
      if (reason && member.failure) failures[reason] ??= { scenario, ...member.failure };
    }
  }
  return failures;
}

/** The failure of the first broken attempt; null when there is none. */
export function firstFailure(groups: readonly Group[]): ScenarioFailure | null {
  return Object.values(firstFailures(groups))[0] ?? null;
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
