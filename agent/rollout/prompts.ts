/** The prompts of a group's members. */

import type { Message } from "../../core/chat.ts";
import type { Scenario } from "../../data/scenario.ts";

/** Messages, and their tokens up to the start of the assistant's turn. */
export interface RenderedPrompt {
  messages: Message[];
  tokens: number[];
}

/** The shared prompt of all members: the system prompt with its suffix, if either exists, and the task. */
export function promptMessages(scenario: Scenario, system_suffix: string): Message[] {
  const system = (scenario.system ?? "") + system_suffix;
  const task: Message = { role: "user", content: scenario.user };
  return system ? [{ role: "system", content: system }, task] : [task];
}

/**
 * A prompt whose task is followed by a blank line and what the environment starts with: text as it is, anything else as
 * JSON.
 */
export function withObservation(prompt: readonly Message[], observation: unknown): Message[] {
  const text = (typeof observation === "string" ? observation : JSON.stringify(observation)).toWellFormed();
  const task = prompt.findIndex(({ role }) => role === "user");
  return prompt.map((message, i) =>
    i === task ? { ...message, content: `${message.content}\n\n${text}` } : message
  );
}

/**
 * What the prompts of a group's attempts have in common: the group's own one, unless their environments added to it.
 * Then it is the tokens with which all of those begin, and their messages where these are equal.
 */
export function sharedPrompt(
  prompt: RenderedPrompt,
  attempts: readonly { prompt: RenderedPrompt }[],
): RenderedPrompt {
  const own = attempts.map((attempt) => attempt.prompt).filter(({ tokens }) => tokens !== prompt.tokens);
  const [first, ...others] = own;
  if (!first) return prompt;
  const length = others.reduce(
    (kept, { tokens }) => Math.min(kept, commonPrefix(first.tokens, tokens)),
    first.tokens.length,
  );
  const is_one = length === first.tokens.length && others.every(({ tokens }) => tokens.length === length);
  return { messages: is_one ? first.messages : prompt.messages, tokens: first.tokens.slice(0, length) };
}

/** The number of tokens with which both lists begin. */
export function commonPrefix(a: readonly number[], b: readonly number[]): number {
  let n = 0;
  while (n < a.length && n < b.length && a[n] === b[n]) n++;
  return n;
}
