/** The checkpoints of a run as a list shows them. */

import { readCheckpointRecord } from "../directory/checkpoint.ts";
import type { CheckpointEvent } from "../record/event.ts";
import { finiteMetrics } from "../record/finite_metrics.ts";
import { gainOf, type Objective } from "../record/objective.ts";

/** A checkpoint as a list shows it. */
export interface CheckpointCard {
  name: string;
  update: number;
  step: number;
  created_at: string;
  size_bytes: number;
  /** The metrics of its update. */
  metrics: Record<string, number>;
  /** It has the best evaluation of the run's checkpoints. */
  best: boolean;
}

/** The card of a checkpoint whose event is in the log. */
export function cardOfEvent(event: CheckpointEvent & { time: string }, best: boolean): CheckpointCard {
  const { name, update, step, time, size_bytes, metrics } = event;
  return { name, update, step, created_at: time, size_bytes, metrics: finiteMetrics(metrics), best };
}

/**
 * The card of a checkpoint without an event, because the process died between the two; null when it is damaged.
 *
 * @param directory Its own folder.
 */
export async function cardOfFolder(
  directory: string,
  name: string,
  best: boolean,
): Promise<CheckpointCard | null> {
  const record = await readCheckpointRecord(directory);
  if (!record) return null;
  const { created_at, metrics, state: { update, step } } = record;
  let size_bytes = 0;
  for await (const file of Deno.readDir(directory)) {
    size_bytes += (await Deno.stat(`${directory}/${file.name}`)).size;
  }
  return { name, update, step, created_at, size_bytes, metrics: finiteMetrics(metrics), best };
}

/** The value of an evaluation. */
export interface EvaluatedUpdate {
  update: number;
  metric: Objective;
  value: number;
}

/** The name of the item with the best evaluation, the later among equals; null when none was evaluated. */
export function bestEvaluated(
  items: readonly { name: string; update: number }[],
  evaluated: readonly EvaluatedUpdate[],
): string | null {
  let best: { name: string; value: number } | null = null;
  const by_update = new Map(evaluated.map((evaluation) => [evaluation.update, evaluation]));
  for (const { name, update } of items) {
    const evaluation = by_update.get(update);
    if (!evaluation) continue;
    const { metric, value } = evaluation;
    if (!best || gainOf(metric, { from: best.value, to: value }) >= 0) best = { name, value };
  }
  return best?.name ?? null;
}
