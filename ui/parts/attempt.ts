/** What an attempt's record says, in the order and the words in which the page shows it. */

import type { TrajectoryMember, TrajectoryMemberSummary, TrajectoryVerification } from "../../api/types.ts";
import { numberText } from "./format.ts";

/** Where an attempt broke: before its first turn, in one, after the last one, or when it was graded. */
export type BreakPlace = "start" | "turn" | "end" | "grading";

/** Where an attempt broke, and in which turn; null when it did not. */
export function breakOf(
  { failure, turns }: Pick<TrajectoryMember, "failure" | "turns">,
): { place: BreakPlace; turn: number | null } | null {
  if (!failure) return null;
  const { boundary } = failure;
  if (boundary === "prompt") return { place: turns.length === 0 ? "start" : "end", turn: null };
  if (boundary === "reward" || boundary === "judge") return { place: "grading", turn: null };
  const broken = turns.findLast(({ calls }) => calls?.some((call) => call.failure !== null));
  if (broken) return { place: "turn", turn: broken.turn };
  return { place: turns.length === 0 ? "start" : "end", turn: null };
}

/** Part of the time that an attempt took. */
export interface TimeSegment {
  kind: "queue" | "acquire" | "generate" | "tools" | "reward";
  /** From the start of its wait for a slot. */
  start_ms: number;
  ms: number;
  /** Null outside of turns. */
  turn: number | null;
}

/** The course of an attempt: its waits, what each turn took, and its grading. Parts without length are left out. */
export function segmentsOf({ timings, turns }: Pick<TrajectoryMember, "timings" | "turns">): TimeSegment[] {
  const { queue_ms, acquire_ms, rollout_ms, reward_ms } = timings, start = queue_ms + acquire_ms;
  const segments: TimeSegment[] = [
    { kind: "queue", start_ms: 0, ms: queue_ms, turn: null },
    { kind: "acquire", start_ms: queue_ms, ms: acquire_ms, turn: null },
    ...turns.flatMap(({ turn, started_ms, generate_ms, tools_ms }): TimeSegment[] => [
      { kind: "generate", start_ms: start + started_ms, ms: generate_ms, turn },
      { kind: "tools", start_ms: start + started_ms + generate_ms, ms: tools_ms, turn },
    ]),
    { kind: "reward", start_ms: start + rollout_ms, ms: reward_ms, turn: null },
  ];
  return segments.filter(({ ms }) => ms > 0);
}

/** `ended with status 1 and printed nothing`: what came of an attempt's verification. */
export function verificationText({ ended, code, output, capped }: TrajectoryVerification): string {
  const parts = [
    ended === "exited" ? "ended" : `was stopped (${ended})`,
    code !== null && ` with status ${code}`,
    output === "" && " and printed nothing",
    capped && "; only a part of its output is kept",
  ];
  return parts.filter(Boolean).join("");
}

/** How an attempt did beside the others of its group: by the sign of the advantage that the run gave it. */
export function toneOf({ advantage }: Pick<TrajectoryMemberSummary, "advantage">): "good" | "bad" | "none" {
  return advantage === null || advantage === 0 ? "none" : advantage > 0 ? "good" : "bad";
}

/** `1.5 = 0.5 + 0 in the turns + 1 at the end`: what the total reward is the sum of, or what an ungraded attempt got. */
export function rewardSum({ step_rewards, terminal_reward, total_reward }: TrajectoryMember): string {
  const steps = step_rewards.map((reward) => numberText(reward)).join(" + ");
  if (terminal_reward === null) return steps === "" ? "not graded" : `not graded, its steps gave ${steps}`;
  const in_turns = steps === "" ? "" : `${steps} in the turns + `;
  return `${numberText(total_reward)} = ${in_turns}${numberText(terminal_reward)} at the end`;
}

/** How an attempt may have ended, each with the number of its colour in charts. */
export const STOP_COLOURS: Readonly<Record<TrajectoryMember["stop_reason"], number>> = {
  submitted: 1,
  completed: 3,
  no_tool_call: 6,
  max_turns: 5,
  max_turn_tokens: 2,
  max_trajectory_tokens: 4,
  timeout: 8,
  tool_failed: 9,
  environment_failed: 10,
  cancelled: 7,
};

/** A word of the API as people write it: `no_tool_call` is "no tool call". */
export const wordsOf = (name: string) => name.replaceAll("_", " ");

/** Why an attempt ended, and whether it had lost its container. */
export const endingOf = (
  { stop_reason, sandbox_lost }: Pick<TrajectoryMemberSummary, "stop_reason" | "sandbox_lost">,
): string => `${wordsOf(stop_reason)}${sandbox_lost ? ", after the end of its container" : ""}`;

/** Why a member was not trained on; null for one that was. */
export function lossOf(
  { status, attribution, stop_reason }: Pick<
    TrajectoryMemberSummary,
    "status" | "attribution" | "stop_reason"
  >,
): string | null {
  switch (status) {
    case "kept":
      return null;
    case "group_dropped":
      return `dropped with its group (${wordsOf(stop_reason)})`;
    default:
      return `${status} (${wordsOf(stop_reason)})${attribution ? `, attributed to the ${attribution}` : ""}`;
  }
}

/** `2 dropped: timeout · 1 failed: tool failed`: the members of a group that were not trained on; empty for none. */
export function lossesOf(
  members: readonly Pick<TrajectoryMemberSummary, "status" | "stop_reason">[],
): string {
  const counts = new Map<string, number>();
  for (const { status, stop_reason } of members) {
    if (status === "kept") continue;
    const what = status === "group_dropped" ? "dropped with the group" : `${status}: ${wordsOf(stop_reason)}`;
    counts.set(what, (counts.get(what) ?? 0) + 1);
  }
  return [...counts].map(([what, count]) => `${count} ${what}`).join(" · ");
}
