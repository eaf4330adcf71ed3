/** The health of a run. */

import { z } from "zod";
import { evaluateRules, HEALTH_METRICS, HealthSeries } from "../../runs/results/health.ts";
import { findRun } from "../resources/find_run.ts";
import { json, type Route, route } from "../routing/route.ts";
import { followRun } from "../resources/run_logs.ts";
import type { Database } from "../store/database.ts";
import type { UpdateRange } from "../../runs/results/metric_series.ts";
import { rowsBySeq, rowsByUpdate, updateRange } from "../store/metric_rows.ts";

/** The newest updates whose metrics the rules read. */
const NEWEST_UPDATES = 1000;

/** The first updates, with which some rules compare. */
const START_UPDATES = 50;

const healthSchema = z.strictObject({
  rules: z.array(
    z.strictObject({
      rule: z.string(),
      level: z.enum(["ok", "warning", "critical"]),
      value: z.number().meta({ description: "The measure of the rule, after the newest update." }),
      threshold: z.number(),
      since_update: z.int().gte(0).nullable().meta({
        description:
          "The update since which the rule is broken; null when it holds. Of a long run only the first " +
          `${START_UPDATES} and the last ${NEWEST_UPDATES} updates, and all evaluations, are looked at.`,
      }),
      advice: z.string(),
    }).meta({ id: "HealthRule" }),
  ).meta({
    description: "Critical ones first, then warnings, then those that hold; only those that can be measured.",
  }),
}).meta({ id: "RunHealth", description: "What the metrics say about a run." });

/** The metrics that rules read: those of a run's first updates, of its newest ones and of all its evaluations. */
async function healthSeries(database: Database, run: string): Promise<HealthSeries> {
  const series = new HealthSeries(), range = updateRange(database, { run });
  if (!range) return series;
  const end_of_start = range.first + START_UPDATES;
  const newest = Math.max(end_of_start, range.last - NEWEST_UPDATES + 1);
  const ofUpdates = (updates: Partial<UpdateRange>) =>
    rowsByUpdate(database, { run, names: HEALTH_METRICS, updates });
  for await (const row of ofUpdates({ last: end_of_start - 1 })) series.add(row);
  const evaluations = HEALTH_METRICS.filter((name) => name.startsWith("eval/"));
  for await (const row of rowsBySeq(database, { run, names: evaluations })) {
    if (row.update >= end_of_start && row.update < newest) series.add(row);
  }
  for await (const row of ofUpdates({ first: newest })) series.add(row);
  return series;
}

const getRunHealth = route({
  method: "GET",
  path: "/v1/runs/{id}/health",
  operation: "get_run_health",
  summary: "Rules read from the metrics of a run, with advice.",
  in_view_mode: true,
  answers: {
    200: {
      description: "The results of the rules; docs/reference/health.md lists the rules.",
      content: { "application/json": healthSchema },
    },
  },
  find: findRun,
  async handler({ found, services }) {
    const run = await followRun(found, services);
    return json(200, { rules: evaluateRules(await healthSeries(services.database, run)) });
  },
});

export const RUN_HEALTH_ROUTES: readonly Route[] = [getRunHealth];
