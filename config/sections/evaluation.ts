/** `[evaluation]` */

import { z } from "zod";
import { ALGORITHM_KEYS, usersText } from "../algorithms.ts";
import { integer, number, text } from "./fields.ts";

const rows = Object.entries(ALGORITHM_KEYS).map(([name, { data }]) => `${data.rows} for ${name}`);

export const evaluationSchema = z.strictObject({
  data: text().meta({
    description: `Held-out data: ${rows.join(", ")}; scenarios must be verifiable.`,
    path: "input",
  }),
  every_updates: integer("evaluation.every_updates").optional().meta({
    description: "Updates from one evaluation to the next.",
    rule: "only before the first update and after the last",
  }),
  max_examples: integer("evaluation.max_examples").optional().meta({
    description: "Use only this many lines from the start of the data.",
    rule: "all",
    example: 100,
  }),
  samples_per_scenario: integer("evaluation.samples_per_scenario").default(1).meta({
    description: `Attempts at each scenario; ${usersText("evaluation.samples_per_scenario")} only.`,
  }),
  temperature: number("evaluation.temperature").optional().meta({
    description: `Sampling temperature; 0 takes the likeliest token; ${
      usersText("evaluation.temperature")
    } only.`,
    rule: "0 with one sample per scenario, else 1",
    example: 1,
  }),
  seed: integer("evaluation.seed").optional().meta({
    description: "Seed of the samples; the same at every evaluation.",
    rule: "run.seed",
    example: 42,
  }),
  patience: integer("evaluation.patience").optional().meta({
    description: "The run ends after this many evaluations without an improvement.",
    rule: "never",
    example: 3,
  }),
  min_delta: number("evaluation.min_delta").optional().meta({
    description: "Smallest improvement that counts.",
    rule: "0",
    example: 0.01,
  }),
});
