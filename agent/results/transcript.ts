/** Attempts as a person reads them: the conversation, what graded it, and why it ended. */

import type { Message } from "../../core/chat.ts";
import { passed } from "../rollout/reward.ts";
import type { Group } from "../trajectory/group.ts";
import type { Trajectory } from "../trajectory/trajectory.ts";
import type { ScenarioOutcome } from "./evaluate.ts";

/** Plain data, as `svc eval --json` gives it. */
export interface Transcript extends Pick<Trajectory, "stop_reason" | "failure" | "verification"> {
  scenario: string;
  /** From 1, of `attempts`. */
  attempt: number;
  attempts: number;
  passed: boolean;
  reward: number | null;
  /** What the attempt started from. */
  prompt: Message[];
  turns: TranscriptTurn[];
}

/** One turn of a transcript with its calls and their results. */
export interface TranscriptTurn {
  /** What the model wrote, calls included. */
  text: string;
  /** `arguments` are null, and `text` is what was written, where the call could not be read. */
  calls: Pick<Trajectory["turns"][number]["calls"][number], "name" | "arguments" | "text" | "result">[];
}

/**
 * Some of the attempts of an evaluation: those that failed before those that passed, and of each kind every
 * scenario's first before any second.
 *
 * @param outcomes What the groups came to, in their order.
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
