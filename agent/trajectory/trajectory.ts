/**
 * One attempt at a scenario as plain data: every value survives JSON, and every field that depends on a clock ends in
 * `_ms`, so that two runs can be compared without these fields.
 */

import { REWARD_SOURCES } from "../../config/sections/agent.ts";
import type { Message } from "../../core/chat.ts";
import type { TokenOrigin } from "../../trainer/tokenizer/renderer.ts";

/**
 * Why a trajectory ended. `completed`: the environment said done; `submitted`: the toolset's `submit` was called;
 * `max_turns`, `max_turn_tokens`, `max_trajectory_tokens` and `timeout` are exhausted limits.
 */
export const STOP_REASONS = [
  "completed",
  "no_tool_call",
  "submitted",
  "max_turns",
  "max_turn_tokens",
  "max_trajectory_tokens",
  "timeout",
  "tool_failed",
  "environment_failed",
  "cancelled",
] as const;

/** Why a trajectory ended. */
export type StopReason = typeof STOP_REASONS[number];

/** The trajectory hit a limit; `truncation` decides whether it is kept. */
export function isTruncated(reason: StopReason): boolean {
  return reason === "max_turns" || reason === "max_turn_tokens" || reason === "max_trajectory_tokens" ||
    reason === "timeout";
}

/** The trajectory failed outside the model: it is lost and in no baseline. */
export function isFailed(reason: StopReason): boolean {
  return reason === "tool_failed" || reason === "environment_failed";
}

/** The attempt completed: no limit, failure or cancellation ended it. Only such an attempt is graded. */
export function isComplete(reason: StopReason): boolean {
  return !isTruncated(reason) && !isFailed(reason) && reason !== "cancelled";
}

/** Tokens `start` (inclusive) to `end` (exclusive) of a fragment. Spans cover a fragment without gaps. */
export interface TokenSpan {
  start: number;
  end: number;
  origin: TokenOrigin;
}

/** Columns over a fragment's `model` tokens, in order. Null: not computed for this token. */
export interface SampledColumns {
  /** The turn of the token, from 0. */
  turns: number[];
  sampler_logprobs: number[];
  trainer_logprobs: (number | null)[];
  advantages: (number | null)[];
  ratios: (number | null)[];
  /** −1 clipped below, 1 clipped above, 0 not clipped. */
  clipped: (number | null)[];
  /** The entropy of the policy's distribution at this position, in nats. */
  entropies: (number | null)[];
  /** Whether the loss had a term for the token. */
  trained: boolean[];
}

/** A sequence that the model saw. A prefix-stable template gives one; any other gives one for each turn. */
export interface Fragment {
  tokens: number[];
  spans: TokenSpan[];
  sampled: SampledColumns;
}

/**
 * The code to which a failure belongs; `prompt`: it leaves no room for a turn; `infrastructure`: what sandboxes run on.
 */
export const FAILURE_BOUNDARIES = ["prompt", "tool", ...REWARD_SOURCES, "infrastructure"] as const;

/**
 * What an attempt that was not graded is attributed to. `model`: its malformed calls (`max_failed_turns`); `budget`: a
 * limit, also one that the prompt fills; `tool`; `environment`: it did not open, or its verification failed; `judge`: a
 * reward program or a judge; `infrastructure`: what sandboxes run on.
 */
export const ATTRIBUTIONS = ["model", "budget", "tool", "environment", "judge", "infrastructure"] as const;

/** One of {@link ATTRIBUTIONS}. */
export type Attribution = typeof ATTRIBUTIONS[number];

/** A failure at the boundary to code that the run does not control. */
export interface Failure {
  boundary: typeof FAILURE_BOUNDARIES[number];
  message: string;
}

/** One tool call of a turn. */
export interface CallRecord {
  /** Position among the turn's calls, including malformed ones. */
  index: number;
  id: string;
  name: string;
  /** Null when the model's text could not be parsed as a call; `text` then holds it. */
  arguments: Record<string, unknown> | null;
  /** The model's text of a malformed call, else null. */
  text: string | null;
  malformed: boolean;
  /** The text for the model; null when the call had no result or was not executed. */
  result: string | null;
  reward: number | null;
  done: boolean;
  failure: Failure | null;
  exec_ms: number;
}

/** An assistant turn and the answers to it. */
export interface TurnRecord {
  /** From 0. */
  turn: number;
  /** The model's text without the token that ended the turn. */
  text: string;
  calls: CallRecord[];
  /** Sum of the calls' rewards. */
  reward: number;
  /** The fragment with the model's tokens of this turn. */
  fragment: number;
  start: number;
  end: number;
  /** Since the first token of the prompt. */
  started_ms: number;
  generate_ms: number;
  tools_ms: number;
}

/** The judgement of a grader other than the environment; a reward program's score is the reward. */
export interface Assessment {
  score: number;
  explanation: string;
}

/**
 * `kept`: in its group's baseline; `dropped`: truncated, under `truncation = "drop"`; `failed`: failed or cancelled;
 * `group_dropped`: complete, but its group was too small or could not be graded.
 */
export const TRAJECTORY_STATUSES = ["kept", "dropped", "failed", "group_dropped"] as const;

/** One of {@link TRAJECTORY_STATUSES}. */
type TrajectoryStatus = typeof TRAJECTORY_STATUSES[number];

export interface TrajectoryTimings {
  /** The wait for a slot. */
  queue_ms: number;
  /** The wait for the environment. */
  acquire_ms: number;
  generate_ms: number;
  tools_ms: number;
  /** The environment's verification, and the reward command or judge. */
  reward_ms: number;
  /** From the first token of the prompt to the end of the last turn: what `max_rollout_secs` bounds. */
  rollout_ms: number;
}

/**
 * `exited`: with a status, which is a verdict unless it is 126 or 127; `killed`: by a signal, also one that a status of
 * 129 to 192 stands for, or it could not run at all; `timeout`: by the environment's own limit.
 */
export const VERIFICATION_ENDINGS = ["exited", "killed", "timeout"] as const;

/** How a verification command ended: a reward of 0 may be its verdict, or the attempt had broken it. */
export interface VerificationRecord {
  ended: typeof VERIFICATION_ENDINGS[number];
  /** The exit status; null when it did not exit by itself. */
  code: number | null;
  /** The end of what it wrote when it failed: of standard error, else of standard output. */
  output: string;
  /** It wrote more than is kept. */
  capped: boolean;
  /** The attempt had changed, removed or added a protected file or link, which was undone. Absent: it had not. */
  tampered?: boolean | undefined;
}

/** One attempt. Rewards and advantages are null until they are known, and stay so on what was lost. */
export interface Trajectory {
  /** The position in the group, from 0. */
  member: number;
  stop_reason: StopReason;
  status: TrajectoryStatus;
  failure: Failure | null;
  /** The entire conversation, starting with the prompt's messages. */
  messages: Message[];
  turns: TurnRecord[];
  /** For each turn: Σ of the rewards of its calls. */
  step_rewards: number[];
  /** From verification, reward command or judge; with `truncation = "min_reward"` the lowered value. */
  terminal_reward: number | null;
  /** Null when nothing was verified, or not by a command. */
  verification: VerificationRecord | null;
  /** Σ step_rewards + terminal_reward. */
  total_reward: number | null;
  /** For each turn, the advantage of its tokens; all are equal when there is only a terminal reward. */
  turn_advantages: number[];
  /** Mean of the advantages of the trajectory's own tokens. */
  advantage: number | null;
  /** Null when the grader said nothing, or the environment graded. */
  assessment: Assessment | null;
  malformed_calls: number;
  fragments: Fragment[];
  /** False when a wall-clock limit had an effect. */
  deterministic: boolean;
  /** A sandbox has ended before the attempt or its verification, as when a command takes all memory. */
  sandbox_lost: boolean;
  timings: TrajectoryTimings;
}

/** The number of tokens that the model sampled, over all fragments. */
export function actionTokens(trajectory: Trajectory): number {
  return trajectory.fragments.reduce((sum, fragment) => sum + fragment.sampled.turns.length, 0);
}
