/** The interface between the training loop and an algorithm. */

import type { ScenarioOutcome } from "../../agent/results/evaluate.ts";
import type { Transcript } from "../../agent/results/transcript.ts";
import type { ReasonCounts, ScenarioFailure } from "../../agent/rollout/lost.ts";
import type { HistoryEntry } from "../directory/checkpoint.ts";
import type { ActivityFeed } from "../record/activity.ts";
import type { EvaluationRecord } from "../record/evaluation_record.ts";
import type { GroupSummary, Rate, RowCounts } from "../record/event.ts";
import type { Objective } from "../record/objective.ts";
import type { RunWarning } from "../record/warning.ts";
import type { Metrics } from "./step_metrics.ts";

/** The engine's name of the adapter that is trained. */
export const POLICY = "policy";

export interface UpdateRequest {
  /** From 1. */
  update: number;
  /** Scenarios or rows used before this update. */
  examples_seen: number;
  /** The learning rate of the update's n-th optimiser step, from 0. */
  learningRate(step: number): number;
  /** Aborts when the update is to be discarded. */
  signal: AbortSignal;
  /** Receives the update's progress; absent: nobody watches. */
  activity?: ActivityFeed;
  /** Receives warnings about the update before it trains; absent: nobody reads them. */
  warn?(warning: RunWarning): void;
}

export interface StepRecord {
  /** Optimiser steps of the run, including this one. */
  step: number;
  values: Metrics;
}

export interface UpdateResult {
  steps: StepRecord[];
  /** Metrics of the entire update, not of a step. */
  values: Metrics;
  groups: GroupSummary[];
  /** The number of started trajectories. */
  attempts: number;
  /** Those that are not trained on, by reason. */
  lost: ReasonCounts;
  /** The first failure of each reason, the first of all before the others. */
  failures: Record<string, ScenarioFailure>;
  reward_mean: number | null;
  loss: number | null;
  /** Tokens that the model processed. */
  tokens: number;
  /** Scenarios or rows used up to the end of this update. */
  examples_seen: number;
  history: Record<string, HistoryEntry>;
  deterministic: boolean;
}

export interface EvaluationRequest {
  /** The engine's name of the adapter; null for the base model. */
  adapter: string | null;
  /** Scenarios or rows; absent: `[evaluation].max_examples`, else all. */
  limit?: number;
  /** Attempts at once; absent: as many as in rollouts. */
  concurrent_rollouts?: number;
  /** The number of conversations to return; absent: none. */
  transcripts?: number;
  /** Its name among the run's recordings; absent: it is not recorded. */
  tape?: string;
  signal: AbortSignal;
  /** Receives the evaluation's progress; absent: nobody watches. */
  activity?: ActivityFeed;
}

/** The result of an algorithm's evaluation; null for values that its kind of data does not have. */
export interface EvaluationResult {
  pass_rate: Rate | null;
  reward_mean: number | null;
  loss: number | null;
  perplexity: number | null;
  /** Other values that the algorithm measured, by metric name; absent: none. */
  values?: Metrics;
  /** The number of held-out rows; null for scenarios. */
  rows: RowCounts | null;
  /** Attempts that failed for reasons other than the model's, by reason. */
  failed: ReasonCounts;
  /** The first failure of all. */
  failure: ScenarioFailure | null;
  /** The first failure of each reason. */
  failures: Record<string, ScenarioFailure>;
  scenarios: ScenarioOutcome[];
  /** The parts of the value, for paired comparisons. */
  by_example: EvaluationRecord["by_example"];
  /** Only on request; no event contains them. */
  transcripts?: Transcript[];
  deterministic: boolean;
}

/** A training algorithm. Everything in it is a function of the configuration, the data and its requests. */
export interface Algorithm {
  /** Updates of the entire run; null: as many as fit in `training.max_minutes`. */
  readonly updates: number | null;
  /** Optimiser steps of an update. */
  readonly steps_per_update: number;
  /** The objective of an evaluation; null without held-out data. */
  readonly objective: Objective | null;
  /**
   * Runs an update from its data to its last optimiser step. The signal discards the update until the policy has changed
   * for the last time; the policy then has its state from before the update, bit for bit.
   */
  runUpdate(request: UpdateRequest): Promise<UpdateResult>;
  evaluate(request: EvaluationRequest): Promise<EvaluationResult>;
}
