/**
 * Mistral: `[TOOL_CALLS]` and a list of `{"name", "arguments", "id"}`, at the end of the turn. Its templates take ids of
 * nine letters and digits only.
 */

import { createHash } from "node:crypto";
import type { Message } from "../../../core/chat.ts";
import { type ParsedText, readCall, readJson, type ToolCallFormat } from "../tool_call_format.ts";

const OPEN = "[TOOL_CALLS]";

const ID_CHARS = 9;
const ID = new RegExp(`^[a-zA-Z0-9]{${ID_CHARS}}$`);

export const mistral = {
  isIn: (rendered) => /\[TOOL_CALLS\]\s*\[/.test(rendered),
  syntax: { begins: [OPEN], place: "anywhere", end: null, needs_tools: false, parse },
} satisfies ToolCallFormat;

function parse(text: string): ParsedText {
  const open = text.indexOf(OPEN);
  if (open < 0) return { content: text.trim(), calls: [], malformed: [] };
  const content = text.slice(0, open).trim(), calls = readList(text.slice(open + OPEN.length));
  if (!("reason" in calls)) return { content, calls, malformed: [] };
  return { content, calls: [], malformed: [{ index: 0, text: text.slice(open), reason: calls.reason }] };
}

/** A list is read as a whole: one wrong call makes all of it malformed. */
function readList(text: string): ParsedText["calls"] | { reason: string } {
  const read = readJson(text);
  if ("reason" in read) return { reason: `${read.reason}; ${OPEN} and a list of calls end the turn` };
  const { value } = read;
  if (!Array.isArray(value)) return { reason: `${OPEN} is not followed by a JSON list` };
  if (value.length === 0) return { reason: `the list after ${OPEN} has no call` };
  const calls: ParsedText["calls"] = [];
  for (const [i, each] of value.entries()) {
    const call = readCall(each, "arguments");
    if ("reason" in call) {
      return { reason: value.length > 1 ? `call ${i + 1} of the list: ${call.reason}` : call.reason };
    }
    calls.push({ id: `call_${i}`, ...call });
  }
  return calls;
}

/** Whether a template writes calls in this format. */
export function writesMistralCalls(source: string): boolean {
  return source.includes(OPEN);
}

/** Messages with ids that the templates take. Equal ids stay equal, so that a result still names its call. */
export function withMistralIds(messages: readonly Message[]): Message[] {
  return messages.map(({ tool_calls, tool_call_id, ...message }) => ({
    ...message,
    ...(tool_calls && { tool_calls: tool_calls.map((call) => ({ ...call, ...idOf("id", call.id) })) }),
    ...idOf("tool_call_id", tool_call_id),
  }));
}

function idOf<K extends string>(key: K, id: string | undefined): { [key in K]?: string } {
  if (id === undefined) return {};
  const short = ID.test(id) ? id : createHash("sha256").update(id).digest("hex").slice(0, ID_CHARS);
  return { [key]: short } as { [key in K]: string };
}
