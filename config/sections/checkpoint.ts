/** `[checkpoint]` */

import { z } from "zod";
import { DEFAULT_CHECKPOINT_EVERY } from "./defaults.ts";
import { integer, text } from "./fields.ts";

export const checkpointSchema = z.strictObject({
  directory: text().optional().meta({
    description: "Folder of the checkpoints.",
    rule: '"checkpoints" in run.directory',
    example: "checkpoints",
    path: "output",
  }),
  every_updates: integer("checkpoint.every_updates").optional().meta({
    description: "Updates from one checkpoint to the next; the last update always has one.",
    rule: String(DEFAULT_CHECKPOINT_EVERY),
    example: DEFAULT_CHECKPOINT_EVERY,
  }),
  keep: integer("checkpoint.keep").default(3).meta({ description: "Number of newest checkpoints to keep." }),
  best: z.boolean().default(true).meta({ description: "Also keep the one with the best evaluation." }),
});
