/** `[preference]` */

import { z } from "zod";
import { PREFERENCE_LOSS_NAMES } from "../../core/preference_loss.ts";
import { number, text } from "./fields.ts";

export const preferenceSchema = z.strictObject({
  data: text().meta({
    description: "JSONL of {prompt, chosen, rejected, tools?} a line, texts or messages.",
    path: "input",
  }),
  loss: z.enum(PREFERENCE_LOSS_NAMES).default("dpo").meta({ description: "The pair loss." }),
  beta: number("preference.beta").optional().meta({
    description: "Factor of the log-ratio.",
    rule: "2 for simpo, else 0.1",
  }),
  gamma: number("preference.gamma").default(1).meta({ description: "Margin of simpo." }),
  lambda: number("preference.lambda").default(0.1).meta({ description: "Factor of orpo's odds-ratio term." }),
});
