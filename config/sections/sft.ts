/** `[sft]` */

import { z } from "zod";
import { templateVariablesSchema, text } from "./fields.ts";

export const sftSchema = z.strictObject({
  data: text().meta({
    description: "JSONL of traces: {messages, tools?}, {prompt, completion} or {text} a line.",
    path: "input",
  }),
  packing: z.boolean().default(true).meta({
    description: "Put several short traces into one sequence; they do not see each other.",
  }),
  train_on: z.enum(["assistant", "last", "all"]).default("assistant").meta({
    description: "Which tokens have a loss: every assistant turn, the last one, or all tokens.",
  }),
  template_variables: templateVariablesSchema().default({}).meta({
    description: "Variables for the chat template; use those of [agent] so that both formats are equal.",
  }),
});
