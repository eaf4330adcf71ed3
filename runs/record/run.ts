/** A run's record, its states, and the commands that each state accepts. */

import type { ErrorCode } from "../../core/errors.ts";

/** All states of a run. */
export const RUN_STATES = [
  "queued",
  "starting",
  "running",
  "pausing",
  "paused",
  "stopping",
  "completed",
  "cancelled",
  "failed",
  "interrupted",
] as const;

/** A state of a run. */
export type RunState = typeof RUN_STATES[number];

/** All commands of a run. */
export const RUN_COMMANDS = [
  "pause",
  "resume",
  "cancel",
  "checkpoint",
  "evaluate",
  "generate",
  "set_lr",
  "fork",
  "delete",
] as const;

export type RunCommand = typeof RUN_COMMANDS[number];

/** Why a run is `failed`: a closed list. */
export const FAILURE_REASONS = [
  "max_dropped_fraction",
  "loss_not_finite",
  "out_of_memory",
  "device_lost",
  "environment_failed",
  "judge_failed",
  "data_invalid",
  "internal",
] as const;

export type FailureReason = typeof FAILURE_REASONS[number];

/**
 * The states that may follow each state. `interrupted` is the state of a run whose process died. A run that found the
 * device taken when it started waits again.
 */
export const TRANSITIONS: Record<RunState, readonly RunState[]> = {
  queued: ["starting", "cancelled"],
  starting: ["running", "stopping", "failed", "interrupted", "queued"],
  running: ["pausing", "stopping", "completed", "failed", "interrupted"],
  pausing: ["paused", "stopping", "failed", "interrupted"],
  paused: ["starting", "queued", "cancelled"],
  stopping: ["cancelled", "failed", "interrupted"],
  completed: [],
  cancelled: [],
  failed: ["starting", "queued"],
  interrupted: ["starting", "queued", "cancelled"],
};

/** A command's condition besides the state. */
type Condition = "always" | "has_checkpoint" | "checkpoint_configured" | "has_heldout";

/** The states that accept each command, with the condition; other states refuse it. */
export const ACCEPTED: Record<RunCommand, Partial<Record<RunState, Condition>>> = {
  pause: { running: "always" },
  resume: { paused: "always", interrupted: "always", failed: "has_checkpoint" },
  cancel: {
    queued: "always",
    starting: "always",
    running: "always",
    pausing: "always",
    paused: "always",
    stopping: "always",
    interrupted: "always",
  },
  checkpoint: { running: "checkpoint_configured", paused: "always" },
  evaluate: { running: "has_heldout", paused: "has_heldout", completed: "has_heldout" },
  generate: { running: "always", paused: "always", completed: "always" },
  set_lr: {
    queued: "always",
    starting: "always",
    running: "always",
    pausing: "always",
    paused: "always",
  },
  fork: {
    completed: "has_checkpoint",
    paused: "has_checkpoint",
    failed: "has_checkpoint",
    cancelled: "has_checkpoint",
    interrupted: "has_checkpoint",
  },
  delete: { completed: "always", failed: "always", cancelled: "always", interrupted: "always" },
};

export interface RunFacts {
  has_checkpoint: boolean;
  checkpoint_configured: boolean;
  has_heldout: boolean;
}

const LACKING: Record<Exclude<Condition, "always">, string> = {
  has_checkpoint: "it has no checkpoint",
  checkpoint_configured: "its configuration has no [checkpoint]",
  has_heldout: "its configuration has no held-out data ([evaluation].data)",
};

/** Null when a run in `state` accepts the command, else why it refuses it. */
export function commandRefusal(command: RunCommand, state: RunState, facts: RunFacts): string | null {
  const condition = ACCEPTED[command][state];
  if (condition === undefined) return `the run is ${state}`;
  return condition === "always" || facts[condition] ? null : LACKING[condition];
}

/** Whether a process works for a run in this state. */
export function isLive(state: RunState): boolean {
  return ["starting", "running", "pausing", "stopping"].includes(state);
}

/** Whether nothing more happens in this state, unless a failed run is resumed. */
export function hasEnded(state: RunState): boolean {
  return TRANSITIONS[state].length === 0 || state === "failed";
}

const REASON_OF_CODE: Partial<Record<ErrorCode, FailureReason>> = {
  max_dropped_fraction: "max_dropped_fraction",
  loss_not_finite: "loss_not_finite",
  out_of_memory: "out_of_memory",
  device_lost: "device_lost",
  environment_failed: "environment_failed",
  tool_failed: "environment_failed",
  infrastructure_failed: "environment_failed",
  judge_failed: "judge_failed",
  data_invalid: "data_invalid",
  format_invalid: "data_invalid",
  template_failed: "data_invalid",
};

/** The failure reason of an error. */
export function failureReason(code: ErrorCode): FailureReason {
  return REASON_OF_CODE[code] ?? "internal";
}

/** `run.json`: what a run is, and its state. */
export interface RunRecord {
  format_version: 1;
  id: string;
  name: string;
  algorithm: string;
  state: RunState;
  state_reason: string | null;
  config_hash: string;
  created_at: string;
  started_at: string | null;
  ended_at: string | null;
  parent: { run: string; checkpoint: string } | null;
  error: { reason: FailureReason; detail: string; update: number } | null;
  /** False once a wall-clock limit had an effect or a hosted service answered. */
  deterministic: boolean;
  /** How often the run lost its device and continued; absent: never. */
  device_losses?: number;
}
