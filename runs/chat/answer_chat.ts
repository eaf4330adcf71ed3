/** Answers a chat request: renders the prompt, samples the choices together, and emits their text as it arrives. */

import { AsyncQueue } from "../../core/async_queue.ts";
import { ServiceError } from "../../core/errors.ts";
import { rngKey } from "../../core/random.ts";
import type { EngineClient } from "../../trainer/protocol/client.ts";
import type { GenerationStop, SamplingRequest, TokenBlock } from "../../trainer/protocol/protocol.ts";
import type { Renderer } from "../../trainer/tokenizer/renderer.ts";
import type { TemplateProbe } from "../../trainer/tokenizer/template_probe.ts";
import { THINK_OPEN } from "../../trainer/tokenizer/thinking.ts";
import { StreamingDecoder } from "../../trainer/tokenizer/tokenizer.ts";
import type { ChatDelta, ChatEvent, ChatRequest, ChatToken } from "./chat_request.ts";
import { type TurnPieces, TurnText } from "./turn_text.ts";

/** The parts of a model file that chats use. */
export interface ChatModel {
  renderer: Renderer;
  probe: TemplateProbe;
  /** For the template. */
  variables: Readonly<Record<string, unknown>>;
}

/** A choice that has ended, as it was sampled. */
export interface SampledChoice {
  prompt: readonly number[];
  tokens: readonly number[];
  logprobs: readonly number[];
  /** `call`: its first call ended it; `text`: a stop text. */
  end: "stop_token" | "max_tokens" | "call" | "text";
  generate_ms: number;
  /** As the client has it. */
  reasoning: string;
  content: string;
  calls: ChatDelta["calls"];
}

/** Keeps conversations; see `conversations.ts`. */
export interface ChatRecorder {
  /** The tokens of a request's prompt. Those of turns that it knows are the sampled ones. */
  promptTokens(request: ChatRequest, max_tokens: number): number[];
  record(request: ChatRequest, choice: SampledChoice): Promise<void>;
}

export interface ChatContext {
  engine: EngineClient;
  model: ChatModel;
  /** The engine's name of an adapter; null: the base model. */
  adapter: string | null;
  /** The engine's longest sequence. */
  max_context: number;
  /** The most choices that are sampled at once. */
  at_once: number;
  /** Null: nothing is recorded. */
  recorder: ChatRecorder | null;
}

/** The most tokens of a block that a client reads while the next one is sampled. */
const STREAMED_TOKENS = 4;

/** Tokens of a prompt's end that show whether it opens the thinking. */
const TAIL_TOKENS = 8;

/** The prompt of a request. @throws {ServiceError} With `details.field`: the part of the request that is wrong. */
function promptOf(request: ChatRequest, { model, recorder, max_context }: ChatContext): number[] {
  let tokens: number[];
  try {
    const { tools, messages } = request;
    tokens = recorder
      ? recorder.promptTokens(request, max_context)
      : model.renderer.renderPrompt(messages, { tools, variables: model.variables }, max_context).ids;
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    const { least_tokens } = error.details;
    if (least_tokens !== undefined) throw tooLong(`at least ${least_tokens}`, max_context);
    // The template's message names the model's file, which is not the client's.
    const reason = error.cause instanceof Error ? error.cause.message : error.message;
    const message = error.code === "template_failed"
      ? `Cannot answer: the chat template refuses the messages: ${reason}`
      : error.message;
    throw new ServiceError(error.code, message, { field: "/messages" }, { cause: error });
  }
  if (tokens.length < max_context) return tokens;
  throw tooLong(`${tokens.length}`, max_context);
}

function tooLong(tokens: string, max_context: number): ServiceError {
  return new ServiceError(
    "config_invalid",
    `Cannot answer: the messages take ${tokens} tokens, and the context has ${max_context}; send less`,
    { field: "/messages", is_range: true },
  );
}

/**
 * Answers a request. Each block of tokens is an event at once. Leaving the iteration cancels all choices.
 *
 * @throws {ServiceError} `config_invalid` with `details.field` for a prompt that is too long; the schema's refusal with
 * `details.keyword`; `template_failed`; the engine's errors; the signal's reason.
 */
export async function* answerChat(
  request: ChatRequest,
  context: ChatContext,
  signal: AbortSignal,
): AsyncGenerator<ChatEvent, void> {
  const prompt = promptOf(request, context), { at_once } = context;
  let has_emitted = false;
  for (let first = 0; first < request.choices; first += at_once) {
    const count = Math.min(at_once, request.choices - first);
    for await (const event of sampleChoices({ request, context, prompt, first, count }, signal)) {
      // A refusal by the engine comes before the first event.
      if (!has_emitted) yield { prompt_tokens: prompt.length };
      has_emitted = true;
      yield event;
    }
  }
}

interface Choices {
  request: ChatRequest;
  context: ChatContext;
  prompt: readonly number[];
  first: number;
  count: number;
}

/** Samples some choices at once. They share the prompt's computation. */
async function* sampleChoices(choices: Choices, signal: AbortSignal): AsyncGenerator<ChatEvent, void> {
  const { context: { engine, adapter }, prompt, first, count } = choices;
  const left = new AbortController(), events = new AsyncQueue<ChatEvent>();
  const either = AbortSignal.any([signal, left.signal]);
  const sequences: number[] = [];
  let sampled: Promise<unknown> = Promise.resolve();
  try {
    for (let i = 0; i < count; i++) {
      const sequence = engine.newSequence(), parent = sequences[0] ?? null;
      const tokens = parent === null ? [...prompt] : [];
      await engine.call("sequence_open", { sequence, adapter, parent, tokens });
      sequences.push(sequence);
    }
    const all = sequences.map((sequence, i) =>
      new Choice({ ...choices, sequence, index: first + i }).sample(events, either)
    );
    all.forEach((one) => one.catch((error) => events.fail(error)));
    sampled = Promise.allSettled(all);
    Promise.all(all).then(() => events.close(), () => {});
    yield* events;
    signal.throwIfAborted();
  } finally {
    left.abort();
    await sampled;
    for (const sequence of sequences) await engine.call("sequence_close", { sequence }).catch(() => {});
  }
}

/** One choice while it is sampled. */
class Choice {
  readonly #options: Choices & { sequence: number; index: number };
  readonly #text: TurnText;
  readonly #decoder: StreamingDecoder;
  readonly #tokens: number[] = [];
  readonly #logprobs: number[] = [];
  readonly #emitted: TurnPieces = { reasoning: "", content: "", calls: [] };
  #stop: GenerationStop = "cancelled";
  /** Whether its text ended it, before the engine did. */
  #is_stopped = false;

  constructor(options: Choices & { sequence: number; index: number }) {
    this.#options = options;
    const { request, prompt, context: { model: { renderer: { tokenizer }, probe } } } = options;
    const tail = tokenizer.decode(prompt.slice(-TAIL_TOKENS), { special: true }).trimEnd();
    // As rollouts name calls: by turn and position. So the text of the next prompt is that of a rollout.
    const turn = request.messages.filter(({ role }) => role === "assistant").length;
    this.#text = new TurnText({
      format: probe.tool_call_format,
      stop: request.stop,
      has_calls: request.tools.length > 0 && request.schema === null,
      has_thinking: request.schema === null,
      is_thinking: tail.endsWith(THINK_OPEN),
      one_call: request.one_call,
      callId: (index) => `call_${turn}_${index}`,
    });
    this.#decoder = new StreamingDecoder(tokenizer, { special: true });
  }

  /** Samples to the end of the answer; keeps its sequence open. */
  async sample(events: AsyncQueue<ChatEvent>, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    const { context: { engine }, sequence } = this.#options, started = performance.now();
    const cancel = () => void engine.call("sequence_cancel", { sequence }).catch(() => {});
    signal.addEventListener("abort", cancel, { once: true });
    try {
      for await (const block of engine.generate(this.#generation())) {
        this.#take(block, events);
        if (this.#text.is_over) break;
      }
    } finally {
      signal.removeEventListener("abort", cancel);
    }
    if (signal.aborted) return;
    this.#is_stopped = this.#text.is_over;
    const rest = this.#is_stopped ? "" : this.#decoder.end();
    const pieces = [this.#text.push(rest), this.#text.end()];
    for (const piece of pieces) this.#emit({ ...piece, tokens: [] }, events);
    await this.#record(performance.now() - started);
    this.#finish(events);
  }

  #generation() {
    const { request, prompt, context, sequence, index } = this.#options;
    const { max_tokens, temperature, top_p, seed, schema } = request;
    const room = context.max_context - prompt.length;
    const sampling: SamplingRequest = {
      temperature,
      top_p,
      top_k: 0,
      rng_key: rngKey(seed, "chat", index),
      mask: schema === null ? null : { type: "json_schema", schema },
    };
    return {
      sequence,
      max_tokens: Math.min(max_tokens ?? room, room),
      stop_tokens: [...context.model.renderer.tokenizer.end_ids],
      sampling,
      ...(request.stream ? { block_tokens: STREAMED_TOKENS } : {}),
    };
  }

  #take({ tokens, logprobs, stop }: TokenBlock, events: AsyncQueue<ChatEvent>): void {
    const { request } = this.#options, shown: ChatToken[] = [];
    const pieces: TurnPieces = { reasoning: "", content: "", calls: [] };
    for (const [i, token] of tokens.entries()) {
      if (this.#text.is_over) break;
      this.#tokens.push(token);
      this.#logprobs.push(logprobs[i]!);
      if (stop === "stop_token" && i === tokens.length - 1) continue;
      const piece = this.#text.push(this.#decoder.push(token));
      pieces.reasoning += piece.reasoning;
      pieces.content += piece.content;
      pieces.calls.push(...piece.calls);
      if (request.logprobs) shown.push(this.#shown(token, logprobs[i]!));
    }
    if (stop !== null) this.#stop = stop;
    this.#emit({ ...pieces, tokens: shown }, events);
  }

  #shown(token: number, logprob: number): ChatToken {
    const { tokenizer } = this.#options.context.model.renderer;
    return { text: tokenizer.textOf(token), bytes: [...tokenizer.bytesOf(token)], logprob };
  }

  #emit(delta: ChatDelta, events: AsyncQueue<ChatEvent>): void {
    const { reasoning, content, calls, tokens } = delta, emitted = this.#emitted;
    if (reasoning === "" && content === "" && calls.length + tokens.length === 0) return;
    emitted.reasoning += reasoning;
    emitted.content += content;
    emitted.calls.push(...calls);
    events.push({ choice: this.#options.index, delta });
  }

  async #record(generate_ms: number): Promise<void> {
    const { request, prompt, context: { recorder } } = this.#options;
    const [tokens, logprobs] = [this.#tokens, this.#logprobs];
    const by_engine = this.#stop === "max_tokens" ? "max_tokens" : "stop_token";
    const by_text = this.#text.ended_by === "call" ? "call" : "text";
    const end = this.#is_stopped ? by_text : by_engine;
    await recorder?.record(request, { ...this.#emitted, prompt, tokens, logprobs, end, generate_ms });
  }

  #finish(events: AsyncQueue<ChatEvent>): void {
    const { index } = this.#options;
    const by_itself = this.#text.calls > 0 ? "tool_calls" : "stop";
    // A stop text may lie in the last token that the limit allows.
    const finish = this.#stop === "max_tokens" && !this.#is_stopped ? "length" : by_itself;
    events.push({ choice: index, finish, completion_tokens: this.#tokens.length });
  }
}
