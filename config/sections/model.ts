/** `[model]` */

import { z } from "zod";
import { WEBGPU_PROVIDERS } from "../../core/webgpu_providers.ts";
import { text } from "./fields.ts";

export const modelSchema = z.strictObject({
  path: text().meta({ description: "The base model, a GGUF file.", path: "input" }),
  device: z.enum(["auto", "gpu", "software"]).default("auto").meta({
    description: "Where the model runs; auto: a GPU if there is one, else a software adapter with a warning.",
  }),
  webgpu: z.enum(["auto", ...WEBGPU_PROVIDERS]).default("auto").meta({
    description:
      "WebGPU implementation; auto: dawn on a GPU where its library is installed and computes what it should, else deno.",
  }),
  compute: z.enum(["auto", "f32", "f16"]).default("auto").meta({
    description:
      "Type of matmul operands; f16 needs shader-f16. auto: f32 on a software adapter, else f16 where the device has it.",
  }),
  kv: z.enum(["auto", "f32", "f16"]).default("auto").meta({
    description: "Type of cached keys and values; auto: as compute.",
  }),
  chat_template: text().optional().meta({
    description: "A Jinja file that replaces the chat template of the model file.",
    rule: "the template in the model file",
    example: "template.jinja",
    path: "input",
  }),
});
