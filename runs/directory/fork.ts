/** What a fork takes over from its parent's checkpoint, and what it begins anew. */

import { ServiceError } from "../../core/errors.ts";
import { type Checkpoint, initialState, type TrainingState } from "./checkpoint.ts";
import { changedKeys, covers, type Identity } from "./config_identity.ts";
import type { RunDirectory } from "./run_directory.ts";

/** Keys that decide what an evaluation measures: its data and draws, and the limits of its attempts. */
const MEASURED_BY = [
  "evaluation.data",
  "evaluation.max_examples",
  "evaluation.samples_per_scenario",
  "evaluation.temperature",
  "evaluation.seed",
  "agent.max_turns",
  "agent.max_new_tokens_per_turn",
  "agent.max_trajectory_tokens",
];

/**
 * The parent's checkpoint as a fork begins with it. A learning rate that a command had set goes on, unless the fork's
 * `training.lr` is another than its parent's: then the fork's own counts. Where the fork measures something else than
 * its parent did, its evaluations start anew: the parent's pass rate before, best value and patience are of other
 * attempts. `every_updates`, `patience` and `min_delta` change nothing that is measured.
 */
export function forkOf(parent: Checkpoint, identity: Identity): Checkpoint {
  const { record } = parent;
  const changed = changedKeys(record.config, identity);
  const measures_otherwise = changed.some((key) => covers(MEASURED_BY, key));
  const state: TrainingState = {
    ...record.state,
    // A fork has patience of its own: its parent may have ended for the lack of it.
    evaluations_since_gain: 0,
    ...(changed.includes("training.lr") && { learning_rate: null }),
    ...(measures_otherwise && noEvaluation()),
  };
  const metrics = Object.entries(record.metrics).filter(([name]) =>
    !measures_otherwise || !name.startsWith("eval/")
  );
  return { ...parent, record: { ...record, state, metrics: Object.fromEntries(metrics) } };
}

/** What to tell of a learning rate that goes on although no configuration names it; null where there is none. */
export function keptRate({ record: { state: { learning_rate }, config } }: Checkpoint): string | null {
  if (learning_rate === null) return null;
  return `the learning rate ${learning_rate}, which a command set in the parent run, goes on: training.lr is ` +
    `${config["training.lr"]} as in the parent; another training.lr would take its place`;
}

/**
 * A fork goes on from checkpoints of its own: without one it would begin with an untrained adapter.
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
