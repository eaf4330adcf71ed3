/** A plan as the API shows it. */

import { z } from "zod";
import { TEXTS } from "../../config/text/text_kinds.ts";
import { LEVER_NAMES } from "../../runs/plan/levers.ts";
import { WARNING_CODES } from "../../runs/record/warning.ts";
import { templateProbeSchema } from "./template_probe.ts";

const bytes = z.int().gte(0);
const lever = z.enum(LEVER_NAMES);

const warningSchema = z.strictObject({
  code: z.enum(WARNING_CODES),
  field: z.string().optional().meta({
    description: "Dotted key; absent when it concerns the entire request.",
  }),
  message: z.string(),
}).meta({ id: "Warning", description: "A remark on a request that succeeds." });

export const planSchema = z.strictObject({
  config: z.record(z.string(), z.unknown()).meta({
    description: "The resolved configuration by catalogue ids.",
    ...TEXTS.config,
  }),
  sources: z.record(z.string(), z.enum(["default", "derived", "measured", "override"])).meta({
    description: "Where each value of the configuration comes from, by dotted key.",
  }),
  memory: z.strictObject({
    posts: z.array(z.strictObject({ post: z.string(), bytes })).meta({
      description: "The largest first. Those whose name begins with host_ lie in the machine's memory.",
    }),
    peak_bytes: bytes.meta({ description: "Of the posts on the device." }),
    host_peak_bytes: bytes.meta({
      description: "Of the posts in the machine's memory, which with a software adapter are all of them.",
    }),
    vram_budget_bytes: bytes.nullable(),
    ram_budget_bytes: bytes,
  }),
  levers_applied: z.array(lever),
  levers: z.array(z.strictObject({ lever, saved_bytes: bytes, time_factor: z.number() })),
  schedule: z.strictObject({
    tokens_per_update: z.number(),
    updates: z.int().gte(1).nullable().meta({ description: "Null when time limits them." }),
    seconds_per_update: z.number().nullable(),
    eta_seconds: z.number().nullable(),
    calibrated: z.boolean(),
  }),
  template_probe: templateProbeSchema,
  warnings: z.array(warningSchema),
}).meta({ id: "Plan", description: "What a run would be and need." });

/** The document of a plan. */
export type PlanCard = z.input<typeof planSchema>;
