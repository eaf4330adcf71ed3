/** The table of tool-call formats, and the choice of one for a chat template. */

import type { Message, ToolCallFormatName } from "../../../core/chat.ts";
import type { CallSyntax, ToolCallFormat } from "../tool_call_format.ts";
import { hermes } from "./hermes.ts";
import { llama3Json } from "./llama3_json.ts";
import { mistral, withMistralIds, writesMistralCalls } from "./mistral.ts";

/** All formats by name, in the order in which a template's text is compared with them: that with the most general last. */
export const FORMATS: Readonly<Record<Exclude<ToolCallFormatName, "none">, ToolCallFormat>> = {
  hermes,
  mistral,
  llama3_json: llama3Json,
};

/** The format of the text that a template renders for a turn with a call. */
export function formatOf(rendered: string): ToolCallFormatName {
  const names = Object.keys(FORMATS) as (keyof typeof FORMATS)[];
  return names.find((name) => FORMATS[name].isIn(rendered)) ?? "none";
}

/** How calls of a format are read. Where a template writes none, they are read in Hermes' form. */
export function callSyntax(format: ToolCallFormatName): CallSyntax {
  return FORMATS[format === "none" ? "hermes" : format].syntax;
}

/** Messages in the form that a template takes. @param source The template. */
export function messagesFor(source: string, messages: readonly Message[]): readonly Message[] {
  return writesMistralCalls(source) ? withMistralIds(messages) : messages;
}
