/** Conversations and tools as plain data, in the OpenAI form, and as templates want them. */

import { ServiceError } from "../../core/errors.ts";
import { parseJson } from "../../core/json.ts";

export const ROLES = ["system", "user", "assistant", "tool"] as const;
export type Role = typeof ROLES[number];

/** A call that an assistant message makes. `arguments` may be JSON text, as OpenAI's servers give it. */
export interface MessageToolCall {
  id?: string;
  type?: "function";
  function: { name: string; arguments: Record<string, unknown> | string };
}

/** A message of a conversation. */
export interface ChatMessage {
  role: Role;
  content?: string | null;
  /** Thinking that preceded the content. */
  reasoning_content?: string | null;
  tool_calls?: readonly MessageToolCall[] | null;
  /** Of a tool's message: which call it answers, and the tool. */
  tool_call_id?: string;
  name?: string;
}

/** A tool in the OpenAI form; keys stay in their order, because the text of a prompt depends on it. */
export interface ToolDefinition {
  type: "function";
  function: { name: string; description?: string; parameters?: Readonly<Record<string, unknown>> };
}

/** A tool in the form of the Model Context Protocol. */
export interface McpToolDefinition {
  name: string;
  description?: string;
  inputSchema?: Readonly<Record<string, unknown>>;
}

/** A message as a template sees it: content is a string, arguments are objects, absent fields are absent. */
export interface TemplateMessage {
  role: string;
  content: string;
  reasoning_content?: string;
  tool_calls?: {
    id?: string;
    type: "function";
    function: { name: string; arguments: Record<string, unknown> };
  }[];
  tool_call_id?: string;
  name?: string;
}

/** A tool of either form in the OpenAI form. */
export function openAiTool(tool: ToolDefinition | McpToolDefinition): ToolDefinition {
  if ("function" in tool) return tool;
  const { name, description, inputSchema } = tool;
  return {
    type: "function",
    function: {
      name,
      ...description === undefined ? {} : { description },
      parameters: inputSchema ?? { type: "object", properties: {} },
    },
  };
}

/**
 * Messages as a template wants them: no content becomes "", arguments become objects.
 *
 * @throws {ServiceError} `data_invalid` when a call's arguments are no JSON object; it names the message.
 */
export function templateMessages(messages: readonly ChatMessage[]): TemplateMessage[] {
  return messages.map((message, i) => {
    const { role, content, reasoning_content, tool_calls, tool_call_id, name } = message;
    return {
      role,
      content: content ?? "",
      ...typeof reasoning_content === "string" ? { reasoning_content } : {},
      ...tool_calls && tool_calls.length > 0
        ? { tool_calls: tool_calls.map((call) => templateCall(call, i)) }
        : {},
      ...tool_call_id === undefined ? {} : { tool_call_id },
      ...name === undefined ? {} : { name },
    };
  });
}

function templateCall({ id, function: called }: MessageToolCall, message: number) {
  return {
    ...id === undefined ? {} : { id },
    type: "function" as const,
    function: { name: called.name, arguments: argumentsObject(called, message) },
  };
}

function argumentsObject(called: MessageToolCall["function"], message: number): Record<string, unknown> {
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
