/** The last event of a run's process. */

import type { EndEvent } from "./event.ts";
import type { LiveRun } from "./live_run.ts";
import type { RunState } from "./run.ts";
import { textPlot } from "./text_plot.ts";

/** What a run that ends in a state has come to. */
export function endEvent(
  { state, config }: LiveRun,
  ended: RunState,
  { reason = null, detail = null }: Partial<Pick<EndEvent, "reason" | "detail">> = {},
): EndEvent {
  const { pass_rate_before: before, pass_rate_latest: after, evaluations, curve } = state;
  const title = config.run.algorithm === "sft" ? "loss by update" : "mean reward by update";
  return {
    kind: "end",
    state: ended,
    reason,
    detail,
    update: state.update,
    evaluation: before && after && evaluations > 1 ? { before, after } : null,
    plot: textPlot(title, curve.map((value) => value ?? NaN)) || null,
    adapter: ended === "completed" ? config.output.path : null,
    deterministic: state.deterministic,
  };
}
