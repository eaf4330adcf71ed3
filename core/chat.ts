/** Conversations and tools as plain data, in the OpenAI form. */

import { ServiceError } from "./errors.ts";
import { parseJson } from "./json.ts";

/** Who can speak in a conversation. */
export const ROLES = ["system", "user", "assistant", "tool"] as const;
export type Role = typeof ROLES[number];

/** A JSON Schema; key order is kept, because the prompt's text depends on it. */
export type JsonSchema = { [key: string]: unknown };

/** A call of a message that somebody else wrote: `arguments` may be JSON text, as OpenAI's servers give it. */
export interface ChatToolCall {
  id?: string;
  type?: "function";
  function: { name: string; arguments: Record<string, unknown> | string };
}

/** A message that somebody else wrote. */
export interface ChatMessage {
  role: Role;
  content?: string | null;
  /** Thinking that preceded the content. */
  reasoning_content?: string | null;
  tool_calls?: readonly ChatToolCall[] | null;
  /** Of a tool's message: which call it answers, and the tool. */
  tool_call_id?: string;
  name?: string;
}

/** A tool call of a {@link Message}. */
export interface MessageToolCall {
  id?: string;
  type: "function";
  function: { name: string; arguments: Record<string, unknown> };
}

/** A message as this program keeps and renders it: content is text, arguments are objects, absent fields are absent. */
export interface Message {
  role: Role;
  content: string;
  /** Thinking that preceded the content. */
  reasoning_content?: string;
  tool_calls?: MessageToolCall[];
  /** Of a tool's message: which call it answers, and the tool. */
  tool_call_id?: string;
  name?: string;
}

/** What a model is told of a tool. */
export interface ToolFunction {
  name: string;
  description: string;
  parameters: JsonSchema;
}

/** A tool in the OpenAI form; keys stay in their order, because the text of a prompt depends on it. */
export interface ToolDefinition {
  type: "function";
  function: Pick<ToolFunction, "name"> & Partial<ToolFunction>;
}

/** A tool in the form of the Model Context Protocol. */
export interface McpToolDefinition {
  name: string;
  description?: string;
  inputSchema?: JsonSchema;
}

/** A tool of any form in the OpenAI form. */
export function openAiTool(tool: ToolDefinition | McpToolDefinition | ToolFunction): ToolDefinition {
  if ("function" in tool) return tool;
  const { name, description } = tool;
  const parameters = "parameters" in tool ? tool.parameters : tool.inputSchema;
  return {
    type: "function",
    function: {
      name,
      ...description === undefined ? {} : { description },
      parameters: parameters ?? { type: "object", properties: {} },
    },
  };
}

/**
 * Messages as this program keeps them: no content becomes "", arguments become objects.
 *
 * @throws {ServiceError} `data_invalid` when a call's arguments are no JSON object; it names the message.
 */
export function normalizeMessages(messages: readonly ChatMessage[]): Message[] {
  return messages.map((message, i) => {
    const { role, content, reasoning_content, tool_calls, tool_call_id, name } = message;
    return {
      role,
      content: content ?? "",
      ...typeof reasoning_content === "string" ? { reasoning_content } : {},
      ...tool_calls && tool_calls.length > 0
        ? { tool_calls: tool_calls.map((call) => normalizeCall(call, i)) }
        : {},
      ...tool_call_id === undefined ? {} : { tool_call_id },
      ...name === undefined ? {} : { name },
    };
  });
}

function normalizeCall({ id, function: called }: ChatToolCall, message: number) {
  return {
    ...id === undefined ? {} : { id },
    type: "function" as const,
    function: { name: called.name, arguments: argumentsObject(called, message) },
  };
}

function argumentsObject(called: ChatToolCall["function"], message: number): Record<string, unknown> {
  let value: unknown = called.arguments;
  if (typeof value === "string") {
    try {
      value = value.trim() === "" ? {} : parseJson(value);
    } catch {
      value = null;
    }
  }
  if (typeof value === "object" && value !== null && !Array.isArray(value)) {
    return value as Record<string, unknown>;
  }
  throw new ServiceError(
    "data_invalid",
    `Cannot render message ${message}: the arguments of its call of ${called.name} are no JSON object`,
    { message },
  );
}
