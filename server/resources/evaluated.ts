/** The values of a run's evaluations, from the index. */

import type { EvaluatedUpdate } from "../../runs/results/checkpoints.ts";
import { samplesOf } from "../../runs/results/metric_series.ts";
import type { Database } from "../store/database.ts";
import { rowsBySeq } from "../store/metric_rows.ts";

const EVALUATED = ["eval/pass_rate", "eval/loss"] as const;

/** The value of each evaluation of a run, by the update before it. */
export async function evaluatedUpdates(database: Database, run: string): Promise<EvaluatedUpdate[]> {
  const evaluated: EvaluatedUpdate[] = [];
  for await (const row of rowsBySeq(database, { run, names: EVALUATED })) {
    for (const { update, name, value } of samplesOf(row, new Set(EVALUATED))) {
      evaluated.push({ update, metric: name as EvaluatedUpdate["metric"], value });
    }
  }
  return evaluated;
}
