/** The part of a tokenizer and chat template that rollouts use. */

import type { Message, ParsedTurn, ToolFunction } from "../../core/chat.ts";

/** How a conversation continues after the model's turn. */
export type Continuation =
  /** Keep the tokens so far: first the forced ones that close the model's turn, then the new ones. */
  | { type: "extend"; forced: number[]; tokens: number[]; origin: "tool" | "prompt" }
  /** The template may rewrite earlier turns: the full prompt, in a new fragment unless it extends the tokens so far. */
  | { type: "restart"; tokens: number[] };

/** Converts messages to tokens and turns to messages. Rollouts know nothing else of template and tokenizer. */
export interface ChatFormat {
  /** Tokens that end an assistant turn. */
  stop_tokens: number[];
  /**
   * The tokens of a conversation up to the start of the assistant's turn.
   *
   * @param max_tokens A text that must have more is refused before it is encoded, with `details.least_tokens`.
   */
  promptTokens(messages: readonly Message[], tools: readonly ToolFunction[], max_tokens?: number): number[];
  /** The text of sampled tokens, special ones included. */
  decode(tokens: readonly number[]): string;
  /** Parses the text of a turn. */
  parseTurn(text: string, tools: readonly ToolFunction[]): ParsedTurn;
  /**
   * @param messages The conversation with the model's turn and the answers to it.
   * @param turn Index of the model's turn in `messages`.
   * @param ended_by The stop token that ended the turn.
   */
  continuation(
    request: {
      messages: readonly Message[];
      turn: number;
      tools: readonly ToolFunction[];
      ended_by: number;
    },
  ): Continuation;
}
