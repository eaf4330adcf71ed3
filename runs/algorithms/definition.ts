/** The facts about an algorithm that the rest of a run needs before anything starts. */

import type { ResolvedConfig } from "../../config/check/derive.ts";
import type { Clock } from "../../core/clock.ts";
import type { AdapterSource } from "../../trainer/protocol/protocol.ts";
import type { Objective } from "../record/objective.ts";
import type { RunWarning } from "../record/warning.ts";
import type { ModelParts } from "../session/model_parts.ts";
import type { SequenceDemand, Session, TrainingDemand } from "../session/session.ts";
import type { Algorithm } from "./algorithm.ts";
import type { MeasuredUpdate, Measurement } from "./measured_update.ts";
import type { RowKind } from "./row_kind.ts";

/**
 * An entry of the registry: what the floors above need of an algorithm. What its keys mean is in `ALGORITHM_KEYS` of
 * `config/algorithms.ts`; the levers of a plan name the keys that they change.
 */
export interface AlgorithmDefinition {
  /** The objective of evaluations, when there is held-out data. */
  readonly objective: Objective;
  /** The quantity in the plot at the end of a run. */
  readonly curve: "mean reward" | "loss";
  /** Keys that determine how far an update moves the policy. */
  readonly step_size_keys: readonly string[];
  /** The rows of its data, of the kind that its `data.kind` in `ALGORITHM_KEYS` names. */
  readonly rows: RowKind;
  /** The sequences that its rollouts need at once; null without rollouts. */
  sequences(config: ResolvedConfig): SequenceDemand | null;
  /** The largest training work of an update, as far as the configuration determines it. */
  training(config: ResolvedConfig): TrainingDemand;
  /** Adapters besides the policy, by the engine's names. */
  adapters(
    config: ResolvedConfig,
    used_by: "updates" | "evaluations",
  ): { adapter: string; source: AdapterSource }[];
  /**
   * Measures an update on the device, as long as the data or the configuration can make it. Nothing is learned, and no
   * tool, environment or grader is used.
   */
  measureUpdate(config: ResolvedConfig, measurement: Measurement): Promise<MeasuredUpdate>;
  /**
   * Reads and checks the data. Messages name paths as written in `config`. A failure to read held-out data has its key
   * as `details.config_key`: see `atKey`.
   *
   * @throws {ServiceError} `config_invalid`, `data_invalid`, `template_failed`, `not_built`.
   */
  readData(config: ResolvedConfig, parts: ModelParts, options?: ReadDataOptions): Promise<AlgorithmData>;
}

/** Options of {@link AlgorithmDefinition.readData}. */
export interface ReadDataOptions {
  /** The folder of the recordings that the run replays: no tool host is asked. Absent: none. */
  recordings?: string | undefined;
  /** Whether updates follow, which need enough rows. Absent: true. */
  updates?: boolean;
}

/** The length of a run. */
export interface RunSchedule {
  /** Null: as many as fit in `training.max_minutes`. */
  updates: number | null;
  /** For each update: the mean, or the maximum when the data does not determine it. */
  tokens_per_update: number;
}

/** Checked data. */
export interface AlgorithmData {
  /** About the data, and about the algorithm's own keys. */
  warnings: RunWarning[];
  /** The length of a run on this data. */
  schedule(config: ResolvedConfig): RunSchedule;
  /** @param config The configuration with real paths. */
  createAlgorithm(config: ResolvedConfig, context: { session: Session; clock: Clock }): Algorithm;
}
