/** The last event of a run's process. */

import type { ResolvedConfig } from "../config/derive.ts";
import type { TrainingState } from "./checkpoint.ts";
import { evaluationDifference, type EvaluationRecord, isWorseBeyondChance } from "./evaluation_record.ts";
import type { EndEvaluation, EndEvent, EvaluationPoint } from "./event.ts";
import { keptAdapters, siblingAdapter } from "./kept_adapters.ts";
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
    other_adapter: kept ? kept.other : bestSoFar(config.output, state),
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

/** Of a run that did not complete, the best adapter is what there is. */
function bestSoFar({ path }: { path: string }, { best }: TrainingState): EndEvent["other_adapter"] {
  return best && { which: "best", update: best.update, path: siblingAdapter(path, "best") };
}

/** What a run whose last evaluation is worse than its best has to say of it. */
export function fallWarning(
  { evaluation, adapter, other_adapter }: EndEvent,
  { run, evaluation: section }: ResolvedConfig,
): RunWarning | null {
  if (!evaluation?.fell) return null;
  const { best, after, metric } = evaluation;
  const shown = (value: number) =>
    metric === "eval/loss" ? value.toFixed(4) : `${(100 * value).toFixed(1)} %`;
  const where = other_adapter === null
    ? ""
    : other_adapter.which === "best"
    ? `; the best one is kept in ${other_adapter.path}, and output.adapter = "best" chooses it`
    : `; ${adapter} is the best one, the last is kept in ${other_adapter.path}`;
  const lower = run.algorithm === "agent_grpo" ? "training.lr or agent.max_update_kl" : "training.lr";
  const patience = section?.every_updates === undefined || section.patience !== undefined
    ? ""
    : ", or set evaluation.patience";
  return {
    code: "worse_than_best",
    field: "output.adapter",
    message:
      `the run fell: ${metric} is ${
        shown(after.value)
      } after update ${after.update}, worse beyond chance than ` +
      `${shown(best.value)} after update ${best.update}${where}. Lower ${lower}${patience}`,
  };
}
