/** `[output]` */

import { z } from "zod";
import { text } from "./fields.ts";

export const outputSchema = z.strictObject({
  path: text().optional().meta({
    description: "The trained adapter, a GGUF file as llama.cpp loads with --lora.",
    rule: '"adapter.gguf" in run.directory',
    path: "output",
  }),
  peft_dir: text().optional().meta({
    description: "Folder for the same adapter in PEFT's form.",
    rule: "not written",
    path: "output",
  }),
});
