/** The events of a run: one JSON line each in `events.jsonl`, numbered 1, 2, … without gaps. */

import type { ScenarioOutcome } from "../../agent/results/evaluate.ts";
import type { ReasonCounts, ScenarioFailure } from "../../agent/rollout/lost.ts";
import type { PairedDifference } from "./paired_comparison.ts";
import type { FailureReason, RunCommand, RunState } from "./run.ts";
import type { Interval } from "./statistics.ts";
import type { RunWarning } from "./warning.ts";

/** The run changed its state, or went on after a restart. */
export interface StateEvent {
  kind: "state";
  state: RunState;
  reason: FailureReason | null;
  detail: string | null;
  /** Updates done. */
  update: number;
  /** The checkpoint that the run goes on from. */
  checkpoint: string | null;
}

/** All scalars of one optimiser step or one update, by metric name. */
export interface MetricsEvent {
  kind: "metrics";
  update: number;
  step: number;
  values: Record<string, number>;
}

export interface GroupSummary {
  scenario: string;
  /** What the environment gave for each attempt; null where it broke, which `reward_mean` counts as 0. */
  rewards: (number | null)[];
  stop_reasons: string[];
  degenerate: boolean;
  dropped: boolean;
}

/** One finished update. */
export interface UpdateEvent {
  kind: "update";
  update: number;
  updates: number | null;
  step: number;
  /** Mean over all attempts of what the environment gave; null where nothing is rewarded. */
  reward_mean: number | null;
  loss: number | null;
  /** Trajectories that were started. */
  attempts: number;
  /** Those of them that nothing was learned from, by reason. */
  lost: ReasonCounts;
  /** The first attempt that broke; null without one. */
  failure: ScenarioFailure | null;
  /** Groups whose members all have the same reward, so that no token has an advantage. */
  degenerate_groups: number;
  /** Optimiser steps of the update; 0: it learned nothing. */
  optimizer_steps: number;
  tokens_per_second: number;
  eta_seconds: number | null;
  groups: GroupSummary[];
}

/** The mean over scenarios of a rate, with its 95 % interval. */
export interface Rate extends Interval {
  rate: number;
  /** Scenarios. */
  n: number;
  /** Of all scenarios together. */
  attempts: number;
}

/** Rows of traces. */
export interface RowCounts {
  n: number;
  /** Those of them that were longer than `training.ctx` and were cut. */
  truncated: number;
}

/** What one evaluation measured: a pass rate over scenarios, or a loss over rows. */
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
  /** What else the algorithm measured, by metric name. */
  values?: Record<string, number>;
  /** The held-out rows that a loss is of; null for scenarios. */
  rows: RowCounts | null;
  /** Attempts that broke for reasons other than the model's, by reason; in the rate they have not passed. */
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

/** A file that the run made and that is whole. */
export interface ArtifactEvent {
  kind: "artifact";
  name: string;
  path: string;
  size_bytes: number;
  sha256: string;
  /** The update whose adapter it is. */
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

/** A control command that was accepted. */
export interface CommandEvent {
  kind: "command";
  command: RunCommand;
  arguments: Record<string, unknown>;
  takes_effect: "boundary" | "now";
}

/** The first, the best and the last evaluation of a run, on the same examples with the same random numbers. */
export interface EndEvaluation {
  metric: "eval/pass_rate" | "eval/loss";
  before: EvaluationPoint;
  best: EvaluationPoint;
  after: EvaluationPoint;
  /** after.value − before.value where both have the same examples; else over those that both have. */
  difference: PairedDifference | null;
  /** The last is worse than the best, beyond what chance and choosing the best among all of them explain. */
  fell: boolean;
}

/** One evaluation in the summary of a run: the objective's value after an update. */
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
  /** What the evaluations say; null before there are two. */
  evaluation: EndEvaluation | null;
  /** Text plot of the reward, or of the loss. */
  plot: string | null;
  /** The adapter at `[output].path`; null unless the run completed. */
  adapter: string | null;
  /** Whose it is. */
  adapter_update: number | null;
  /**
   * The other of the last and the best evaluated update's adapter, where they are two. Of a run that did not complete:
   * the best one so far.
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

/** What stands on a line. `time` is RFC 3339, UTC. */
export type RunEvent = { seq: number; time: string; run: string } & EventData;
