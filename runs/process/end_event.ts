/** Builds the last event of a run's process. */

import type { ResolvedConfig } from "../../config/check/derive.ts";
import { valueAt } from "../../config/text/toml_tree.ts";
import { algorithmOf } from "../algorithms/registry.ts";
import type { TrainingState } from "../directory/checkpoint.ts";
import { keptAdapters, siblingAdapter } from "../directory/kept_adapters.ts";
import type { RunWarning } from "../record/warning.ts";
import {
  evaluationDifference,
  type EvaluationRecord,
  isWorseBeyondChance,
} from "../record/evaluation_record.ts";
import type { EndEvaluation, EndEvent, EvaluationPoint } from "../record/event.ts";
import { OBJECTIVES } from "../record/objective.ts";
import type { RunState } from "../record/run.ts";
import { textPlot } from "../record/text_plot.ts";
import type { LiveRun } from "./live_run.ts";

/** The summary of a run that ends in a state. */
export function endEvent(
  { state, config }: LiveRun,
  ended: RunState,
  { reason = null, detail = null }: Partial<Pick<EndEvent, "reason" | "detail">> = {},
): EndEvent {
  const title = `${algorithmOf(config).curve} by update`;
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

/** A run that did not complete only has its best adapter so far. */
function bestSoFar({ path }: { path: string }, { best }: TrainingState): EndEvent["other_adapter"] {
  return best && { which: "best", update: best.update, path: siblingAdapter(path, "best") };
}

/** The keys that make steps smaller. A limit of 0 is off, so the advice is to set it, not to lower it. */
function stepAdvice(config: ResolvedConfig): string {
  const keys = algorithmOf(config).step_size_keys;
  const [lower, set] = [true, false].map((is_on) =>
    keys.filter((key) => is_on === Boolean(valueAt(config, key.split(".")))).join(" or ")
  );
  return `Lower ${lower}${set === "" ? "" : ` or set ${set}`}`;
}

/** The warning about a run whose last evaluation is worse than its best. */
export function fallWarning(
  { evaluation, adapter, other_adapter }: EndEvent,
  config: ResolvedConfig,
): RunWarning | null {
  if (!evaluation?.fell) return null;
  const { best, after, metric } = evaluation;
  const shown = (value: number) =>
    OBJECTIVES[metric].is_rate ? `${(100 * value).toFixed(1)} %` : value.toFixed(4);
  const where = other_adapter === null
    ? ""
    : other_adapter.which === "best"
    ? `; the best one is kept in ${other_adapter.path}; with output.adapter = "best" a new run chooses it`
    : `; ${adapter} is the best one, the last is kept in ${other_adapter.path}`;
  const { evaluation: section } = config;
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
      `${shown(best.value)} after update ${best.update}${where}. ${stepAdvice(config)}${patience}`,
  };
}
