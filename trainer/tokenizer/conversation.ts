/** Conversations as training sequences: ids, the origin of each, and which are trained. */

import type { ChatMessage } from "../../core/chat.ts";
import { ServiceError } from "../../core/errors.ts";
import { originOf, type Renderer, type RenderOptions, type TokenOrigin, type TurnEnd } from "./renderer.ts";
import type { Tokenizer } from "./tokenizer.ts";

/** Which tokens are trained: all assistant turns, the last one, or everything. */
export type TrainOn = "assistant" | "last" | "all";

/** Tokens [start, end) of an assistant's message, including its end token. */
export interface AssistantSpan {
  start: number;
  end: number;
  /** Index of the message. */
  message: number;
}

/** A training sequence; arrays are as long as `ids`. */
export interface RenderedSequence {
  ids: number[];
  origins: TokenOrigin[];
  assistant_spans: AssistantSpan[];
  /** 1 where the token is trained; never at index 0. */
  loss_mask: Uint8Array;
}

export interface ConversationRequest {
  messages: readonly ChatMessage[];
  train_on: TrainOn;
  /** Assistant messages before this one are context only. */
  first_trained_message?: number;
}

/** A growing sequence; each text is encoded separately. */
class Fragment {
  text = "";
  readonly ids: number[] = [];
  readonly origins: TokenOrigin[] = [];
  readonly assistant_spans: AssistantSpan[] = [];

  constructor(private readonly renderer: Renderer) {}

  append(text: string, origin: TokenOrigin): void {
    this.text += text;
    for (const id of this.renderer.encode(text, this.ids.at(-1))) {
      this.ids.push(id);
      this.origins.push(origin);
    }
  }
}

/**
 * Renders a conversation for training with exactly the tokens of a rollout: every turn is encoded separately after its
 * prompt.
 *
 * Usually that is one sequence. If the template changes earlier turns when a later message follows (it removes their
 * thinking), a new sequence starts with the changed history as prompt; each turn is trained once.
 *
 * @throws {ServiceError} `template_failed`, or `data_invalid` when there is no assistant message to train.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * import { openGguf } from "../formats/gguf.ts";
 * import { ChatTemplate } from "./chat_template.ts";
 * import { readTokenizer } from "./read_tokenizer.ts";
 * import { Renderer } from "./renderer.ts";
 *
 * using file = await openGguf("fixtures/models/tiny-agent-f16.gguf");
 * const tokenizer = readTokenizer(file), renderer = new Renderer(tokenizer, ChatTemplate.fromGguf(file));
 * const messages = [{ role: "user", content: "17 + 25?" }, { role: "assistant", content: "42" }];
 * const options = { tools: [], variables: {} };
 * const [{ ids, loss_mask }] = renderConversation(renderer, { messages, train_on: "assistant" }, options);
 * const trained = ids.filter((_, i) => loss_mask[i] === 1);
 * assert.equal(tokenizer.decode(trained, { special: true }), "42<|im_end|>");
 * ```
 */
export function renderConversation(
  renderer: Renderer,
  request: ConversationRequest,
  options: RenderOptions,
): RenderedSequence[] {
  const { messages, train_on, first_trained_message = 0 } = request;
  const trained = messages.flatMap(({ role }, i) =>
    role === "assistant" && i >= first_trained_message ? [i] : []
  );
  if (trained.length === 0) {
    throw new ServiceError("data_invalid", "Cannot train on a conversation without an assistant message");
  }
  const fragments = renderFragments(renderer, messages, options);
  const chosen = train_on === "assistant" ? fragments : fragments.slice(-1);
  const last = trained.at(-1)!;
  return chosen.map(({ ids, origins, assistant_spans }) => {
    const loss_mask = new Uint8Array(ids.length);
    if (train_on === "all") loss_mask.fill(1, 1);
    for (const { start, end, message } of assistant_spans) {
      if (train_on === "last" ? message === last : trained.includes(message)) {
        loss_mask.fill(1, Math.max(1, start), end);
      }
    }
    return { ids, origins, assistant_spans, loss_mask };
  }).filter(({ loss_mask }) => loss_mask.includes(1));
}

function renderFragments(
  renderer: Renderer,
  messages: readonly ChatMessage[],
  options: RenderOptions,
): Fragment[] {
  const fragments: Fragment[] = [], turn_end = renderer.turnEnd(options);
  let before = 0, tail = "";
  for (let i = 0; i < messages.length; i++) {
    if (messages[i]!.role !== "assistant") continue;
    const prompt = renderer.renderText(messages.slice(0, i), true, options);
    const whole = renderer.renderText(messages.slice(0, i + 1), false, options);
    const turn = splitTurn({ prompt, whole, turn_end, message: i });
    let fragment = fragments.at(-1);
    if (fragment && prompt.startsWith(fragment.text)) {
      fragment.append(prompt.slice(fragment.text.length), originOf(messages.slice(before, i)));
    } else {
      fragment = new Fragment(renderer);
      fragments.push(fragment);
      fragment.append(prompt, "prompt");
    }
    const start = fragment.ids.length;
    fragment.append(turn.text, "model");
    fragment.assistant_spans.push({ start, end: fragment.ids.length, message: i });
    before = i + 1;
    tail = turn.tail;
  }
  fragments.at(-1)!.append(tail, "prompt");
  return fragments;
}

/** Splits the template's rendering of a turn, after its prompt, into the turn with its end token and the rest. */
function splitTurn(
  { prompt, whole, turn_end, message }: {
    prompt: string;
    whole: string;
    turn_end: TurnEnd | null;
    message: number;
  },
): { text: string; tail: string } {
  if (!whole.startsWith(prompt)) {
    throw new ServiceError(
      "template_failed",
      `Cannot train on message ${message}: the chat template renders the turn otherwise than its generation prompt ` +
        "begins it; change the template variables, or name a template for training in [model].chat_template",
      { message },
    );
  }
  const text = whole.slice(prompt.length), at = turn_end ? text.lastIndexOf(turn_end.text) : -1;
  const end = turn_end && at >= 0 ? at + turn_end.text.length : text.length;
  return { text: text.slice(0, end), tail: text.slice(end) };
}

/** Plain text for training, all of it trained: begin token if the model has one, text, end token. */
export function renderPlainText(tokenizer: Tokenizer, text: string): RenderedSequence {
  const { ids, origins, assistant_spans } = renderCompletion(tokenizer, "", text);
  return { ids, origins, assistant_spans, loss_mask: new Uint8Array(ids.length).fill(1, 1) };
}

/** A plain completion after a plain prompt, trained with the end token. */
export function renderCompletion(tokenizer: Tokenizer, prompt: string, completion: string): RenderedSequence {
  const { bos_id, eos_id, adds_bos } = tokenizer;
  const given = tokenizer.encode(prompt, { special: true });
  if (adds_bos && bos_id !== null && given[0] !== bos_id) given.unshift(bos_id);
  const written = tokenizer.encode(completion, { special: true, after: given.at(-1) });
  if (eos_id !== null && written.at(-1) !== eos_id) written.push(eos_id);
  const ids = [...given, ...written], start = given.length;
  return {
    ids,
    origins: ids.map((_, i): TokenOrigin => i < start ? "prompt" : "model"),
    assistant_spans: [{ start, end: ids.length, message: 0 }],
    loss_mask: new Uint8Array(ids.length).fill(1, Math.max(1, start)),
  };
}
