/** Attempts for a person to read: the conversation, its grading, and why it ended. */

import type { Message } from "../../core/chat.ts";
import { passed } from "../rollout/reward.ts";
import type { Group } from "../trajectory/group.ts";
import type { Trajectory } from "../trajectory/trajectory.ts";
import type { ScenarioOutcome } from "./evaluate.ts";

/** Plain data, as in `svc eval --json`. */
export interface Transcript extends Pick<Trajectory, "stop_reason" | "failure" | "verification"> {
  scenario: string;
  /** From 1 to `attempts`. */
  attempt: number;
  attempts: number;
  passed: boolean;
  reward: number | null;
  /** The prompt's messages. */
  prompt: Message[];
  turns: TranscriptTurn[];
}

/** A turn with its calls and their results. */
export interface TranscriptTurn {
  /** The model's text, including calls. */
  text: string;
  /** For an unreadable call, `arguments` is null and `text` is the model's text. */
  calls: Pick<Trajectory["turns"][number]["calls"][number], "name" | "arguments" | "text" | "result">[];
}

/**
 * Chooses attempts of an evaluation to show: failed before passed ones, and within each the first of every scenario
 * before any second.
 *
 * @param outcomes The groups' results, in order.
 */
export function chooseTranscripts(
  groups: readonly Group[],
  outcomes: readonly ScenarioOutcome[],
  count: number,
): Transcript[] {
  const attempts = groups.flatMap((group, g) =>
    group.members.map((member, m) => ({ group, member, m, reward: outcomes[g]!.rewards[m] ?? null }))
  );
  const order = attempts.toSorted((a, b) => Number(passed(a.member)) - Number(passed(b.member)) || a.m - b.m);
  return order.slice(0, count).map(({ group, member, m, reward }) => ({
    scenario: group.scenario,
    attempt: m + 1,
    attempts: group.members.length,
    passed: passed(member),
    reward,
    stop_reason: member.stop_reason,
    failure: member.failure,
    verification: member.verification,
    prompt: group.prompt_messages,
    turns: member.turns.map(({ text, calls }) => ({
      text,
      calls: calls.map(({ name, arguments: given, text, result }) => ({
        name,
        arguments: given,
        text,
        result,
      })),
    })),
  }));
}
