/**
 * What happened in one attempt at a scenario, as plain data: every value survives JSON, and every field that a
 * clock decides ends in `_ms`, so that two runs can be compared without them.
 */

import type { Message } from "../../core/chat.ts";

/**
 * Why a trajectory ended. `completed`: the environment said done; `submitted`: the toolset's `submit` was called;
 * `max_turns`, `max_turn_tokens`, `max_trajectory_tokens` and `timeout` are exhausted budgets.
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

export type StopReason = typeof STOP_REASONS[number];

/** The trajectory hit a limit: `truncation` decides what becomes of it. */
export function isTruncated(reason: StopReason): boolean {
  return reason === "max_turns" || reason === "max_turn_tokens" || reason === "max_trajectory_tokens" ||
    reason === "timeout";
}

/** The trajectory was broken by what ran it: it is lost, and is nobody's baseline. */
export function isFailed(reason: StopReason): boolean {
  return reason === "tool_failed" || reason === "environment_failed";
}

/** The attempt came to its end: no limit, no failure and nobody else ended it. Only such an attempt is graded. */
export function isComplete(reason: StopReason): boolean {
  return !isTruncated(reason) && !isFailed(reason) && reason !== "cancelled";
}

/**
 * Who put a token there. `prompt`: system, user and the template around them; `model`: sampled; `tool`: results and
 * the template's frame around them; `forced`: written in the model's place
 * without being sampled. Only `model` tokens can be trained.
 */
export const TOKEN_ORIGINS = ["prompt", "model", "tool", "forced"] as const;

export type TokenOrigin = typeof TOKEN_ORIGINS[number];

/** Tokens `start` (inclusive) to `end` (exclusive) of a fragment. Spans cover a fragment without gaps. */
export interface TokenSpan {
  start: number;
  end: number;
  origin: TokenOrigin;
}

/** Columns over a fragment's `model` tokens, in their order. Null: not computed for this token. */
export interface SampledTokens {
  /** The turn that wrote the token, from 0. */
  turns: number[];
  sampler_logprobs: number[];
  trainer_logprobs: (number | null)[];
  advantages: (number | null)[];
  ratios: (number | null)[];
  /** −1 clipped below, 1 clipped above, 0 not clipped. */
  clipped: (number | null)[];
  /** The entropy of the policy's distribution here, in nats. */
  entropies: (number | null)[];
  /** Whether the loss had a term for the token. */
  trained: boolean[];
}

/** One sequence that the model saw. A template that is prefix-stable gives one; any other, one a turn. */
export interface Fragment {
  tokens: number[];
  spans: TokenSpan[];
  sampled: SampledTokens;
}

/** The broken boundary between the run and something that it does not control; `prompt`: it leaves no room for a turn. */
export interface Failure {
  boundary: "prompt" | "tool" | "environment" | "reward" | "judge";
  message: string;
}

/** One tool call of a turn. */
export interface CallRecord {
  /** Position among the turn's calls, malformed ones included. */
  index: number;
  id: string;
  name: string;
  /** Null where the model's text could not be read as a call; `text` then holds it. */
  arguments: Record<string, unknown> | null;
  /** The call as the model wrote it; only on a malformed one. */
  text: string | null;
  malformed: boolean;
  /** What the model was shown; null when the call had no result or was not executed. */
  result: string | null;
  reward: number | null;
  done: boolean;
  failure: Failure | null;
  exec_ms: number;
}

/** One assistant turn and what answered it. */
export interface TurnRecord {
  /** From 0. */
  turn: number;
  /** What the model wrote, without the token that ended the turn. */
  text: string;
  calls: CallRecord[];
  /** Sum of the calls' rewards. */
  reward: number;
  /** Where the model's tokens of this turn lie. */
  fragment: number;
  start: number;
  end: number;
  /** Since the first token of the prompt. */
  started_ms: number;
  generate_ms: number;
  tools_ms: number;
}

export interface JudgeRecord {
  score: number;
  explanation: string;
}

/**
 * `kept`: part of its group's baseline; `dropped`: a truncated one under `truncation = "drop"`; `failed`: broken or
 * cancelled; `group_dropped`: whole in itself, but its group was too small or could not be graded.
 */
export type TrajectoryStatus = "kept" | "dropped" | "failed" | "group_dropped";

export interface TrajectoryTimings {
  /** Waiting for a slot. */
  queue_ms: number;
  /** Waiting for the environment. */
  acquire_ms: number;
  generate_ms: number;
  tools_ms: number;
  /** The environment's verification, and the reward command or judge. */
  reward_ms: number;
  /** From the first token of the prompt to the end of the last turn: what `max_rollout_secs` bounds. */
  rollout_ms: number;
}

/** How a verification's command ended, so that a reward of 0 can be told from a verification that broke. */
export interface VerificationRecord {
  /** `killed`: by a signal; `timeout`: by the environment's own limit. */
  ended: "exited" | "killed" | "timeout";
  /** The exit code; null when it did not exit by itself. */
  code: number | null;
  /** The end of what it wrote when it failed: of standard error, else of standard output. */
  output: string;
  /** It wrote more than is kept. */
  capped: boolean;
}

/** One attempt. Rewards and advantages are null until they are known, and stay so on what was lost. */
export interface Trajectory {
  /** Position in the group, from 0. */
  member: number;
  stop_reason: StopReason;
  status: TrajectoryStatus;
  failure: Failure | null;
  /** The whole conversation, the prompt's messages first. */
  messages: Message[];
  turns: TurnRecord[];
  /** Per turn: Σ of the rewards that its calls brought. */
  step_rewards: number[];
  /** Verification, reward command or judge; after `truncation = "min_reward"` the lowered value. */
  terminal_reward: number | null;
  /** Null where nothing was verified, or not by a command. */
  verification: VerificationRecord | null;
  /** Σ step_rewards + terminal_reward. */
  total_reward: number | null;
  /** Per turn, for its tokens; with a terminal reward only they are all equal. */
  turn_advantages: number[];
  /** Mean of the advantages of the trajectory's own tokens. */
  advantage: number | null;
  judge: JudgeRecord | null;
  malformed_calls: number;
  fragments: Fragment[];
  /** False when a wall-clock limit decided something. */
  deterministic: boolean;
  timings: TrajectoryTimings;
}

/** One token as the API shows it. */
export interface TokenRow {
  id: number;
  origin: TokenOrigin;
  trained: boolean;
  sampler_logprob: number | null;
  trainer_logprob: number | null;
  advantage: number | null;
  ratio: number | null;
  clipped: number | null;
}

/** A fragment token by token: columns become rows, and what only sampled tokens have is null elsewhere. */
export function tokenRows(fragment: Fragment): TokenRow[] {
  const rows: TokenRow[] = [];
  const { sampled } = fragment;
  let n = 0;
  for (const span of fragment.spans) {
    for (let i = span.start; i < span.end; i++) {
      const k = span.origin === "model" ? n++ : -1;
      rows.push({
        id: fragment.tokens[i]!,
        origin: span.origin,
        trained: sampled.trained[k] ?? false,
        sampler_logprob: sampled.sampler_logprobs[k] ?? null,
        trainer_logprob: sampled.trainer_logprobs[k] ?? null,
        advantage: sampled.advantages[k] ?? null,
        ratio: sampled.ratios[k] ?? null,
        clipped: sampled.clipped[k] ?? null,
      });
    }
  }
  return rows;
}

/** Tokens of the trajectory that the model wrote, over all fragments. */
export function actionTokens(trajectory: Trajectory): number {
  return trajectory.fragments.reduce((sum, fragment) => sum + fragment.sampled.turns.length, 0);
}
