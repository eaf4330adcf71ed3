/** What the loop of updates and an algorithm know of each other. */

import type { ScenarioOutcome } from "../../agent/results/evaluate.ts";
import type { Transcript } from "../../agent/results/transcript.ts";
import type { ReasonCounts, ScenarioFailure } from "../../agent/rollout/lost.ts";
import type { HistoryEntry } from "../directory/checkpoint.ts";
import type { ActivityFeed } from "../record/activity.ts";
import type { EvaluationRecord } from "../record/evaluation_record.ts";
import type { GroupSummary, Rate, RowCounts } from "../record/event.ts";
import type { Metrics } from "./step_metrics.ts";

/** The engine's name of the adapter that learns. */
export const POLICY = "policy";

export interface UpdateRequest {
  /** From 1. */
  update: number;
  /** Scenarios or rows drawn before this update. */
  examples_seen: number;
  /** The learning rate of the update's n-th optimiser step, from 0. */
  learningRate(step: number): number;
  /** Aborts when the update is to be thrown away. */
  signal: AbortSignal;
  /** Where the update shows how far it is; left out: nobody watches. */
  activity?: ActivityFeed;
}

export interface StepRecord {
  /** Optimiser steps of the run, this one included. */
  step: number;
  values: Metrics;
}

export interface UpdateResult {
  steps: StepRecord[];
  /** Metrics of the update as a whole; none of them is a step's. */
  values: Metrics;
  groups: GroupSummary[];
  /** Trajectories that were started. */
  attempts: number;
  /** Those of them that nothing is learned from, by reason. */
  lost: ReasonCounts;
  failure: ScenarioFailure | null;
  reward_mean: number | null;
  loss: number | null;
  /** Tokens that went through the model. */
  tokens: number;
  /** Scenarios or rows drawn up to the end of this update. */
  examples_seen: number;
  history: Record<string, HistoryEntry>;
  deterministic: boolean;
}

export interface EvaluationRequest {
  /** The engine's name of the adapter; null: the base model. */
  adapter: string | null;
  /** Scenarios or rows; left out: `[evaluation].max_examples`, else all. */
  limit?: number;
  /** Attempts at once; left out: as many as rollouts. */
  concurrent_rollouts?: number;
  /** Attempts whose conversations are wanted; left out: none. */
  transcripts?: number;
  signal: AbortSignal;
  /** Where the evaluation shows how far it is; left out: nobody watches. */
  activity?: ActivityFeed;
}

/** What an algorithm's evaluation gives; null stands for what its kind of data does not have. */
export interface EvaluationResult {
  pass_rate: Rate | null;
  reward_mean: number | null;
  loss: number | null;
  perplexity: number | null;
  /** What else the algorithm measured, by metric name; left out: nothing. */
  values?: Metrics;
  /** The held-out rows that a loss is of; null for scenarios. */
  rows: RowCounts | null;
  /** Attempts that broke for reasons other than the model's, by reason. */
  failed: ReasonCounts;
  failure: ScenarioFailure | null;
  scenarios: ScenarioOutcome[];
  /** What the value is made of, to be compared pair by pair. */
  by_example: EvaluationRecord["by_example"];
  /** Only where they were asked for: no event holds them. */
  transcripts?: Transcript[];
  deterministic: boolean;
}

/** One way to learn. Everything in it is a function of the configuration, the data and its requests. */
export interface Algorithm {
  /** Updates of the whole run. */
  readonly updates: number;
  /** Optimiser steps of an update. */
  readonly steps_per_update: number;
  /** How an evaluation is judged; null without held-out data. */
  readonly objective: { metric: EvaluationRecord["metric"]; higher_is_better: boolean } | null;
  /** From the data to the last optimiser step. Before the first of these the signal can throw the update away. */
  runUpdate(request: UpdateRequest): Promise<UpdateResult>;
  evaluate(request: EvaluationRequest): Promise<EvaluationResult>;
}
