/** Mistral: `[TOOL_CALLS]` and a list of calls. Recognised, and not parsed. */

import type { ToolCallFormat } from "../tool_call_format.ts";

export const mistral = {
  isIn: (rendered) => rendered.includes("[TOOL_CALLS]"),
  syntax: null,
} satisfies ToolCallFormat;
