/** `[agent.judge]` */

import { z } from "zod";
import { JUDGE_DEFAULTS } from "./defaults.ts";
import { httpUrl, integer, name, number, text, variableName } from "./fields.ts";

/** How a judge is asked. */
export const JUDGE_TYPES = ["ruler", "local"] as const;

export const judgeSchema = z.strictObject({
  type: z.enum(JUDGE_TYPES).default("ruler").meta({
    description:
      "ruler: a model with an OpenAI-compatible API ranks a group; local: the run's own base model does, without adapter.",
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
    description:
      "Most characters of a group that are sent to the judge; of type local the limit is training.ctx.",
    rule: String(JUDGE_DEFAULTS.max_chars),
  }),
  timeout_secs: number("agent.judge.timeout_secs").default(120).meta({
    description: "Limit of one request.",
  }),
  max_retries: integer("agent.judge.max_retries").optional().meta({
    description: "Retries of a failed request to an API.",
    rule: String(JUDGE_DEFAULTS.max_retries),
  }),
  permute: z.boolean().default(true).meta({ description: "Shuffle a group by seed before it is judged." }),
  cache_path: text().optional().meta({
    description: "File in which judgements are kept.",
    rule: "no cache",
    path: "output",
  }),
});

type Judge = z.output<typeof judgeSchema>;

/** A broken rule at a key of the judge. */
interface JudgeProblem {
  /** Below `[agent.judge]`. */
  key: keyof Judge;
  message: string;
  missing?: true;
  hint?: string;
}

/** The keys of a model behind an address. */
const ENDPOINT_KEYS = ["base_url", "model", "api_key_env", "max_chars", "max_retries"] as const;

/** The broken rules of a judge that says itself who judges, in a run's configuration or a catalogue. */
export function judgeProblems(judge: Judge): JudgeProblem[] {
  if (judge.type === "local") {
    return ENDPOINT_KEYS.filter((key) => judge[key] !== undefined).map((key) => ({
      key,
      message: 'has no meaning for type "local", where the run\'s own base model judges',
    }));
  }
  const problems: JudgeProblem[] = [];
  for (const key of ["base_url", "model"] as const) {
    if (judge[key] === undefined) {
      problems.push({ key, message: 'is missing: type "ruler" needs it', missing: true });
    }
  }
  const url = judge.base_url === undefined ? null : URL.parse(judge.base_url);
  if (judge.base_url !== undefined && url === null) {
    problems.push({ key: "base_url", message: "is no address" });
  }
  if (url?.username || url?.password) {
    problems.push({
      key: "base_url",
      message: "must have no user name or password",
      hint: "name the environment variable of a key in api_key_env",
    });
  }
  return problems;
}
