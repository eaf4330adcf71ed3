/** `[checkpoint]` */

import { z } from "zod";
import { integer, text } from "./fields.ts";

export const checkpointSchema = z.strictObject({
  directory: text().optional().meta({
    description: "Folder of the checkpoints.",
    rule: '"checkpoints" in run.directory',
    path: "output",
  }),
  every_updates: integer("checkpoint.every_updates").optional().meta({
    description: "Updates from one checkpoint to the next; the last update always has one.",
    rule: "10",
  }),
  keep: integer("checkpoint.keep").default(3).meta({ description: "Number of newest checkpoints to keep." }),
  best: z.boolean().default(true).meta({ description: "Also keep the one with the best evaluation." }),
});
