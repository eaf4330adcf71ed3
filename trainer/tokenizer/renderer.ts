/** Messages to token ids. What a model wrote keeps the ids it was sampled with; only what is new is encoded. */

import { type ChatMessage, normalizeMessages, type ToolDefinition } from "../../core/chat.ts";
import { ServiceError } from "../../core/errors.ts";
import type { ChatTemplate } from "./chat_template.ts";
import type { Tokenizer } from "./tokenizer.ts";

/**
 * Who wrote a token: the system, the user and the template around them; the model; a tool, with the frame of its
 * result; or the runtime in the model's place.
 */
export const TOKEN_ORIGINS = ["prompt", "model", "tool", "forced"] as const;
export type TokenOrigin = typeof TOKEN_ORIGINS[number];

/** What every render of a conversation shares. */
export interface RenderOptions {
  tools: readonly ToolDefinition[];
  /** Such as `enable_thinking`. */
  variables: Readonly<Record<string, unknown>>;
}

export interface RenderedPrompt {
  text: string;
  ids: number[];
}

/** Tokens that follow a model's turn, and who wrote each. */
export interface RenderedSuffix {
  text: string;
  ids: number[];
  origins: TokenOrigin[];
}

/** The token that ends an assistant's turn. */
export interface TurnEnd {
  text: string;
  id: number;
}

/** Turns messages into the text and the tokens that a model sees, by its chat template and its tokenizer. */
export class Renderer {
  readonly #turn_ends = new WeakMap<RenderOptions, TurnEnd | null>();

  constructor(readonly tokenizer: Tokenizer, readonly template: ChatTemplate) {}

  /** The text of some messages. @throws {ServiceError} `template_failed` or `data_invalid`. */
  renderText(
    messages: readonly ChatMessage[],
    add_generation_prompt: boolean,
    options: RenderOptions,
  ): string {
    return this.template.render({ ...options, messages: normalizeMessages(messages), add_generation_prompt });
  }

  /** The prompt that asks the model for its next turn. */
  renderPrompt(messages: readonly ChatMessage[], options: RenderOptions): RenderedPrompt {
    const text = this.renderText(messages, true, options);
    return { text, ids: this.encode(text) };
  }

  /** The ids of rendered text behind a token, if any: special tokens are parsed, and none is added. */
  encode(text: string, after?: number): number[] {
    return this.tokenizer.encode(text, { special: true, after });
  }

  /**
   * The token with which the template ends an assistant's turn; null when it ends with none that stops a generation,
   * so that a model never learns to stop.
   */
  turnEnd(options: RenderOptions): TurnEnd | null {
    const known = this.#turn_ends.get(options);
    if (known !== undefined) return known;
    const found = this.#findTurnEnd(options);
    this.#turn_ends.set(options, found);
    return found;
  }

  /**
   * The tokens between a model's turn and its next: the rest of the turn's frame, the new messages and the next
   * generation prompt. The conversation before does not matter: the text is what the template puts behind the turn of
   * a stand-in conversation.
   *
   * @param request.messages The new messages, such as the results of all calls of the turn, in the order of the calls.
   * @param request.ended Whether the turn's last sampled token is its end token, which is then not repeated;
   * otherwise it comes first, with the origin `forced`.
   */
  renderSuffix(
    request: { messages: readonly ChatMessage[]; ended: boolean },
    options: RenderOptions,
  ): RenderedSuffix {
    const { messages, ended } = request, anchor = unusedText([options, messages]);
    const text = this.renderText([question, standInTurn(messages, anchor), ...messages], true, options);
    const behind = textAfter(text, anchor, "an assistant's message is not rendered");
    const end = this.turnEnd(options);
    const at = end ? behind.indexOf(end.text) : -1;
    const suffix = end && at >= 0 ? behind.slice(at + end.text.length) : behind;
    const ids = this.encode(suffix, end?.id ?? this.encode(anchor).at(-1)), origin = originOf(messages);
    const forced = ended || !end ? [] : [end];
    return {
      text: forced.map((token) => token.text).join("") + suffix,
      ids: [...forced.map((token) => token.id), ...ids],
      origins: [...forced.map((): TokenOrigin => "forced"), ...ids.map(() => origin)],
    };
  }

  #findTurnEnd(options: RenderOptions): TurnEnd | null {
    const anchor = unusedText(options);
    const text = this.renderText([question, { role: "assistant", content: anchor }], false, options);
    const [id] = this.encode(textAfter(text, anchor, "its content is not rendered").trimStart());
    if (id === undefined || !this.tokenizer.end_ids.includes(id)) return null;
    return { id, text: this.tokenizer.decode([id], { special: true }) };
  }
}

/** Tokens around new messages count as the tool's when a tool wrote any of them. */
export function originOf(messages: readonly ChatMessage[]): TokenOrigin {
  return messages.some(({ role }) => role === "tool") ? "tool" : "prompt";
}

const question: ChatMessage = { role: "user", content: "Go on." };

/** An assistant's turn that the new messages can follow: it makes a call for each tool result. */
function standInTurn(messages: readonly ChatMessage[], anchor: string): ChatMessage {
  const results = messages.filter(({ role }) => role === "tool");
  if (results.length === 0) return { role: "assistant", content: anchor };
  const tool_calls = results.map(({ tool_call_id, name }, i) => ({
    ...tool_call_id === undefined ? {} : { id: tool_call_id },
    type: "function" as const,
    function: { name: name ?? "call", arguments: i === results.length - 1 ? { value: anchor } : {} },
  }));
  return { role: "assistant", content: "", tool_calls };
}

/** A word that stands nowhere in what will be rendered. */
function unusedText(rendered: unknown): string {
  const all = JSON.stringify(rendered);
  let anchor = "anchor";
  while (all.includes(anchor)) anchor += "x";
  return anchor;
}

function textAfter(text: string, anchor: string, problem: string): string {
  const at = text.indexOf(anchor);
  if (at >= 0) return text.slice(at + anchor.length);
  throw new ServiceError(
    "template_failed",
    `Cannot find a turn in what the chat template renders: ${problem}`,
  );
}
