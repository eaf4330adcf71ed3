/** Conversations and tools as plain data, in the OpenAI form. */

import { ServiceError } from "./errors.ts";
import { isJsonObject, parseJson } from "./json.ts";

/** The roles of a conversation. */
export const ROLES = ["system", "user", "assistant", "tool"] as const;
type Role = typeof ROLES[number];

/** A JSON Schema. Key order is kept, because the prompt's text depends on it. */
export type JsonSchema = { [key: string]: unknown };

/** A tool call in a message from outside: `arguments` may be JSON text, as in OpenAI's API. */
export interface ChatToolCall {
  id?: string;
  type?: "function";
  function: { name: string; arguments: Record<string, unknown> | string };
}

/** A message from outside, such as a data file or a request. */
export interface ChatMessage {
  role: Role;
  content?: string | null;
  /** Thinking before the content. */
  reasoning_content?: string | null;
  tool_calls?: readonly ChatToolCall[] | null;
  /** In a tool's message: the id of the call that it answers, and the tool's name. */
  tool_call_id?: string;
  name?: string;
}

/** A tool call of a {@link Message}. */
export interface MessageToolCall {
  id?: string;
  type: "function";
  function: { name: string; arguments: Record<string, unknown> };
}

/** A message in this program's form: content is text, arguments are objects, absent fields are left out. */
export interface Message {
  role: Role;
  content: string;
  /** Thinking before the content. */
  reasoning_content?: string;
  tool_calls?: MessageToolCall[];
  /** In a tool's message: the id of the call that it answers, and the tool's name. */
  tool_call_id?: string;
  name?: string;
}

/** A well-formed call in a model's turn. */
export interface ToolCall {
  id: string;
  name: string;
  arguments: Record<string, unknown>;
}

/** A call in a model's turn that cannot be executed. */
export interface MalformedCall {
  /** Position among all calls of the turn, including well-formed ones. */
  index: number;
  text: string;
  /** The error, as a message for the model. */
  reason: string;
}

/** The contents of a model's turn, without the tokens that frame it. */
export interface ParsedTurn {
  /** Thinking before the answer; null when there is none. */
  reasoning: string | null;
  /** The text around the calls. */
  content: string;
  calls: ToolCall[];
  malformed: MalformedCall[];
}

/** The description of a tool that a model sees. */
export interface ToolFunction {
  name: string;
  description: string;
  parameters: JsonSchema;
}

/** A tool in the OpenAI form. Key order is kept, because the prompt's text depends on it. */
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

/** Converts a tool of either form to the OpenAI form. */
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
 * Converts messages to this program's form: missing content becomes "", arguments become objects.
 *
 * @throws {ServiceError} `data_invalid` when a call's arguments are not a JSON object; the error names the message.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * const [call] = normalizeMessages([{
 *   role: "assistant",
 *   tool_calls: [{ function: { name: "read_file", arguments: '{"path": "a.txt"}' } }],
 * }]);
 * assert.equal(call!.content, "");
 * assert.deepEqual(call!.tool_calls![0]!.function.arguments, { path: "a.txt" });
 * ```
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

/** A call with its arguments as JSON text, as OpenAI's API has them. */
export interface OpenAiToolCall extends ChatToolCall {
  type: "function";
  function: { name: string; arguments: string };
}

/** A message in the OpenAI form. */
export interface OpenAiMessage extends ChatMessage {
  tool_calls?: OpenAiToolCall[];
}

/**
 * Converts messages to the OpenAI form: the arguments of calls become JSON text. Other fields stay as they are.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * const call = { type: "function" as const, function: { name: "read_file", arguments: { path: "a.txt" } } };
 * const [message] = openAiMessages([{ role: "assistant", content: "", tool_calls: [call] }]);
 * assert.equal(message!.tool_calls![0]!.function.arguments, '{"path":"a.txt"}');
 * ```
 */
export function openAiMessages(messages: readonly ChatMessage[]): OpenAiMessage[] {
  return messages.map(({ tool_calls, ...message }) => ({
    ...message,
    ...(tool_calls && {
      tool_calls: tool_calls.map(({ function: { name, arguments: given }, ...call }) => ({
        ...call,
        type: "function" as const,
        function: { name, arguments: typeof given === "string" ? given : JSON.stringify(given) },
      })),
    }),
  }));
}

/** The arguments of a call as an object; null when they are none. Blank text is no arguments. */
export function callArguments(given: unknown): Record<string, unknown> | null {
  let value = given;
  if (typeof given === "string") {
    try {
      value = given.trim() === "" ? {} : parseJson(given);
    } catch {
      return null;
    }
  }
  return isJsonObject(value) ? value : null;
}

function argumentsObject(called: ChatToolCall["function"], message: number): Record<string, unknown> {
  const object = callArguments(called.arguments);
  if (object) return object;
  throw new ServiceError(
    "data_invalid",
    `Cannot render message ${message}: the arguments of its call of ${called.name} are no JSON object`,
    { message },
  );
}

/** How a chat template writes tool calls: `<tool_call>` tags, Llama 3's JSON, Mistral's `[TOOL_CALLS]`, or not at all. */
export const TOOL_CALL_FORMATS = ["hermes", "llama3_json", "mistral", "none"] as const;
/** One of {@link TOOL_CALL_FORMATS}. */
export type ToolCallFormatName = typeof TOOL_CALL_FORMATS[number];
