/** Fields that rows of chats have in common: messages and tools in the forms of OpenAI, MCP and TRL's datasets. */

import { z } from "zod";
import { openAiTool, type ToolDefinition } from "../core/chat.ts";
import { chatMessageSchema, toolCallSchema } from "../core/chat_schema.ts";
import { parseJson } from "../core/json.ts";

/** Datasets have more fields, and null for absent ones. */
const call = toolCallSchema.loose().omit({ type: true }).extend({
  id: z.string().nullish(),
  function: toolCallSchema.shape.function.loose().extend({
    name: z.string().min(1),
    arguments: z.union([z.string(), z.record(z.string(), z.json())]),
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

const definition = { name: z.string().min(1), description: z.string().optional() };

const toolsField = z.array(z.union([
  z.looseObject({
    type: z.literal("function"),
    function: z.looseObject({ ...definition, parameters: z.record(z.string(), z.json()).optional() }),
  }),
  z.looseObject({ ...definition, inputSchema: z.record(z.string(), z.json()).optional() }),
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
