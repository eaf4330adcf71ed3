/** The last event of a run's process. */

import type { TrainingState } from "./checkpoint.ts";
import { evaluationDifference, type EvaluationRecord, isWorseBeyondChance } from "./evaluation_record.ts";
import type { EndEvaluation, EndEvent, EvaluationPoint } from "./event.ts";
import { keptAdapters } from "./kept_adapters.ts";
import type { LiveRun } from "./live_run.ts";
import type { RunState } from "./run.ts";
import { textPlot } from "./text_plot.ts";
import type { RunWarning } from "./warnings.ts";

/** What a run that ends in a state has come to. */
export function endEvent(
  { state, config }: LiveRun,
  ended: RunState,
  { reason = null, detail = null }: Partial<Pick<EndEvent, "reason" | "detail">> = {},
): EndEvent {
  const title = config.run.algorithm === "sft" ? "loss by update" : "mean reward by update";
  const kept = ended === "completed" ? keptAdapters(config.output, state) : null;
  return {
    kind: "end",
    state: ended,
    reason,
    detail,
    update: state.update,
    evaluation: endEvaluation(state, config.evaluation?.seed ?? 0),
    plot: textPlot(title, state.curve.map((value) => value ?? NaN)) || null,
    adapter: kept?.chosen.path ?? null,
    adapter_update: kept?.chosen.update ?? null,
    other_adapter: kept?.other ?? null,
    deterministic: state.deterministic,
  };
}

function endEvaluation(state: TrainingState, seed: number): EndEvaluation | null {
  const { before, best, latest: after, evaluations } = state;
  if (!before || !best || !after || before.update === after.update) return null;
  return {
    metric: after.metric,
    before: pointOf(before),
    best: pointOf(best),
    after: pointOf(after),
    difference: evaluationDifference(before, after, { seed }),
    fell: isWorseBeyondChance(best, after, { seed, evaluations }),
  };
}

function pointOf({ update, value, pass_rate }: EvaluationRecord): EvaluationPoint {
  return { update, value, pass_rate };
}

/** What a run whose last evaluation is worse than its best has to say of it. */
export function fallWarning({ evaluation, adapter, other_adapter, update }: EndEvent): RunWarning | null {
  if (!evaluation?.fell) return null;
  const { best, after, metric } = evaluation;
  const shown = (value: number) =>
    metric === "eval/loss" ? value.toFixed(4) : `${(100 * value).toFixed(1)} %`;
  const where = other_adapter === null
    ? ""
    : other_adapter.which === "best"
    ? `; the best one is kept in ${other_adapter.path}, and output.adapter = "best" chooses it`
    : `; ${adapter} is the best one, the last is kept in ${other_adapter.path}`;
  return {
    code: "worse_than_best",
    field: "output.adapter",
    message:
      `the run fell: ${metric} is ${
        shown(after.value)
      } after update ${after.update}, worse beyond chance than ` +
      `${shown(best.value)} after update ${best.update}` + where +
      (update > best.update ? ". Lower training.lr or agent.max_update_kl, or set evaluation.patience" : ""),
  };
}
