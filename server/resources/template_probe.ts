/** The template probe as the API shows it (contract §6). */

import { z } from "zod";
import { TEXTS } from "../../config/text/text_kinds.ts";
import { TOOL_CALL_FORMATS } from "../../core/chat.ts";

export const templateProbeSchema = z.strictObject({
  prefix_stable: z.boolean().meta({
    description: "Whether the render of n + 1 messages extends the render of n, with tools and without.",
  }),
  tool_loop_stable: z.boolean().meta({
    description: "The same within one question: calls and results only.",
  }),
  keeps_thinking: z.boolean().nullable().meta({
    description: "Whether the thinking of earlier turns stays; null when the template renders none.",
  }),
  bos_count: z.int().gte(0).meta({ description: "Begin tokens in a prompt; more than 1 is an error." }),
  tool_call_format: z.enum(TOOL_CALL_FORMATS),
  tool_call_round_trip: z.boolean().meta({ description: "Whether a rendered call is parsed as it was." }),
  turn_end: z.string().nullable().meta({
    description: "The token that ends a turn; null when a model could never learn to stop.",
    ...TEXTS.data,
  }),
  problems: z.array(z.string()).meta({ description: "The failures of the template." }),
}).meta({ id: "TemplateProbe" });
