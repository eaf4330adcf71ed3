/** `[output]` */

import { z } from "zod";
import { text } from "./fields.ts";

export const outputSchema = z.strictObject({
  path: text().optional().meta({
    description: "The adapter that output.adapter chooses, a GGUF file that llama.cpp loads with --lora.",
    rule: '"adapter.gguf" in run.directory',
    example: "adapter.gguf",
    path: "output",
  }),
  adapter: z.enum(["last", "best"]).default("last").meta({
    description:
      "Which adapter is written to path: the last update's, or the best evaluated one's; the other is written beside it.",
  }),
  peft_dir: text().optional().meta({
    description:
      "Folder for the same adapter in PEFT's form. It names the base model by the repository or name in the model file's metadata.",
    rule: "not written",
    example: "adapter_peft",
    path: "output",
  }),
});
