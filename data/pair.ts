/** Preference pairs: a prompt with a chosen and a rejected completion, one JSON object a line. */

import { z } from "zod";
import { describeIssue } from "../config/check/data_issues.ts";
import type { ChatMessage, ToolDefinition } from "../core/chat.ts";
import { ServiceError } from "../core/errors.ts";
import { messagesField, readTools, withParsedTools } from "./chat_fields.ts";
import { type JsonLine, parseObject } from "./jsonl.ts";

const rowSchema = z.union([
  z.looseObject({ prompt: z.string(), chosen: z.string(), rejected: z.string() }),
  z.looseObject({ prompt: messagesField, chosen: messagesField, rejected: messagesField }),
  z.looseObject({ prompt: z.null().optional(), chosen: messagesField, rejected: messagesField }),
], {
  error: "expected {prompt, chosen, rejected}, all texts or all messages, or {chosen, rejected} of messages",
});

/** The completions of a pair, by the names of their fields: the chosen one first. */
export const COMPLETIONS = ["chosen", "rejected"] as const;

/** One of {@link COMPLETIONS}. */
export type CompletionName = typeof COMPLETIONS[number];

/** Both completions and their prompt: texts, or messages. */
type PairContent =
  | { prompt: string; chosen: string; rejected: string }
  | { prompt: ChatMessage[]; chosen: ChatMessage[]; rejected: ChatMessage[] };

/** A row of a file of pairs. */
export interface Pair {
  content: PairContent;
  tools: ToolDefinition[];
}

/**
 * Parses a row. Without a prompt, the messages that both completions start with are the prompt.
 *
 * @throws {ServiceError} `data_invalid` with file and line.
 */
export function parsePair(path: string, line: JsonLine): Pair {
  return pairOf(parseObject(path, line), { path, line: line.line });
}

/**
 * Like {@link parsePair}, for a row's object.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * const user = { role: "user", content: "Write 17 + 25." };
 * const assistant = (content) => ({ role: "assistant", content });
 * const row = { chosen: [user, assistant("42")], rejected: [user, assistant("32")] };
 * const { content } = pairOf(row, { path: "pairs.jsonl", line: 1 });
 * assert.deepEqual(content, { prompt: [user], chosen: [assistant("42")], rejected: [assistant("32")] });
 * ```
 */
export function pairOf(row_object: Record<string, unknown>, place: { path: string; line: number }): Pair {
  const value = withParsedTools(row_object);
  const parsed = rowSchema.safeParse(value), listed = readTools(value);
  const issue = parsed.error?.issues[0] ?? listed.issue;
  const refuse = (reason: string): never => {
    const message = `Cannot read ${place.path}:${place.line}: ${reason}`;
    throw new ServiceError("data_invalid", message, place);
  };
  if (issue) return refuse(describeIssue(issue, value));
  const row = parsed.data!;
  const content = row.prompt === undefined || row.prompt === null
    ? withoutCommonPrompt(row as { chosen: ChatMessage[]; rejected: ChatMessage[] })
    : row as PairContent;
  for (const completion of COMPLETIONS) {
    if (content[completion].length === 0) refuse(`${completion}: has nothing after the prompt`);
  }
  return { content, tools: listed.tools! };
}

function withoutCommonPrompt(
  { chosen, rejected }: { chosen: ChatMessage[]; rejected: ChatMessage[] },
): PairContent {
  const differs = chosen.findIndex((message, i) => JSON.stringify(message) !== JSON.stringify(rejected[i]));
  const length = differs < 0 ? chosen.length : differs;
  return {
    prompt: chosen.slice(0, length),
    chosen: chosen.slice(length),
    rejected: rejected.slice(length),
  };
}
