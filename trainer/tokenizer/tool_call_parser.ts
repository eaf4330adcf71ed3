/** Splits a turn of a model into thinking, content and tool calls. */

import type { ParsedTurn, ToolCallFormatName } from "../../core/chat.ts";
import { splitThinking } from "./thinking.ts";
import type { CallSyntax } from "./tool_call_format.ts";
import { callSyntax } from "./tool_calls/registry.ts";

/**
 * Splits a turn's text (without the end token) into thinking, content and calls. Calls inside the thinking are ignored.
 * Never throws: text that is not a valid call is content or malformed.
 *
 * @param how.has_tools Whether the model has tools.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * const call = '<tool_call>\n{"name": "read_file", "arguments": {"path": "a.txt"}}\n</tool_call>';
 * const how = { format: "hermes", has_tools: true } as const;
 * const { content, calls, malformed } = parseToolCalls(`I look at it.\n${call}`, how);
 * assert.equal(content, "I look at it.");
 * assert.deepEqual(calls, [{ id: "call_0", name: "read_file", arguments: { path: "a.txt" } }]);
 * assert.deepEqual(malformed, []);
 * ```
 */
export function parseToolCalls(
  text: string,
  how: { format: ToolCallFormatName; has_tools: boolean },
): ParsedTurn {
  const syntax = callSyntax(how.format), has_calls = how.has_tools || !syntax.needs_tools;
  const { reasoning, rest } = splitThinking(text, (before) => has_calls && beginsCall(before, syntax));
  if (!has_calls) return { reasoning, content: rest.trim(), calls: [], malformed: [] };
  return { reasoning, ...syntax.parse(rest) };
}

function beginsCall(text: string, { begins, place }: CallSyntax): boolean {
  const start = text.trimStart();
  return begins.some((begin) => place === "anywhere" ? text.includes(begin) : start.startsWith(begin));
}
