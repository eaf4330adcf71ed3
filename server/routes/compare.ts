/** Comparisons of runs. */

import { z } from "zod";
import { TEXTS } from "../../config/text/text_kinds.ts";
import { bestEvaluated } from "../../runs/results/checkpoints.ts";
import {
  compare,
  type Compared,
  COMPARISON_METHODS,
  configDifferences,
} from "../../runs/results/comparison.ts";
import { Buckets } from "../../runs/results/metric_series.ts";
import { readEventsAt } from "../../runs/results/run_log.ts";
import { OBJECTIVE_NAMES, objectiveOf } from "../../runs/record/objective.ts";
import { RUN_STATES } from "../../runs/record/run.ts";
import { evaluatedUpdates } from "../resources/evaluated.ts";
import { jsonValue } from "../http/json_value.ts";
import { Problem } from "../http/problems.ts";
import { integerParameter, listParameter } from "../http/query.ts";
import { json, type Route, route } from "../routing/route.ts";
import { eventsPath, followRun } from "../resources/run_logs.ts";
import type { StoredRun } from "../sources/run_source.ts";
import type { Services } from "../routing/services.ts";
import type { Database } from "../store/database.ts";
import { eventPlaces } from "../store/event_places.ts";
import { rowsByUpdate, updateRange } from "../store/metric_rows.ts";

const MAX_RUNS = 8;

/** The most points of an aligned metric. */
const MAX_POINTS = 200;

const DEFAULT_POINTS = 100;

const metric = z.enum(OBJECTIVE_NAMES);

const comparedRun = z.strictObject({
  id: z.string(),
  name: z.string().meta(TEXTS.data),
  algorithm: z.string(),
  state: z.enum(RUN_STATES),
  evaluation: z.strictObject({ n: z.int().gte(0), update: z.int().gte(0), metric, value: z.number() })
    .nullable().meta({
      description: "The evaluation that is compared; null when the run has no such one.",
    }),
}).meta({ id: "ComparedRun" });

const alignedMetric = z.strictObject({
  name: z.string(),
  points: z.array(z.strictObject({
    first_update: z.int().gte(0),
    last_update: z.int().gte(0),
    values: z.array(z.number().nullable()).meta({
      description: "The mean over these updates for each run, null without a sample.",
    }),
  })),
}).meta({ id: "AlignedMetric", description: "A metric over the same updates for all runs." });

const comparison = z.strictObject({
  before: z.string().meta({ description: "The first run of the request." }),
  after: z.string(),
  metric: metric.nullable().meta({ description: "Null when nothing can be compared." }),
  measured_differently: z.array(z.string()).meta({
    description: "Keys that decide what an evaluation measures, and differ.",
  }),
  examples: z.strictObject({
    common: z.int().gte(0),
    only_before: z.int().gte(0),
    only_after: z.int().gte(0),
  }).meta({
    description: "Scenarios or rows of the two evaluations. Only common ones are compared.",
  }),
  difference: z.strictObject({
    difference: z.number().meta({ description: "after − before, over the common examples." }),
    low: z.number().nullable(),
    high: z.number().nullable(),
    n: z.int().gte(0),
  }).nullable().meta({
    description:
      "With its 95 % interval by the paired bootstrap; its ends are null when the examples do not determine it.",
  }),
  mcnemar: z.strictObject({ gained: z.int().gte(0), lost: z.int().gte(0), p_value: z.number() }).nullable()
    .meta({
      description:
        "McNemar's exact test of the scenarios won and lost, two-sided. With several attempts at each it is the " +
        "sign test. Null for losses.",
    }),
  outcomes: z.array(z.strictObject({
    example: z.string().meta({ description: "The scenario, or the line of the row.", ...TEXTS.data }),
    before: z.number().meta({ description: "The share of passed attempts, or the loss." }),
    after: z.number(),
    outcome: z.enum(["win", "loss", "tie"]).meta({ description: "win: after is better." }),
  })),
  note: z.string().nullable().meta({ description: "The limits of the comparison, in words." }),
}).meta({ id: "Comparison", description: "The evaluation of a run against that of the first run." });

const query = z.strictObject({
  runs: listParameter(2, MAX_RUNS).refine((ids) => new Set(ids).size === ids.length, {
    error: "must be different runs",
  }).meta({
    description: `2 to ${MAX_RUNS} runs with commas between them; each is compared with the first.`,
  }),
  evaluation: z.string().regex(/^(first|best|last|[1-9]\d{0,8})$/, {
    error: 'must be "first", "best", "last" or the number of an evaluation',
  }).default("last").meta({ description: "The evaluation of each run: first, best, last, or its number." }),
  points: integerParameter(1, MAX_POINTS).default(DEFAULT_POINTS).meta({
    description: `The most points of an aligned metric, 1 to ${MAX_POINTS}.`,
  }),
  names: listParameter(1, 200).optional().meta({ description: "The metrics to align; absent: all." }),
});

/** The runs that the request names. @throws {Problem} `not-found` at `/query/runs`, with all unknown ids. */
async function findRuns(ids: readonly string[], { runs }: Services): Promise<StoredRun[]> {
  const found = await Promise.all(ids.map((id) => runs.find(id)));
  const errors = ids.filter((_, i) => !found[i]).map((id) => ({
    pointer: "/query/runs",
    code: "not_found" as const,
    message: `There is no run ${JSON.stringify(id)}`,
  }));
  if (errors.length > 0) throw new Problem("not-found", errors[0]!.message, { errors });
  return found as StoredRun[];
}

/** A run with the evaluation that the request names. */
async function comparedOf(run: StoredRun, which: string, services: Services): Promise<Compared> {
  const id = await followRun(run, services), { database } = services;
  const places = eventPlaces(database, id, "evaluation").sort((a, b) => Number(a.name) - Number(b.name));
  const name = which === "best"
    ? bestEvaluated(places, await evaluatedUpdates(database, id))
    : which === "first"
    ? places[0]?.name
    : which === "last"
    ? places.at(-1)?.name
    : which;
  const place = places.filter((evaluation) => evaluation.name === name);
  const [evaluation = null] = await Array.fromAsync(readEventsAt(eventsPath(run), "evaluation", place));
  return { id, config: run.config, shown_config: run.shown_config, evaluation };
}

function cardOf({ record: { id, name, algorithm, state } }: StoredRun, { evaluation }: Compared) {
  const measured = evaluation && objectiveOf(evaluation);
  return {
    id,
    name,
    algorithm,
    state,
    evaluation: evaluation && measured && { n: evaluation.n, update: evaluation.update, ...measured },
  };
}

/** The metrics of runs in buckets of the same updates. */
async function alignedMetrics(
  database: Database,
  runs: readonly string[],
  { names, points }: { names: readonly string[] | undefined; points: number },
): Promise<z.input<typeof alignedMetric>[]> {
  const ranges = runs.flatMap((run) => updateRange(database, { run }) ?? []);
  if (ranges.length === 0) return [];
  const range = {
    first: Math.min(...ranges.map(({ first }) => first)),
    last: Math.max(...ranges.map(({ last }) => last)),
  };
  const of_runs: Buckets[] = [], chosen = names && new Set(names);
  for (const run of runs) {
    const buckets = new Buckets(range, points);
    for await (const row of rowsByUpdate(database, { run, names, updates: range })) buckets.add(row, chosen);
    of_runs.push(buckets);
  }
  const all = [...new Set(of_runs.flatMap((buckets) => buckets.names()))].sort();
  return all.map((name) => ({
    name,
    points: Array.from({ length: of_runs[0]!.count }, (_, at) => {
      const { first, last } = of_runs[0]!.updatesOf(at);
      const values = of_runs.map((buckets) => buckets.of(name).get(at)?.mean ?? null);
      return { first_update: first, last_update: last, values };
    }).filter(({ values }) => values.some((value) => value !== null)),
  }));
}

const compareRuns = route({
  method: "GET",
  path: "/v1/compare",
  operation: "compare_runs",
  summary: "Runs beside each other: configuration, metrics, evaluations.",
  query,
  answers: {
    200: {
      description: "Values stand in the order of the runs of the request.",
      content: {
        "application/json": z.strictObject({
          runs: z.array(comparedRun),
          configuration: z.array(
            z.strictObject({
              key: z.string(),
              values: z.array(jsonValue).meta({ description: "Null where the key is not set." }),
            }).meta(TEXTS.config_key),
          ).meta({ description: "The resolved keys that differ." }),
          metrics: z.array(alignedMetric),
          comparisons: z.array(comparison).meta({ description: "Each run but the first with the first." }),
          methods: z.strictObject({ difference: z.string(), outcomes: z.string(), mcnemar: z.string() }).meta(
            {
              description: "How these members of a comparison are computed, in words for people.",
            },
          ),
        }).meta({ id: "RunComparison", description: "Runs beside each other." }),
      },
    },
  },
  problems: { "not-found": ["not_found"] },
  async handler({ query: { runs: ids, evaluation, points, names }, services }) {
    const runs = await findRuns(ids, services);
    const compared: Compared[] = [];
    for (const run of runs) compared.push(await comparedOf(run, evaluation, services));
    const [first, ...others] = compared, seed = first!.config?.evaluation?.seed ?? 0;
    const comparisons = [];
    for (const other of others) {
      comparisons.push({
        before: first!.id,
        after: other.id,
        ...await compare(first!, other, { seed }),
      });
    }
    return json(200, {
      runs: runs.map((run, i) => cardOf(run, compared[i]!)),
      configuration: configDifferences(compared.map(({ shown_config }) => shown_config)) as {
        key: string;
        values: z.core.util.JSONType[];
      }[],
      metrics: await alignedMetrics(services.database, compared.map(({ id }) => id), { names, points }),
      comparisons,
      methods: COMPARISON_METHODS,
    });
  },
});

export const COMPARE_ROUTES: readonly Route[] = [compareRuns];
