/** The values of a run's evaluations, from the index. */

import { type Objective, OBJECTIVE_NAMES } from "../../runs/record/objective.ts";
import type { EvaluatedUpdate } from "../../runs/results/checkpoints.ts";
import { samplesOf } from "../../runs/results/metric_series.ts";
import type { Database } from "../store/database.ts";
import { rowsBySeq } from "../store/metric_rows.ts";

const NAMES: ReadonlySet<string> = new Set(OBJECTIVE_NAMES);

/** The value of each evaluation of a run, by the update before it. */
export async function evaluatedUpdates(database: Database, run: string): Promise<EvaluatedUpdate[]> {
  const evaluated: EvaluatedUpdate[] = [];
  for await (const row of rowsBySeq(database, { run, names: OBJECTIVE_NAMES })) {
    for (const { update, name, value } of samplesOf(row, NAMES)) {
      evaluated.push({ update, metric: name as Objective, value });
    }
  }
  return evaluated;
}
