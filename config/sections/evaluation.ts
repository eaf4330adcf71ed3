/** `[evaluation]` */

import { z } from "zod";
import { integer, number, text } from "./fields.ts";

export const evaluationSchema = z.strictObject({
  data: text().meta({
    description:
      "Held-out data: scenarios for agent_grpo (each must be verifiable), traces for sft, pairs for preference.",
    path: "input",
  }),
  every_updates: integer("evaluation.every_updates").optional().meta({
    description: "Updates from one evaluation to the next.",
    rule: "only before the first update and after the last",
  }),
  max_examples: integer("evaluation.max_examples").optional().meta({
    description: "Use only this many lines from the start of the data.",
    rule: "all",
  }),
  samples_per_scenario: integer("evaluation.samples_per_scenario").default(1).meta({
    description: "Attempts at each scenario; agent_grpo only.",
  }),
  temperature: number("evaluation.temperature").optional().meta({
    description: "Sampling temperature; 0 takes the likeliest token; agent_grpo only.",
    rule: "0 with one sample per scenario, else 1",
  }),
  seed: integer("evaluation.seed").optional().meta({
    description: "Seed of the samples; the same at every evaluation.",
    rule: "run.seed",
  }),
  patience: integer("evaluation.patience").optional().meta({
    description: "The run ends after this many evaluations without an improvement.",
    rule: "never",
  }),
  min_delta: number("evaluation.min_delta").optional().meta({
    description: "Smallest improvement that counts.",
    rule: "0",
  }),
});
