/** Converts messages to token ids. The model's own text keeps the sampled ids; only new text is encoded. */

import { type ChatMessage, normalizeMessages, type ToolDefinition } from "../../core/chat.ts";
import { ServiceError } from "../../core/errors.ts";
import type { ChatTemplate } from "./chat_template.ts";
import type { Tokenizer } from "./tokenizer.ts";
import { messagesFor } from "./tool_calls/registry.ts";

/**
 * The origin of a token. `prompt`: system, user and the template around them; `model`: sampled; `tool`: results and the
 * template around them; `forced`: inserted in the model's turn without being sampled. Only `model` tokens can be
 * trained.
 */
export const TOKEN_ORIGINS = ["prompt", "model", "tool", "forced"] as const;
/** One of {@link TOKEN_ORIGINS}. */
export type TokenOrigin = typeof TOKEN_ORIGINS[number];

/** Options of all renders of a conversation. */
export interface RenderOptions {
  tools: readonly ToolDefinition[];
  /** Such as `enable_thinking`. */
  variables: Readonly<Record<string, unknown>>;
}

export interface RenderedPrompt {
  text: string;
  ids: number[];
}

/** Tokens that follow a model's turn, with their origins. */
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

/**
 * Converts messages to the model's text and tokens, with its chat template and tokenizer.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 * import { openGguf } from "../formats/gguf.ts";
 * import { ChatTemplate } from "./chat_template.ts";
 * import { readTokenizer } from "./read_tokenizer.ts";
 *
 * using file = await openGguf("fixtures/models/tiny-agent-f16.gguf");
 * const renderer = new Renderer(readTokenizer(file), ChatTemplate.fromGguf(file));
 * const prompt = renderer.renderPrompt([{ role: "user", content: "Hi" }], { tools: [], variables: {} });
 * assert.match(prompt.text, /<\|im_start\|>user\nHi<\|im_end\|>/);
 * ```
 */
export class Renderer {
  readonly #turn_ends = new WeakMap<RenderOptions, TurnEnd | null>();

  constructor(readonly tokenizer: Tokenizer, readonly template: ChatTemplate) {}

  /** The text of some messages. @throws {ServiceError} `template_failed` or `data_invalid`. */
  renderText(
    messages: readonly ChatMessage[],
    add_generation_prompt: boolean,
    options: RenderOptions,
  ): string {
    const given = messagesFor(this.template.source, normalizeMessages(messages));
    return this.template.render({ ...options, messages: given, add_generation_prompt });
  }

  /**
   * The prompt that asks the model for its next turn.
   *
   * @param max_tokens A text that must have more is refused before it is encoded; one that has more may be returned.
   * @throws {ServiceError} `config_invalid` with `details.least_tokens`, the fewest that it can have.
   */
  renderPrompt(
    messages: readonly ChatMessage[],
    options: RenderOptions,
    max_tokens = Infinity,
  ): RenderedPrompt {
    const text = this.renderText(messages, true, options);
    const least_tokens = Math.ceil(text.length / this.tokenizer.longest_token);
    if (least_tokens <= max_tokens) return { text, ids: this.encode(text) };
    throw new ServiceError(
      "config_invalid",
      `Cannot render the prompt: it has at least ${least_tokens} tokens, and the context has ${max_tokens}; send less`,
      { least_tokens },
    );
  }

  /** The ids of rendered text after a token, if any: special tokens are parsed, and none is added. */
  encode(text: string, after?: number): number[] {
    return this.tokenizer.encode(text, { special: true, after });
  }

  /**
   * The token with which the template ends an assistant's turn. Null when that token does not stop a generation, so
   * that a model would never learn to stop.
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
   * generation prompt. They do not depend on the conversation before: the text is the template's rendering after the
   * turn of a placeholder conversation.
   *
   * @param request.messages The new messages, such as the results of all calls of the turn, in the order of the calls.
   * @param request.ended Whether the turn's last sampled token is its end token. It is then not repeated; otherwise it
   * comes first, with the origin `forced`.
   */
  renderSuffix(
    request: { messages: readonly ChatMessage[]; ended: boolean },
    options: RenderOptions,
  ): RenderedSuffix {
    const { messages, ended } = request, anchor = unusedText([options, messages]);
    const text = this.renderText([QUESTION, standInTurn(messages, anchor), ...messages], true, options);
    const following = textAfter(text, anchor, "an assistant's message is not rendered");
    const end = this.turnEnd(options);
    const at = end ? following.indexOf(end.text) : -1;
    const suffix = end && at >= 0 ? following.slice(at + end.text.length) : following;
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
    const text = this.renderText([QUESTION, { role: "assistant", content: anchor }], false, options);
    const [id] = this.encode(textAfter(text, anchor, "its content is not rendered").trimStart());
    if (id === undefined || !this.tokenizer.end_ids.includes(id)) return null;
    return { id, text: this.tokenizer.decode([id], { special: true }) };
  }
}

/** Tokens around new messages have the origin `tool` if a tool wrote any of them. */
export function originOf(messages: readonly ChatMessage[]): TokenOrigin {
  return messages.some(({ role }) => role === "tool") ? "tool" : "prompt";
}

const QUESTION: ChatMessage = { role: "user", content: "Go on." };

/** A placeholder assistant turn that the new messages can follow: it has a call for each tool result. */
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

/** A word that does not occur in the text to render. */
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
