/** A request for an assistant's turn, and the events of its answer while it is sampled. Plain data, to cross processes. */

import type { Message, ToolDefinition } from "../../core/chat.ts";

/** The most answers to one request. */
export const MAX_CHOICES = 8;

/** A client's request, checked. */
export interface ChatRequest {
  messages: Message[];
  tools: ToolDefinition[];
  /** The number of answers, from 1 to {@link MAX_CHOICES}. */
  choices: number;
  /** Null: as many as the context has room for. */
  max_tokens: number | null;
  /** 0: the most likely token. */
  temperature: number;
  /** In (0, 1]. */
  top_p: number;
  /** A choice depends on nothing but the request, the weights, the seed and its index. */
  seed: number;
  /** Texts that end an answer; they are not part of it. */
  stop: string[];
  /** Whether an answer ends after its first tool call. */
  one_call: boolean;
  /** The JSON schema, as text, that an answer satisfies; null: any text. */
  schema: string | null;
  /** Whether the events have the tokens. */
  logprobs: boolean;
  /** Whether the client reads the answer while it is sampled. */
  stream: boolean;
}

/** `tool_calls`: a turn that ended by itself and has calls. */
export type FinishReason = "stop" | "length" | "tool_calls";

/** A tool call that is complete. */
export interface ChatCall {
  id: string;
  name: string;
  /** A JSON object. */
  arguments: string;
}

/** A sampled token as clients see it. */
export interface ChatToken {
  text: string;
  bytes: number[];
  /** The logarithm of its probability among the tokens that could be sampled. */
  logprob: number;
}

/** The parts of an answer that became certain since its last event. */
export interface ChatDelta {
  reasoning: string;
  content: string;
  calls: ChatCall[];
  /** Empty unless the request asks for them. The token that ended the turn is not among them. */
  tokens: ChatToken[];
}

/** The first event has the length of the prompt. Every choice then has deltas, and at last its finish. */
export type ChatEvent =
  | { prompt_tokens: number }
  | { choice: number; delta: ChatDelta }
  | { choice: number; finish: FinishReason; completion_tokens: number };
