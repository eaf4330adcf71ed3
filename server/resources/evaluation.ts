/** An evaluation as the API shows it. */

import { z } from "zod";
import { TEXTS } from "../../config/text/text_kinds.ts";
import type { RunEvent } from "../../runs/record/event.ts";
import { finiteMetrics } from "../../runs/record/finite_metrics.ts";
import type { Example } from "../../runs/record/paired_comparison.ts";
import { failureBoundary } from "../../runs/views/shapes.ts";

export const rateSchema = z.strictObject({
  rate: z.number(),
  low: z.number(),
  high: z.number(),
  n: z.int().gte(0).meta({ description: "Scenarios." }),
  attempts: z.int().gte(0),
}).meta({ id: "Rate", description: "A mean over scenarios, with its 95 % interval." });

export const scenarioFailureSchema = z.strictObject({
  scenario: z.string().meta(TEXTS.data),
  boundary: failureBoundary,
  message: z.string(),
}).meta({ id: "ScenarioFailure", description: "A failure of code that the run does not control." });

export const evaluationResourceSchema = z.strictObject({
  n: z.int().gte(0).meta({ description: "Counts the evaluations of the run." }),
  update: z.int().gte(0).meta({ description: "The update before it." }),
  time: z.string().meta({ format: "date-time" }),
  pass_rate: rateSchema.nullable().meta({ description: "Null for a loss on held-out rows." }),
  reward_mean: z.number().nullable(),
  loss: z.number().nullable().meta({ description: "Null for scenarios, and when it is not finite." }),
  perplexity: z.number().nullable(),
  values: z.record(z.string(), z.number()).meta({ description: "Other measured values, by metric name." }),
  rows: z.strictObject({
    n: z.int().gte(0),
    truncated: z.int().gte(0).meta({ description: "Rows that were cut at training.ctx." }),
  }).nullable().meta({ description: "Null for scenarios." }),
  failed: z.record(z.string(), z.int().gte(0)).meta({
    description: "Attempts that failed for reasons other than the model's, by reason. They have not passed.",
  }),
  failure: scenarioFailureSchema.nullable().meta({ description: "The first of these." }),
  scenarios: z.array(
    z.strictObject({
      scenario: z.string().meta(TEXTS.data),
      attempts: z.int().gte(0),
      passes: z.int().gte(0),
      rewards: z.array(z.number().nullable()).meta({ description: "Null: failed, and not graded." }),
      stop_reasons: z.array(z.string()),
    }).meta({ id: "ScenarioOutcome" }),
  ).meta({ description: "The outcome of each held-out scenario." }),
  row_losses: z.array(
    z.strictObject({
      row: z.string().meta({ description: "Its line in the file." }),
      loss: z.number().nullable().meta({ description: "Null when it is not finite." }),
      weight: z.number().meta({ description: "Its trained tokens, or 1 for a pair." }),
    }).meta({ id: "RowLoss" }),
  ).meta({ description: "The loss of each held-out row." }),
}).meta({ id: "Evaluation" });

type Evaluation = z.output<typeof evaluationResourceSchema>;

type EvaluationEvent = Extract<RunEvent, { kind: "evaluation" }>;

/** The losses of rows by their lines. JSON has null for a sum that is not finite. */
export function rowLosses(
  by_row: Readonly<Record<string, Pick<Example, "weight"> & { sum: number | null }>>,
): Evaluation["row_losses"] {
  return Object.entries(by_row).map(([row, { sum, weight }]) => {
    const loss = sum === null ? null : sum / weight;
    return { row, loss: Number.isFinite(loss) ? loss : null, weight };
  });
}

/** The measurements that an event and an answer have in common; only fields of the API. */
export function measurements(
  { pass_rate, reward_mean, loss, perplexity, values, rows, failed, failure, scenarios }: Pick<
    EvaluationEvent,
    | "pass_rate"
    | "reward_mean"
    | "loss"
    | "perplexity"
    | "values"
    | "rows"
    | "failed"
    | "failure"
    | "scenarios"
  >,
) {
  return {
    ...{ pass_rate, reward_mean, loss, perplexity, values: finiteMetrics(values ?? {}), rows },
    ...{ failed: failed as Record<string, number>, failure, scenarios },
  };
}

export function evaluationOf(event: EvaluationEvent): Evaluation {
  const { n, update, time, by_row = {} } = event;
  return { n, update, time, ...measurements(event), row_losses: rowLosses(by_row) };
}
