/** What rollouts need of a model's tokenizer and chat template. */

import type { Message, ToolFunction } from "../../core/chat.ts";

/** A call as it stands in the model's text. */
export type ParsedCall =
  | { type: "call"; name: string; arguments: Record<string, unknown> }
  /** `message` tells the model what is wrong. */
  | { type: "malformed"; text: string; message: string };

/** One turn of the model, taken apart. */
export interface ParsedTurn {
  /** Thinking before the answer; null when there was none. */
  reasoning: string | null;
  /** The turn without its calls and thinking. */
  content: string;
  /** In the order of the text. */
  calls: ParsedCall[];
}

/** How a conversation goes on behind the model's turn. */
export type Continuation =
  /** The tokens so far stay: first those written in the model's place to close its turn, then the new ones. */
  | { type: "extend"; forced: number[]; tokens: number[]; origin: "tool" | "prompt" }
  /** The template may rewrite earlier turns: the whole prompt, of a new fragment unless it extends what there is. */
  | { type: "restart"; tokens: number[] };

/** How messages become tokens and turns become messages: all that rollouts know of template and tokenizer. */
export interface ChatFormat {
  /** Tokens that end an assistant turn. */
  stop_tokens: number[];
  /** The tokens of a conversation up to where the assistant writes. */
  promptTokens(messages: readonly Message[], tools: readonly ToolFunction[]): number[];
  /** The text of sampled tokens, special ones included. */
  decode(tokens: readonly number[]): string;
  /** Reads the text of one turn. */
  parseTurn(text: string): ParsedTurn;
  /**
   * @param messages The conversation with the model's turn and what answers it.
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
