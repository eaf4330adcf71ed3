/** `[metrics]` */

import { z } from "zod";
import { text } from "./fields.ts";

export const metricsSchema = z.strictObject({
  tensorboard_dir: text().optional().meta({
    description: "Folder for TensorBoard event files.",
    rule: "not written",
    path: "output",
  }),
  csv: text().optional().meta({
    description: "File for the metrics as CSV.",
    rule: "not written",
    example: "metrics.csv",
    path: "output",
  }),
});
