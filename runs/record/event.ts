/** The events of a run: one JSON line each in `events.jsonl`, numbered 1, 2, … without gaps. */

import type { ScenarioOutcome } from "../../agent/results/evaluate.ts";
import type { ReasonCounts, ScenarioFailure } from "../../agent/rollout/lost.ts";
import type { Objective } from "./objective.ts";
import type { Example, PairedDifference } from "./paired_comparison.ts";
import type { FailureReason, RunCommand, RunState } from "./run.ts";
import type { Interval } from "./statistics.ts";
import type { RunWarning } from "./warning.ts";

/** The run changed its state, or continued after a restart. */
export interface StateEvent {
  kind: "state";
  state: RunState;
  reason: FailureReason | null;
  detail: string | null;
  /** Finished updates. */
  update: number;
  /** The checkpoint from which the run continues. */
  checkpoint: string | null;
}

/** All scalars of an optimiser step or an update, by metric name. */
export interface MetricsEvent {
  kind: "metrics";
  update: number;
  step: number;
  values: Record<string, number>;
}

export interface GroupSummary {
  scenario: string;
  /** The environment's reward of each attempt; null for a failed one, which `reward_mean` counts as 0. */
  rewards: (number | null)[];
  stop_reasons: string[];
  degenerate: boolean;
  dropped: boolean;
}

/** A finished update. */
export interface UpdateEvent {
  kind: "update";
  update: number;
  /** Of the entire run; null when only time limits it. */
  updates: number | null;
  step: number;
  /** Mean over all attempts of the environment's reward; null without rewards. */
  reward_mean: number | null;
  loss: number | null;
  /** The number of started trajectories. */
  attempts: number;
  /** Those that were not trained on, by reason. */
  lost: ReasonCounts;
  /** The first failed attempt; null when there is none. */
  failure: ScenarioFailure | null;
  /** Groups whose members all have the same reward, so that no token has an advantage. */
  degenerate_groups: number;
  /** Optimiser steps of the update; 0: nothing was trained. */
  optimizer_steps: number;
  tokens_per_second: number;
  eta_seconds: number | null;
  groups: GroupSummary[];
}

/** The mean over scenarios of a rate, with its 95 % interval. */
export interface Rate extends Interval {
  rate: number;
  /** The number of scenarios. */
  n: number;
  /** The attempts at all scenarios together. */
  attempts: number;
}

/** The number of rows. */
export interface RowCounts {
  n: number;
  /** Those that exceeded `training.ctx` and were cut. */
  truncated: number;
}

/** The result of an evaluation: a pass rate over scenarios, or a loss over rows. */
export interface EvaluationEvent {
  kind: "evaluation";
  /** 1, 2, … within the run. */
  n: number;
  update: number;
  /** Null for a loss on held-out rows. */
  pass_rate: Rate | null;
  reward_mean: number | null;
  loss: number | null;
  perplexity: number | null;
  /** Other values that the algorithm measured, by metric name. */
  values?: Record<string, number>;
  /** The held-out rows; null for scenarios. */
  rows: RowCounts | null;
  /** The loss of each held-out row, by its line; absent for scenarios. */
  by_row?: Record<string, Example>;
  /** Attempts that failed for reasons other than the model's, by reason; the rate counts them as not passed. */
  failed: ReasonCounts;
  /** The first of these. */
  failure: ScenarioFailure | null;
  scenarios: ScenarioOutcome[];
}

export interface CheckpointEvent {
  kind: "checkpoint";
  name: string;
  update: number;
  step: number;
  size_bytes: number;
  metrics: Record<string, number>;
  best: boolean;
}

/** A complete file that the run wrote. */
export interface ArtifactEvent {
  kind: "artifact";
  name: string;
  path: string;
  size_bytes: number;
  sha256: string;
  /** The update of the adapter. */
  update: number;
}

export interface LogEvent {
  kind: "log";
  level: "debug" | "info" | "warning" | "error";
  message: string;
}

export interface WarningEvent extends RunWarning {
  kind: "warning";
}

/** An accepted control command. */
export interface CommandEvent {
  kind: "command";
  command: RunCommand;
  arguments: Record<string, unknown>;
  takes_effect: "boundary" | "now";
}

/** The first, best and last evaluation of a run, on the same examples with the same random numbers. */
export interface EndEvaluation {
  metric: Objective;
  before: EvaluationPoint;
  best: EvaluationPoint;
  after: EvaluationPoint;
  /** after.value − before.value when both have the same examples; else over their common examples. */
  difference: PairedDifference | null;
  /** The last is worse than the best, beyond what chance and the choice of the best explain. */
  fell: boolean;
}

/** An evaluation in the summary of a run: the objective's value after an update. */
export interface EvaluationPoint {
  update: number;
  value: number;
  /** Null for a loss. */
  pass_rate: Rate | null;
}

/** The last event of a run's process. */
export interface EndEvent {
  kind: "end";
  state: RunState;
  reason: FailureReason | null;
  detail: string | null;
  update: number;
  /** A summary of the evaluations; null for fewer than two. */
  evaluation: EndEvaluation | null;
  /** A text plot of the reward or the loss. */
  plot: string | null;
  /** The adapter at `[output].path`; null unless the run completed. */
  adapter: string | null;
  /** The update of that adapter. */
  adapter_update: number | null;
  /**
   * The other one of the last and the best evaluated adapter, when they differ. For a run that did not complete: the
   * best one so far.
   */
  other_adapter: { which: "last" | "best"; update: number; path: string } | null;
  deterministic: boolean;
}

export type EventData =
  | StateEvent
  | MetricsEvent
  | UpdateEvent
  | EvaluationEvent
  | CheckpointEvent
  | ArtifactEvent
  | LogEvent
  | WarningEvent
  | CommandEvent
  | EndEvent;

/** A line of the log. `time` is RFC 3339, UTC. */
export type RunEvent = { seq: number; time: string; run: string } & EventData;
