/** `[preference]` */

import { z } from "zod";
import {
  lossesWith,
  PREFERENCE_LOSS_NAMES,
  PREFERENCE_LOSSES,
  type PreferenceLoss,
} from "../../core/preference_loss.ts";
import { number, text } from "./fields.ts";

const DEFAULT_LOSS: PreferenceLoss = "dpo";

const { beta: usual_beta } = PREFERENCE_LOSSES[DEFAULT_LOSS];
const other_betas = PREFERENCE_LOSS_NAMES.map((name) => ({ name, ...PREFERENCE_LOSSES[name] }))
  .filter(({ beta }) => beta !== usual_beta).map(({ name, beta }) => `${beta} for ${name}, else `);

export const preferenceSchema = z.strictObject({
  data: text().meta({
    description: "JSONL of {prompt, chosen, rejected, tools?} a line, texts or messages.",
    path: "input",
  }),
  loss: z.enum(PREFERENCE_LOSS_NAMES).default(DEFAULT_LOSS).meta({ description: "The pair loss." }),
  beta: number("preference.beta").optional().meta({
    description: "Factor of the log-ratio.",
    rule: `${other_betas.join("")}${usual_beta}`,
    example: usual_beta,
  }),
  gamma: number("preference.gamma").default(1).meta({
    description: `Margin of ${lossesWith("has_margin").join(", ")}.`,
  }),
  lambda: number("preference.lambda").default(0.1).meta({
    description: `Weight of the preference term of ${
      lossesWith("has_sft_term").join(", ")
    }, which has an SFT term too.`,
  }),
});
