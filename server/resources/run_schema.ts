/** A run as the API shows it. */

import { z } from "zod";
import { ALGORITHMS } from "../../config/algorithms.ts";
import { TEXTS } from "../../config/text/text_kinds.ts";
import { RUN_PHASES } from "../../runs/fleet/managed_run.ts";
import { FAILURE_REASONS, RUN_STATES } from "../../runs/record/run.ts";
import { planSchema } from "./plan_schema.ts";

const time = z.string().meta({ description: "RFC 3339, UTC.", format: "date-time" });

export const runCardSchema = z.strictObject({
  id: z.string(),
  name: z.string().meta(TEXTS.data),
  notes: z.string().meta(TEXTS.data),
  tags: z.array(z.string()).meta(TEXTS.data),
  algorithm: z.enum(ALGORITHMS),
  state: z.enum(RUN_STATES),
  state_reason: z.string().nullable().meta({
    description: "Why it is in this state; a failed run has error.reason here.",
  }),
  created_at: time,
  started_at: time.nullable(),
  ended_at: time.nullable(),
  progress: z.strictObject({
    update: z.int().gte(0).meta({ description: "Finished updates." }),
    updates: z.int().gte(1).nullable().meta({ description: "Planned updates; null when time limits them." }),
    step: z.int().gte(0).meta({ description: "Finished optimiser steps." }),
    eta_seconds: z.number().nullable(),
    phase: z.strictObject({
      name: z.enum(RUN_PHASES),
      done: z.int().gte(0).nullable(),
      total: z.int().gte(0).nullable(),
    }).nullable().meta({
      description:
        "What its process does between two events, with the ended attempts or scored examples where " +
        "it counts them; null without a process, and before it says so.",
    }),
  }),
  config: z.record(z.string(), z.unknown()).meta({
    description: "The resolved configuration without secrets; empty in view mode.",
    ...TEXTS.config,
  }),
  plan: planSchema.nullable().meta({ description: "As POST /v1/plan answers it; null in view mode." }),
  parent: z.strictObject({ run: z.string(), checkpoint: z.string() }).nullable().meta({
    description: "The run and checkpoint of which it is a fork.",
  }),
  error: z.strictObject({
    reason: z.enum(FAILURE_REASONS),
    detail: z.string(),
    update: z.int().gte(0),
    trace_id: z.string().nullable(),
  }).nullable().meta({ description: "Why it failed; null for a run that has not." }),
  deterministic: z.boolean().meta({
    description: "False once a wall-clock limit had an effect or a hosted service answered.",
  }),
  last_metrics: z.record(z.string(), z.number()).meta({ description: "The newest value of each metric." }),
}).meta({ id: "Run", description: "A fine-tuning: what it is, and how far." });

/** A run as the API shows it. */
export type RunCard = z.input<typeof runCardSchema>;

/** Filters of the list of runs. */
export const runFilters = {
  state: z.enum(RUN_STATES).optional().meta({ description: "Only runs in this state." }),
  algorithm: z.enum(ALGORITHMS).optional().meta({ description: "Only runs with this algorithm." }),
  name: z.string().optional().meta({ description: "Only runs with this name." }),
};
