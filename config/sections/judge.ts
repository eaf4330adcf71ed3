/** `[agent.judge]` */

import { z } from "zod";
import { JUDGE_DEFAULTS } from "./defaults.ts";
import { httpUrl, integer, name, number, text, variableName } from "./fields.ts";

/** How a judge is asked. */
export const JUDGE_TYPES = ["ruler", "local"] as const;

export const judgeSchema = z.strictObject({
  type: z.enum(JUDGE_TYPES).default("ruler").meta({
    description:
      "ruler: a model with an OpenAI-compatible API ranks a group; local: the run's own base model.",
  }),
  id: name().optional().meta({ description: "A judge of the server's catalogue.", rule: "none" }),
  base_url: httpUrl().optional().meta({ description: "Address of the judge's API.", rule: "none" }),
  model: text().optional().meta({ description: "Model that judges.", rule: "none" }),
  api_key_env: variableName().optional().meta({
    description: "Environment variable that holds the judge's key.",
    rule: "no key is sent",
  }),
  rubric: text().optional().meta({
    description: "Criteria for the judge, for scenarios without their own rubric.",
    rule: "RULER's default rubric",
  }),
  max_chars: integer("agent.judge.max_chars").optional().meta({
    description: "Most characters of a group that are sent to the judge.",
    rule: String(JUDGE_DEFAULTS.max_chars),
  }),
  timeout_secs: number("agent.judge.timeout_secs").default(120).meta({
    description: "Limit of one request.",
  }),
  max_retries: integer("agent.judge.max_retries").optional().meta({
    description: "Retries of a failed request.",
    rule: String(JUDGE_DEFAULTS.max_retries),
  }),
  permute: z.boolean().default(true).meta({ description: "Shuffle a group by seed before it is judged." }),
  cache_path: text().optional().meta({
    description: "File in which judgements are kept.",
    rule: "no cache",
    path: "output",
  }),
});
