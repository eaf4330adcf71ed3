/** What the rest of a run knows of a way to learn before anything is started. */

import type { ResolvedConfig } from "../../config/derive.ts";
import type { AlgorithmName } from "../../config/run.ts";
import type { Clock } from "../../core/clock.ts";
import type { AdapterSource } from "../../trainer/engine/protocol.ts";
import type { RunWarning } from "../record/warning.ts";
import type { ModelParts } from "../session/model_parts.ts";
import type { SequenceDemand, Session, TrainingDemand } from "../session/session.ts";
import type { Algorithm } from "./algorithm.ts";

/** One entry of the registry: a new way to learn is one of these, its section of the configuration, and a line. */
export interface AlgorithmDefinition {
  readonly name: AlgorithmName;
  /** How evaluations are judged, where there is held-out data. */
  readonly objective: NonNullable<Algorithm["objective"]>;
  /** What the plot at a run's end shows of each update. */
  readonly curve: "mean reward" | "loss";
  /** Keys that decide how far an update moves the policy. */
  readonly step_size_keys: readonly string[];
  /** The key that names its training data, and the path. */
  trainingData(config: ResolvedConfig): { key: string; path: string };
  /** What its rollouts have open at once; null where nothing is drawn. */
  sequences(config: ResolvedConfig): SequenceDemand | null;
  /** What its updates train on at most, as far as the configuration tells. */
  training(config: ResolvedConfig): TrainingDemand;
  /** Adapters beside the policy, by the engine's names. */
  adapters(
    config: ResolvedConfig,
    used_by: "updates" | "evaluations",
  ): { adapter: string; source: AdapterSource }[];
  /**
   * Reads and checks its data. Messages name paths as `config` has them.
   *
   * @throws {ServiceError} `config_invalid`, `data_invalid`, `template_failed`, `not_built`.
   */
  readData(config: ResolvedConfig, parts: ModelParts): Promise<AlgorithmData>;
}

/** What a run's length is told in. */
export interface RunSchedule {
  updates: number;
  /** Of an update: the mean, or the most where the data does not tell. */
  tokens_per_update: number;
}

/** Data that was read and checked. */
export interface AlgorithmData {
  warnings: RunWarning[];
  /** How long a run on this data is. */
  schedule(config: ResolvedConfig): RunSchedule;
  /** @param config The configuration with real paths. */
  createAlgorithm(config: ResolvedConfig, context: { session: Session; clock: Clock }): Algorithm;
}
