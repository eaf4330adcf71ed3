/** A group as a judge sees it: what all attempts share, and each distinct attempt once. */

import type { Message, ToolFunction } from "../../core/chat.ts";
import { Rng, type RngKey } from "../../core/random.ts";

/** An attempt to be judged. */
export interface JudgedAttempt {
  messages: readonly Message[];
  /** What the judge sees in place of the messages: any JSON value; null: the environment offers nothing. */
  state: unknown;
}

/** A group of attempts, and what the judge must know of their task. */
export interface JudgedGroup {
  /** Null: the default rubric. */
  rubric: string | null;
  tools: readonly ToolFunction[];
  attempts: readonly JudgedAttempt[];
}

/** A message as the judge sees it: without the ids of calls, and with arguments as JSON text. */
export interface SeenMessage {
  role: Message["role"];
  name?: string;
  reasoning?: string;
  content: string;
  tool_calls?: { name: string; arguments: string }[];
}

/** A distinct attempt: the messages after the context, or the final state in their place. */
export type SeenAttempt = { messages: SeenMessage[] } | { final_state: unknown };

/** A group as the judge sees it, before anything is shortened. */
export interface SeenGroup {
  /** The messages with which all attempts begin. */
  context: SeenMessage[];
  /** In the order of the first of each. */
  distinct: SeenAttempt[];
  /** For each attempt, its place in `distinct`. */
  place: number[];
}

/** Finds what the attempts share, and which of them are equal. */
export function seenGroup(attempts: readonly JudgedAttempt[]): SeenGroup {
  const place_of = new Map<string, number>(), kept: { messages: SeenMessage[]; state: unknown }[] = [];
  const place = attempts.map(({ messages, state }) => {
    const seen = messages.map(seenMessage);
    const identity = JSON.stringify(state === null ? { seen } : { state });
    const known = place_of.get(identity);
    if (known !== undefined) return known;
    place_of.set(identity, kept.length);
    return kept.push({ messages: seen, state }) - 1;
  });
  const shared = sharedLength(kept.map(({ messages }) => messages), kept.some(({ state }) => state !== null));
  return {
    context: kept[0]?.messages.slice(0, shared) ?? [],
    distinct: kept.map(({ messages, state }) =>
      state === null ? { messages: messages.slice(shared) } : { final_state: state }
    ),
    place,
  };
}

function seenMessage({ role, name, content, reasoning_content, tool_calls }: Message): SeenMessage {
  return {
    role,
    ...(name !== undefined && { name }),
    ...(reasoning_content !== undefined && { reasoning: reasoning_content }),
    content,
    ...(tool_calls && {
      tool_calls: tool_calls.map(({ function: called }) => ({
        name: called.name,
        arguments: JSON.stringify(called.arguments),
      })),
    }),
  };
}

/** The number of leading messages that all attempts share. Each attempt keeps at least its last message. */
function sharedLength(attempts: readonly SeenMessage[][], has_state: boolean): number {
  const [first = [], ...others] = attempts.map((messages) =>
    messages.map((message) => JSON.stringify(message))
  );
  const most = Math.min(...[first, ...others].map(({ length }) => length)) - 1;
  let shared = 0;
  // Where states stand in place of transcripts, what an attempt did is no context of the others.
  const isContext = (i: number) => !has_state || attempts[0]![i]!.role !== "assistant";
  while (shared < most && isContext(shared) && others.every((other) => other[shared] === first[shared])) {
    shared++;
  }
  return Math.max(0, shared);
}

/** The order in which distinct attempts are shown. */
export function shownOrder(count: number, key: RngKey | null): number[] {
  const places = Array.from({ length: count }, (_, i) => i);
  return key === null ? places : new Rng(key).shuffle(places);
}
