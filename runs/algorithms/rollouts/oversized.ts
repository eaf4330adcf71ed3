/**
 * Trajectories that are left out of an update: a ratio of sequences needs all fragments of a trajectory in one
 * micro-batch, and theirs do not fit.
 */

import type { TrainingBatch } from "../../../agent/rollout/training_samples.ts";
import { ServiceError } from "../../../core/errors.ts";
import { trajectoryTokens } from "../../../trainer/learning/packing.ts";
import type { UpdateResult } from "../algorithm.ts";

/** By trajectory, the tokens of a micro-batch that its fragments need. */
export type Oversized = Map<string, number>;

const keyOf = ({ group, member }: TrainingBatch["places"][number]) => `${group}/${member}`;

/** The trajectories of an update whose fragments no micro-batch holds together, on some device. */
export function findOversized(full_batch: TrainingBatch, micro_batch_tokens: number): Oversized {
  const oversized: Oversized = new Map();
  for (
    let batch = full_batch, size = -1;
    oversized.size > size;
    batch = withoutOversized(full_batch, oversized)
  ) {
    // Without some of them the others' prompt can be longer, and be padded otherwise: look again.
    size = oversized.size;
    const needed = trajectoryTokens(batch.samples);
    batch.samples.forEach(({ trajectory }, i) => {
      const tokens = needed.get(trajectory)!;
      if (tokens > micro_batch_tokens) oversized.set(keyOf(batch.places[i]!), tokens);
    });
  }
  return oversized;
}

/**
 * A batch without the samples of these trajectories. They still count in the baselines of their groups and in the
 * normaliser, so the others' part of the gradient stays what it is.
 */
export function withoutOversized(batch: TrainingBatch, oversized: Oversized): TrainingBatch {
  const { samples, places } = batch, isKept = (i: number) => !oversized.has(keyOf(places[i]!));
  return {
    ...batch,
    samples: samples.filter((_, i) => isKept(i)),
    places: places.filter((_, i) => isKept(i)),
  };
}

/** The counts of lost attempts together with the oversized ones. */
export function withOversized(lost: UpdateResult["lost"], { size }: Oversized): UpdateResult["lost"] {
  return size === 0 ? lost : { ...lost, micro_batch_tokens: size };
}

/**
 * Fails a run that loses more than `max_dropped_fraction` of an update's trajectories with the oversized ones.
 *
 * @throws {ServiceError} `max_dropped_fraction`, with the key to raise.
 */
export function checkOversized(
  oversized: Oversized,
  { attempts, lost, max_dropped_fraction }: Pick<UpdateResult, "attempts" | "lost"> & {
    max_dropped_fraction: number;
  },
): void {
  const reasons = withOversized(lost, oversized);
  const count = Object.values(reasons).reduce((sum, n) => sum + n, 0);
  if (oversized.size === 0 || count / attempts <= max_dropped_fraction) return;
  throw new ServiceError(
    "max_dropped_fraction",
    `Cannot learn from the update: ${count} of ${attempts} trajectories are lost, more than ` +
      `agent.max_dropped_fraction = ${max_dropped_fraction}. The fragments of ${oversized.size} of them do not fit in ` +
      'one micro-batch, which importance_sampling_level = "sequence" needs; raise training.micro_batch_tokens to ' +
      Math.max(...oversized.values()),
    { lost: count, trajectories: attempts, reasons },
  );
}
