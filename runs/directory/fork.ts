/** The first state of a fork: values from its parent's checkpoint, and values that it resets. */

import { effectOf } from "../../config/key_effects.ts";
import { ServiceError } from "../../core/errors.ts";
import { type Checkpoint, initialState, type TrainingState } from "./checkpoint.ts";
import { changedKeys, type Identity } from "./config_identity.ts";
import type { PlanWarning } from "../record/warning.ts";
import type { RunDirectory } from "./run_directory.ts";

/**
 * The state in which a fork starts. It keeps a learning rate that a command had set, unless the fork's `training.lr`
 * differs from its parent's. When the fork measures something else than its parent, its evaluations start anew, because
 * the parent's first and best values come from other attempts. `every_updates`, `patience` and `min_delta` do not
 * change what is measured.
 */
export function forkedCheckpoint(parent: Checkpoint, identity: Identity): Checkpoint {
  const { record } = parent;
  const changed = changedKeys(record.config, identity);
  const measures_otherwise = changed.some((key) => effectOf(key).measures);
  const state: TrainingState = {
    ...record.state,
    // A fork starts its own patience: its parent may have ended because of it.
    evaluations_since_gain: 0,
    ...(changed.includes("training.lr") && { learning_rate: null }),
    ...(measures_otherwise && noEvaluation()),
  };
  const metrics = Object.entries(record.metrics).filter(([name]) =>
    !measures_otherwise || !name.startsWith("eval/")
  );
  return { ...parent, record: { ...record, state, metrics: Object.fromEntries(metrics) } };
}

/** The warnings about changed keys that rescale the gradient. */
export function rescaledWarnings(rescaled: readonly string[]): PlanWarning[] {
  return rescaled.map((field) => ({
    code: "budget_changed_on_fork",
    field,
    message: `the parent had another ${field}: the size of an update may change, so check training.lr`,
  }));
}

/** The warning about a learning rate that a command had set and the fork keeps; null when there is none. */
export function keptRate({ record: { state: { learning_rate }, config } }: Checkpoint): string | null {
  if (learning_rate === null) return null;
  return `the learning rate ${learning_rate}, which a command set in the parent run, is kept: training.lr is ` +
    `${config["training.lr"]} as in the parent; another training.lr would replace it`;
}

/**
 * A fork resumes from its own checkpoints: without one it would start with an untrained adapter.
 *
 * @throws {ServiceError} `conflict`, naming the parent's checkpoint.
 */
export function refuseLostParent({ path, record: { parent } }: RunDirectory): void {
  if (parent === null) return;
  throw new ServiceError(
    "conflict",
    `Cannot resume the run in ${path}: it is a fork without a checkpoint of its own; start it again with --force and ` +
      `--fork, with the checkpoint ${parent.checkpoint} of run ${parent.run}`,
  );
}

function noEvaluation(): Partial<TrainingState> {
  const { evaluations, evaluated_update, best, before, latest, patience_value } = initialState();
  return { evaluations, evaluated_update, best, before, latest, patience_value };
}
