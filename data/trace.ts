/** Training examples: a conversation, a prompt with its completion, or plain text, one JSON object a line. */

import { z } from "zod";
import { describeIssue } from "../config/check/data_issues.ts";
import type { ChatMessage, ToolDefinition } from "../core/chat.ts";
import { ServiceError } from "../core/errors.ts";
import { messagesField, readTools, withParsedTools } from "./chat_fields.ts";
import { type JsonLine, parseObject } from "./jsonl.ts";

const rowSchema = z.union([
  z.looseObject({ messages: messagesField }),
  z.looseObject({ prompt: z.string(), completion: z.string() }),
  z.looseObject({ prompt: messagesField, completion: messagesField }),
  z.looseObject({ text: z.string().min(1) }),
], { error: "expected {messages}, {prompt, completion} or {text}" });

type TraceContent =
  | { messages: ChatMessage[] }
  | { prompt: string; completion: string }
  | { prompt: ChatMessage[]; completion: ChatMessage[] }
  | { text: string };

/** One training example: the conversation, and the tools that were offered. */
export interface Trace {
  content: TraceContent;
  tools: ToolDefinition[];
}

/** Parses a row. @throws {ServiceError} `data_invalid` with file and line. */
export function parseTrace(path: string, line: JsonLine): Trace {
  return traceOf(parseObject(path, line), { path, line: line.line });
}

/**
 * Parses a row's object.
 *
 * @throws {ServiceError} `data_invalid` with file and line.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * const place = { path: "traces.jsonl", line: 3 };
 * const { content, tools } = traceOf({ prompt: "17 + 25 = ", completion: "42" }, place);
 * assert.deepEqual([content.completion, tools], ["42", []]);
 * assert.throws(() => traceOf({ prompt: "17 + 25 = " }, place), /Cannot read traces\.jsonl:3: /);
 * ```
 */
export function traceOf(row: Record<string, unknown>, place: { path: string; line: number }): Trace {
  const value = withParsedTools(row);
  const parsed = rowSchema.safeParse(value);
  const listed = readTools(value);
  const issue = parsed.error?.issues[0] ?? listed.issue, content = parsed.data as TraceContent;
  const reason = issue ? describe(value, issue) : hasTurn(content) ? null : NO_TURN;
  if (reason !== null) {
    throw new ServiceError("data_invalid", `Cannot read ${place.path}:${place.line}: ${reason}`, place);
  }
  return { content, tools: listed.tools! };
}

const NO_TURN = "a conversation without an assistant message has nothing to train";

/** Whether an example of messages has one that training can train. */
function hasTurn(content: TraceContent): boolean {
  const trained = "messages" in content
    ? content.messages
    : "completion" in content
    ? content.completion
    : "";
  return typeof trained === "string" || trained.some(({ role }) => role === "assistant");
}

/** The problem in the form that the row's keys suggest, when they suggest one. */
function describe(value: Record<string, unknown>, issue: z.core.$ZodIssue): string {
  if (issue.path.length > 0 || issue.code !== "invalid_union") return describeIssue(issue, value);
  const first = "messages" in value ? issue.errors[0]?.[0] : undefined;
  return first ? describeIssue(first, value) : issue.message;
}
