/** The events of a run's stream and of the stream over all runs, by name, in the form for clients. */

import { z } from "zod";
import { TEXTS } from "../../config/text/text_kinds.ts";
import { FAILURE_REASONS, RUN_COMMANDS, RUN_STATES } from "../../runs/record/run.ts";
import { OBJECTIVE_NAMES } from "../../runs/record/objective.ts";
import { RUN_WARNING_CODES, WARNING_CODES } from "../../runs/record/warning.ts";
import { evaluationResourceSchema, rateSchema, scenarioFailureSchema } from "./evaluation.ts";

const count = z.int().gte(0);
const value = z.number().nullable();
const counts = z.record(z.string(), z.int().gte(1));
const bytes = z.int().gte(0);
const update = count.meta({ description: "Finished updates." });
const reason = z.enum(FAILURE_REASONS).nullable().meta({ description: "Why it failed; null otherwise." });
const detail = z.string().nullable();

/** JSON has no infinite numbers. */
const values = z.record(z.string(), z.number().nullable()).meta({
  description: "By metric name; null for a value that is not finite.",
});

const numbered = {
  seq: z.int().gte(1).meta({ description: "The event's number in its stream, and its id." }),
  time: z.string().meta({ format: "date-time" }),
  run: z.string(),
};

/** An event of a run: `data` of an event of this name. */
function runEvent<K extends string, S extends z.ZodRawShape>(kind: K, id: string, shape: S) {
  return z.strictObject({ ...numbered, kind: z.literal(kind), ...shape }).meta({ id });
}

const group = z.strictObject({
  scenario: z.string().meta(TEXTS.data),
  rewards: z.array(value).meta({ description: "The environment's reward of each attempt; null: it failed." }),
  stop_reasons: z.array(z.string()),
  degenerate: z.boolean().meta({ description: "All members have the same reward." }),
  dropped: z.boolean(),
}).meta({ id: "GroupSummary" });

const { n, pass_rate, reward_mean, loss, perplexity, rows, failed, failure, scenarios } =
  evaluationResourceSchema.shape;

const point = z.strictObject({ update: count, value: z.number(), pass_rate: rateSchema.nullable() })
  .meta({ id: "EvaluationPoint", description: "The objective's value after an update." });

const endEvaluation = z.strictObject({
  metric: z.enum(OBJECTIVE_NAMES),
  before: point,
  best: point,
  after: point,
  difference: z.strictObject({ difference: z.number(), low: value, high: value, n: count }).nullable().meta({
    description: "after - before on their common examples, with its 95 % interval.",
  }),
  fell: z.boolean().meta({ description: "The last is worse than the best, beyond chance." }),
}).meta({ id: "EndEvaluation", description: "The first, best and last evaluation of a run." });

/** Of a run, by name. */
export const RUN_EVENTS = {
  state: runEvent("state", "StateEvent", {
    state: z.enum(RUN_STATES),
    ...{ reason, detail, update },
    checkpoint: z.string().nullable().meta({ description: "The checkpoint from which it continues." }),
  }),
  metrics: runEvent("metrics", "MetricsEvent", { update: count, step: count, values }),
  update: runEvent("update", "UpdateEvent", {
    update: count,
    updates: z.int().gte(1).nullable().meta({ description: "Of the run; null when time limits them." }),
    step: count,
    reward_mean: value,
    loss: value,
    attempts: count,
    lost: counts.meta({ description: "Attempts that were not trained on, by reason." }),
    failure: scenarioFailureSchema.nullable(),
    degenerate_groups: count,
    optimizer_steps: count,
    tokens_per_second: z.number(),
    eta_seconds: value,
    groups: z.array(group),
  }),
  evaluation: runEvent("evaluation", "EvaluationEvent", {
    ...{ n, update, pass_rate, reward_mean, loss, perplexity, rows, failed, failure, scenarios },
    values: values.optional(),
    by_row: z.record(z.string(), z.strictObject({ sum: value, weight: z.number() })).optional().meta({
      description:
        "The loss of each held-out row, by its line: sum / weight; sum is null when it is not finite.",
    }),
  }),
  checkpoint: runEvent("checkpoint", "CheckpointEvent", {
    name: z.string(),
    ...{ update: count, step: count, size_bytes: bytes, metrics: values },
    best: z.boolean(),
  }),
  artifact: runEvent("artifact", "ArtifactEvent", {
    ...{ name: z.string(), path: z.string(), size_bytes: bytes, sha256: z.string() },
    update: count.meta({ description: "Of the adapter." }),
  }),
  log: runEvent("log", "LogEvent", {
    level: z.enum(["debug", "info", "warning", "error"]),
    message: z.string(),
  }),
  warning: runEvent("warning", "WarningEvent", {
    code: z.enum([...WARNING_CODES, ...RUN_WARNING_CODES]),
    field: z.string().optional(),
    message: z.string(),
  }),
  command: runEvent("command", "CommandEvent", {
    command: z.enum(RUN_COMMANDS),
    arguments: z.record(z.string(), z.union([z.string(), z.number(), z.boolean()])),
    takes_effect: z.enum(["boundary", "now"]),
  }),
  end: runEvent("end", "EndEvent", {
    state: z.enum(RUN_STATES),
    ...{ reason, detail, update },
    evaluation: endEvaluation.nullable(),
    plot: z.string().nullable().meta({ description: "Reward or loss as text.", ...TEXTS.data }),
    adapter: z.string().nullable().meta({ description: "Its file; null unless the run completed." }),
    adapter_update: count.nullable(),
    other_adapter: z.strictObject({ which: z.enum(["last", "best"]), update: count, path: z.string() })
      .nullable().meta({ description: "The other of the last and the best adapter, when they differ." }),
    deterministic: z.boolean(),
  }),
};

/** An event of the stream over all runs. */
function fleetEvent<K extends string>(kind: K, id: string) {
  return z.strictObject({
    ...numbered,
    kind: z.literal(kind),
    state: z.enum(RUN_STATES).meta({ description: "From then on; the last one of a deleted run." }),
  }).meta({ id });
}

/** Of all runs, by name. */
export const FLEET_EVENTS = {
  created: fleetEvent("created", "RunCreatedEvent"),
  state: fleetEvent("state", "RunStateEvent"),
  deleted: fleetEvent("deleted", "RunDeletedEvent"),
  gap: z.strictObject({
    seq: count.meta({ description: "The number of the newest event that is no longer kept." }),
    kind: z.literal("gap"),
    missing: z.int().gte(1).meta({ description: "Events that the client has not seen." }),
  }).meta({ id: "GapEvent" }),
};
