/** The exported trajectories of a run's updates. */

import { type ObservedValues, ObserveWriter } from "../../../agent/results/observe.ts";
import type { Group } from "../../../agent/trajectory/group.ts";
import type { ResolvedConfig } from "../../../config/check/derive.ts";
import type { Clock } from "../../../core/clock.ts";
import type { Tokenizer } from "../../../trainer/tokenizer/tokenizer.ts";

/** Records an update's groups for later inspection, also those of an update that fails. */
export type ObserveUpdate = (
  update: number,
  groups: readonly Group[],
  values: ObservedValues,
) => Promise<void>;

/** Writes updates to the observe directory, which it opens at the first update; null without `[observe]`. */
export function updateObserver(
  { observe, agent, run }: ResolvedConfig,
  { clock, tokenizer }: { clock: Clock; tokenizer: Tokenizer },
): ObserveUpdate | null {
  if (!observe) return null;
  const tokenText = (id: number) => tokenizer.textOf(id);
  let writer: Promise<ObserveWriter> | null = null;
  return async (update, groups, values) => {
    writer ??= ObserveWriter.open({
      ...observe,
      run_name: run.name,
      algorithm: run.algorithm,
      updates: agent!.updates,
      clock,
      tokenText,
    });
    await (await writer).write(update, groups, values);
  };
}
