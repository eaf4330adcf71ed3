/** The texts of a group: cut to a length, or left out. */

import type { Group } from "./rollout/group.ts";
import type { Message, Trajectory } from "./rollout/trajectory.ts";

/** A copy in which every text of messages, turns, calls and results has at most `max_chars` characters; 0: all. */
export function capTexts(group: Group, max_chars: number): Group {
  if (max_chars === 0) return group;
  const cap = (value: unknown): unknown => capStrings(value, max_chars);
  return {
    ...group,
    prompt_messages: cap(group.prompt_messages) as Message[],
    members: group.members.map((member) => ({
      ...member,
      messages: cap(member.messages) as Message[],
      turns: cap(member.turns) as Trajectory["turns"],
    })),
  };
}

/** Cuts every string in plain data; names and ids are shorter than any limit that makes sense. */
function capStrings(value: unknown, max_chars: number): unknown {
  if (typeof value === "string") return capText(value, max_chars);
  if (Array.isArray(value)) return value.map((item) => capStrings(item, max_chars));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, capStrings(item, max_chars)]));
}

/** The first `max_chars` characters, and how many are missing. */
export function capText(text: string, max_chars: number): string {
  if (text.length <= max_chars) return text;
  const cut = text.slice(0, max_chars).toWellFormed();
  return `${cut}… [${text.length - max_chars} more characters]`;
}

/** A copy with rewards, advantages, reasons and timings, without messages, calls and tokens. */
export function withoutTexts(group: Group): Group {
  return {
    ...group,
    tools: [],
    prompt_messages: [],
    prompt_tokens: [],
    members: group.members.map((member) => ({
      ...member,
      messages: [],
      fragments: [],
      turns: member.turns.map((turn) => ({ ...turn, text: "", calls: [] })),
      judge: member.judge && { ...member.judge, explanation: "" },
    })),
  };
}
