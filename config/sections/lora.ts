/** `[lora]` */

import { z } from "zod";
import { LORA_TARGETS } from "../../core/lora_targets.ts";
import { algorithmsText } from "../algorithms.ts";
import { integer, number, text } from "./fields.ts";

const no_dropout = algorithmsText(({ fixed }) => Object.hasOwn(fixed, "lora.dropout"));

export const loraSchema = z.strictObject({
  rank: integer("lora.rank").default(8).meta({ description: "Rank of the two factors A and B." }),
  alpha: number("lora.alpha").default(16).meta({ description: "The update B·A is scaled by alpha / rank." }),
  targets: z.union([z.literal("all"), z.array(z.enum(LORA_TARGETS)).min(1)]).default("all").meta({
    description: `The layers that learn: "all", or a list of ${LORA_TARGETS.join(", ")}.`,
  }),
  dropout: number("lora.dropout").default(0).meta({
    description: `Share of the adapter's inputs set to zero while training; ${no_dropout} takes 0 only.`,
  }),
  seed: integer("lora.seed").optional().meta({
    description: "Seed of the adapter's initial values.",
    rule: "run.seed",
    example: 42,
  }),
  init_adapter: text().optional().meta({
    description: "An adapter to start from, in GGUF; rank, alpha and targets are then its own.",
    rule: "a new adapter, initially without effect",
    example: "start.gguf",
    path: "input",
  }),
});
