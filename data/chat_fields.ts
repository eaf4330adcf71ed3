/** Fields that rows of chats have in common: messages and tools in the forms of OpenAI, MCP and TRL's datasets. */

import { z } from "zod";
import { openAiTool, type ToolDefinition } from "../core/chat.ts";
import {
  anyObject,
  chatMessageSchema,
  chatToolCallSchema,
  mcpToolSchema,
  toolSchema,
} from "../core/chat_schema.ts";
import { parseJson } from "../core/json.ts";

/** Datasets have more fields, and null for absent ones. */
const call = chatToolCallSchema.loose().omit({ type: true }).extend({
  id: z.string().nullish(),
  function: chatToolCallSchema.shape.function.loose().extend({
    name: z.string().min(1),
    arguments: z.union([z.string(), anyObject]),
  }),
});

/** One or more messages, as `ChatMessage`. */
export const messagesField = z.array(
  chatMessageSchema.loose().extend({
    tool_calls: z.array(call).nullish(),
    tool_call_id: z.string().nullish(),
    name: z.string().nullish(),
  }),
).min(1);

const toolsField = z.array(z.union([
  toolSchema.loose().extend({ function: toolSchema.shape.function.loose() }),
  mcpToolSchema.loose(),
]));

const toolsSchema = z.object({ tools: toolsField.nullish() });

/** The tools of a row, or the problem with them. */
export function readTools(
  row: Record<string, unknown>,
): { tools: ToolDefinition[]; issue: null } | { tools: null; issue: z.core.$ZodIssue } {
  const listed = toolsSchema.safeParse({ tools: row.tools });
  if (!listed.success) return { tools: null, issue: listed.error.issues[0]! };
  const tools = (listed.data.tools ?? []).map((tool) => openAiTool(tool as ToolDefinition));
  return { tools, issue: null };
}

/** Parses a row's tools when they are JSON text, as in TRL's datasets. */
export function withParsedTools(row: Record<string, unknown>): Record<string, unknown> {
  if (typeof row.tools !== "string") return row;
  try {
    return { ...row, tools: parseJson(row.tools) };
  } catch {
    return row;
  }
}
