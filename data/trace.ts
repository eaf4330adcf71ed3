/** Traces to learn from: a conversation, a prompt with its completion, or plain text, one JSON object a line. */

import { z } from "zod";
import { describeIssue } from "../config/data_issues.ts";
import { type ChatMessage, openAiTool, ROLES, type ToolDefinition } from "../core/chat.ts";
import { ServiceError } from "../core/errors.ts";
import { parseJson } from "../core/json.ts";
import { type JsonLine, parseObject } from "./jsonl.ts";

const call = z.looseObject({
  id: z.string().nullish(),
  function: z.looseObject({
    name: z.string().min(1),
    arguments: z.union([z.string(), z.record(z.string(), z.json())]),
  }),
});

const messages = z.array(z.looseObject({
  role: z.enum(ROLES),
  content: z.string().nullish(),
  reasoning_content: z.string().nullish(),
  tool_calls: z.array(call).nullish(),
  tool_call_id: z.string().nullish(),
  name: z.string().nullish(),
})).min(1);

const definition = { name: z.string().min(1), description: z.string().optional() };
const tools = z.array(z.union([
  z.looseObject({
    type: z.literal("function"),
    function: z.looseObject({ ...definition, parameters: z.record(z.string(), z.json()).optional() }),
  }),
  z.looseObject({ ...definition, inputSchema: z.record(z.string(), z.json()).optional() }),
]));

const toolsSchema = z.object({ tools: tools.nullish() });

const rowSchema = z.union([
  z.looseObject({ messages }),
  z.looseObject({ prompt: z.string(), completion: z.string() }),
  z.looseObject({ prompt: messages, completion: messages }),
  z.looseObject({ text: z.string().min(1) }),
], { error: "expected {messages}, {prompt, completion} or {text}" });

export type TraceContent =
  | { messages: ChatMessage[] }
  | { prompt: string; completion: string }
  | { prompt: ChatMessage[]; completion: ChatMessage[] }
  | { text: string };

export interface Trace {
  content: TraceContent;
  tools: ToolDefinition[];
}

/** @throws {ServiceError} `data_invalid` with file and line. */
export function parseTrace(path: string, line: JsonLine): Trace {
  const value = withParsedTools(parseObject(path, line));
  const parsed = rowSchema.safeParse(value);
  const listed = toolsSchema.safeParse({ tools: value.tools });
  const issue = parsed.error?.issues[0] ?? listed.error?.issues[0];
  if (issue) {
    const message = `Cannot read ${path}:${line.line}: ${describe(value, issue)}`;
    throw new ServiceError("data_invalid", message, { path, line: line.line });
  }
  const tools = (listed.data?.tools ?? []).map((tool) => openAiTool(tool as ToolDefinition));
  return { content: parsed.data as TraceContent, tools };
}

/** The tools of TRL's datasets are JSON text. */
function withParsedTools(value: Record<string, unknown>): Record<string, unknown> {
  if (typeof value.tools !== "string") return value;
  try {
    return { ...value, tools: parseJson(value.tools) };
  } catch {
    return value;
  }
}

/** The issue of the form that the row means to have, where its keys tell. */
function describe(value: Record<string, unknown>, issue: z.core.$ZodIssue): string {
  if (issue.path.length > 0 || issue.code !== "invalid_union") return describeIssue(issue, value);
  const first = "messages" in value ? issue.errors[0]?.[0] : undefined;
  return first ? describeIssue(first, value) : issue.message;
}
