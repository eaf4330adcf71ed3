/** Shortens the texts of a group. */

import type { Message } from "../../core/chat.ts";
import type { Group } from "../trajectory/group.ts";

/**
 * A copy in which every text of messages, turns, calls and results has at most `max_chars` characters; 0 is no limit.
 */
export function capTexts(group: Group, max_chars: number): Group {
  if (max_chars === 0) return group;
  const cap = (text: string) => capText(text, max_chars);
  return {
    ...group,
    task: capValues(group.task, max_chars),
    prompt_messages: group.prompt_messages.map((message) => capMessage(message, max_chars)),
    members: group.members.map((member) => ({
      ...member,
      messages: member.messages.map((message) => capMessage(message, max_chars)),
      turns: member.turns.map((turn) => ({
        ...turn,
        text: cap(turn.text),
        calls: turn.calls.map((call) => ({
          ...call,
          arguments: capValues(call.arguments, max_chars),
          text: call.text === null ? null : cap(call.text),
          result: call.result === null ? null : cap(call.result),
        })),
      })),
      assessment: member.assessment &&
        { ...member.assessment, explanation: cap(member.assessment.explanation) },
      verification: member.verification &&
        { ...member.verification, output: cap(member.verification.output) },
    })),
  };
}

/** Roles, names and ids are not cut: they identify the texts. */
function capMessage(message: Message, max_chars: number): Message {
  const { content, reasoning_content, tool_calls } = message;
  return {
    ...message,
    content: capText(content, max_chars),
    ...(reasoning_content !== undefined && { reasoning_content: capText(reasoning_content, max_chars) }),
    ...(tool_calls && {
      tool_calls: tool_calls.map((call) => ({
        ...call,
        function: { ...call.function, arguments: capValues(call.function.arguments, max_chars) },
      })),
    }),
  };
}

/** Cuts every string in plain data, but not field names. */
function capValues<T>(value: T, max_chars: number): T {
  if (typeof value === "string") return capText(value, max_chars) as T;
  if (Array.isArray(value)) return value.map((item) => capValues(item, max_chars)) as T;
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [key, capValues(item, max_chars)]),
  ) as T;
}

/** The first `max_chars` characters, and the number of missing ones. */
export function capText(text: string, max_chars: number): string {
  if (text.length <= max_chars) return text;
  const cut = text.slice(0, max_chars).toWellFormed();
  return `${cut}… [${text.length - max_chars} more characters]`;
}
