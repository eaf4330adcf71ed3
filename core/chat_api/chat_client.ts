/** A client of chat completions: any endpoint that speaks OpenAI's API. Everything that it answers is untrusted. */

import {
  type ChatMessage,
  type ChatToolCall,
  type JsonSchema,
  type OpenAiMessage,
  openAiMessages,
  type ToolDefinition,
} from "../chat.ts";
import type { Clock } from "../clock.ts";
import { type ErrorCode, ServiceError } from "../errors.ts";
import { isJsonObject, parseJson } from "../json.ts";
import { Rng, rngKey } from "../random.ts";
import { Semaphore } from "../semaphore.ts";
import { inline } from "../text.ts";
import { chatCompletionsUrl } from "./endpoint.ts";
import { type ExchangeAnswer, ExchangeFailure, postJson } from "./exchange.ts";
import { type Redact, redactJson, redactorOf } from "./redact.ts";
import { isRetryable, retryAfterMs, retryWaitMs } from "./retry.ts";

/** The most bytes of an answer, after its decompression. */
export const MAX_ANSWER_BYTES = 4 << 20;

/** The most requests of a client at the same time; others wait. */
export const MAX_REQUESTS_AT_ONCE = 8;

/** The most characters of an endpoint's own message in an error. */
export const MAX_QUOTED_CHARS = 300;

/** Options of a {@link ChatClient}. */
export interface ChatClientOptions {
  base_url: string;
  model: string;
  /** Sent as `Authorization: Bearer`, and nowhere else; null: none is sent. */
  key: string | null;
  /** The limit of one attempt, from the connection to the last byte. */
  timeout_ms: number;
  /** The most further attempts after one that failed. */
  max_retries: number;
  /** Determines the jitter of the waits between attempts. */
  seed: number;
  clock: Clock;
  /** Names the endpoint in errors, such as "the judge". */
  name: string;
  /** The code of errors. */
  code: ErrorCode;
}

/** What is asked. */
export interface ChatQuestion {
  messages: readonly ChatMessage[];
  tools?: readonly ToolDefinition[];
  /** The text must be JSON of this schema, as far as the endpoint can enforce it. */
  response_schema?: { name: string; schema: JsonSchema };
  /** Absent: the endpoint's default. An endpoint that refuses it is asked again without it. */
  temperature?: number;
  /** The most tokens of the answer. Absent: the endpoint's default. */
  max_tokens?: number;
}

/** An answer. */
export interface ChatReply {
  /** Null: it has no text. */
  content: string | null;
  tool_calls: ChatToolCall[];
  /** `stop`, `length`, or what else the endpoint says; null when it says nothing. */
  finish_reason: string | null;
  /** As the endpoint counted them; 0 where it does not. */
  usage: { prompt_tokens: number; completion_tokens: number };
}

/** The names of the limit of an answer's tokens: most endpoints know the first, some models only the second. */
type LimitName = "max_tokens" | "max_completion_tokens";

/** Parts of a request that not every endpoint knows. */
type OptionalPart = "temperature" | "response_format";

/**
 * Asks an endpoint. Status 408, 429 and 5xx, a lost connection and an attempt beyond its limit are tried again, with
 * growing waits and the endpoint's `Retry-After`; other failures are final. So a question takes at most
 * `(max_retries + 1) · (timeout_ms + MAX_RETRY_WAIT_MS)`, once more for each optional part that the endpoint refuses, and
 * for the name `max_tokens`. The limit of tokens itself is no optional part.
 * The key is in no error, and is removed from whatever the endpoint says.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 * import { systemClock } from "../clock.ts";
 *
 * const reply = { choices: [{ message: { content: "42" }, finish_reason: "stop" }] };
 * const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen: () => {} }, () => Response.json(reply));
 * const client = new ChatClient({
 *   ...{ base_url: `http://127.0.0.1:${server.addr.port}/v1`, model: "m", key: null, seed: 1 },
 *   ...{ timeout_ms: 10_000, max_retries: 2, clock: systemClock, name: "the model", code: "judge_failed" },
 * });
 * const { signal } = new AbortController();
 * const { content } = await client.ask({ messages: [{ role: "user", content: "6 * 7?" }] }, signal);
 * assert.equal(content, "42");
 * await server.shutdown();
 * ```
 */
export class ChatClient {
  /** Removes the key from a text. */
  readonly redact: Redact;
  readonly #options: ChatClientOptions;
  readonly #url: URL;
  readonly #slots = new Semaphore(MAX_REQUESTS_AT_ONCE);
  readonly #refused = new Set<OptionalPart>();
  #limit_name: LimitName = "max_tokens";

  constructor(options: ChatClientOptions) {
    this.#options = options;
    this.#url = chatCompletionsUrl(options.base_url);
    this.redact = redactorOf(options.key);
  }

  /** Asks, and checks the form of the answer. @throws {ServiceError} With the client's code, or the signal's reason. */
  async ask(question: ChatQuestion, signal: AbortSignal): Promise<ChatReply> {
    return await this.#slots.use(1, signal, async () => {
      while (true) {
        const sent = new Set(this.#optionalParts(question)), limit_name = this.#limit_name;
        const answer = await this.#exchange(this.#bodyOf(question, sent, limit_name), signal);
        if (answer.status >= 200 && answer.status < 300) return this.#replyOf(answer);
        if (limit_name === "max_tokens" && asksForOtherLimit(answer, question)) {
          this.#limit_name = "max_completion_tokens";
          continue;
        }
        const refused = refusedPart(answer, sent);
        if (refused === null) throw this.#statusError(answer);
        this.#refused.add(refused);
      }
    });
  }

  #optionalParts({ temperature, response_schema }: ChatQuestion): OptionalPart[] {
    const parts: OptionalPart[] = [];
    if (temperature !== undefined) parts.push("temperature");
    if (response_schema) parts.push("response_format");
    return parts.filter((part) => !this.#refused.has(part));
  }

  #bodyOf(question: ChatQuestion, sent: ReadonlySet<OptionalPart>, limit_name: LimitName): string {
    const { messages, tools = [], response_schema, temperature, max_tokens } = question;
    return JSON.stringify({
      model: this.#options.model,
      messages: requestMessages(messages),
      ...(tools.length > 0 && { tools }),
      ...(sent.has("temperature") && { temperature }),
      ...(max_tokens !== undefined && { [limit_name]: max_tokens }),
      ...(sent.has("response_format") && {
        response_format: { type: "json_schema", json_schema: { ...response_schema, strict: true } },
      }),
      stream: false,
    });
  }

  /** The answer of the last attempt: another one than a refusal that may pass, or the last such one. */
  async #exchange(body: string, signal: AbortSignal): Promise<ExchangeAnswer> {
    const { key, timeout_ms, max_retries, seed, clock } = this.#options;
    const headers: Record<string, string> = key === null ? {} : { authorization: `Bearer ${key}` };
    const request = { url: this.#url, headers, body, timeout_ms, max_bytes: MAX_ANSWER_BYTES };
    let rng: Rng | null = null;
    for (let retry = 0;; retry++) {
      let asked_ms: number | null = null;
      try {
        const answer = await postJson(request, { clock, signal });
        if (!isRetryable(answer.status)) return answer;
        if (retry >= max_retries) throw this.#statusError(answer, retry + 1);
        asked_ms = retryAfterMs(answer.headers.get("retry-after") ?? "", clock.wall_ms());
      } catch (error) {
        if (!(error instanceof ExchangeFailure)) throw error;
        if (error.kind === "final" || retry >= max_retries) throw this.#error(error.message, retry + 1);
      }
      // Only a function of the question: other requests do not change it.
      rng ??= new Rng(rngKey(seed, "chat_api", body));
      await clock.sleep(retryWaitMs(retry, asked_ms, rng), signal);
    }
  }

  #replyOf({ text, headers }: ExchangeAnswer): ChatReply {
    if (isHtml(headers, text)) throw this.#error("the answer is a page of HTML; check base_url");
    let value: unknown;
    try {
      value = redactJson(parseJson(text), this.redact);
    } catch (error) {
      throw this.#error(`the answer is not JSON (${(error as Error).message})`);
    }
    const reply = replyIn(value);
    if (typeof reply !== "string") return reply;
    const said = errorMessage(value);
    throw this.#error(said === null ? reply : `the answer is an error: ${this.#quoted(said)}`);
  }

  #statusError({ status, text, headers }: ExchangeAnswer, attempts = 1): ServiceError {
    if (status >= 300 && status < 400) {
      return this.#error(
        `it redirects (status ${status}), which is not followed; set base_url to the final address`,
      );
    }
    // What is said about a wrong key may quote it.
    if (status === 401 || status === 403) return this.#error(`it refuses the key (status ${status})`);
    let said: string | null = null;
    try {
      said = isHtml(headers, text) ? null : errorMessage(parseJson(text));
    } catch {
      // The status says enough.
    }
    return this.#error(`it answers with status ${status}${said ? `: ${this.#quoted(said)}` : ""}`, attempts);
  }

  #quoted(said: string): string {
    const text = inline(this.redact(said)).trim();
    return text.length > MAX_QUOTED_CHARS ? `${text.slice(0, MAX_QUOTED_CHARS).toWellFormed()}…` : text;
  }

  #error(reason: string, attempts = 1): ServiceError {
    const { name, code } = this.#options, { origin } = this.#url;
    const message = `Cannot ask ${name} at ${origin}: ${this.#quoted(reason)}`;
    return new ServiceError(code, attempts > 1 ? `${message}, after ${attempts} attempts` : message);
  }
}

/** Whether a refusal says that the limit of tokens has another name. */
function asksForOtherLimit({ status, text }: ExchangeAnswer, { max_tokens }: ChatQuestion): boolean {
  return max_tokens !== undefined && (status === 400 || status === 422) && /max_completion_tokens/.test(text);
}

/**
 * Messages that strict endpoints take. Those of Mistral's models want ids of nine letters and digits, so calls are
 * numbered. Empty content beside calls is null, which some endpoints demand there, and OpenAI refuses elsewhere.
 */
function requestMessages(messages: readonly ChatMessage[]): OpenAiMessage[] {
  const ids = new Map<string | undefined, string>();
  let calls = 0;
  return openAiMessages(messages).map(({ tool_calls, tool_call_id, ...message }) => {
    if (tool_call_id !== undefined) {
      return { ...message, tool_call_id: ids.get(tool_call_id) ?? tool_call_id };
    }
    if (!tool_calls?.length) return { ...message, content: message.content ?? "" };
    const numbered = tool_calls.map((call) => {
      const id = `call${String(calls++).padStart(5, "0")}`;
      ids.set(call.id, id);
      return { ...call, id };
    });
    return { ...message, content: message.content || null, tool_calls: numbered };
  });
}

/** The optional part that a refusal is most likely about; null when it is about none. */
function refusedPart({ status, text }: ExchangeAnswer, sent: ReadonlySet<OptionalPart>): OptionalPart | null {
  if (status !== 400 && status !== 422) return null;
  if (sent.has("temperature") && /temperature/i.test(text)) return "temperature";
  return sent.has("response_format") ? "response_format" : null;
}

function isHtml(headers: Headers, text: string): boolean {
  return /\bhtml\b/i.test(headers.get("content-type") ?? "") ||
    /^\s*<(!doctype|html)\b/i.test(text.slice(0, 200));
}

/** The message of an answer that reports an error. */
function errorMessage(value: unknown): string | null {
  const error = isJsonObject(value) ? value.error : undefined;
  if (typeof error === "string") return error;
  return isJsonObject(error) && typeof error.message === "string" ? error.message : null;
}

/** The first choice of an answer; the reason when it has none. */
function replyIn(value: unknown): ChatReply | string {
  if (!isJsonObject(value)) return "the answer is no JSON object";
  const choice = Array.isArray(value.choices) ? value.choices[0] : undefined;
  const message = isJsonObject(choice) ? choice.message : undefined;
  if (!isJsonObject(choice) || !isJsonObject(message)) return "the answer has no message";
  const tool_calls = message.tool_calls ?? [];
  if (!Array.isArray(tool_calls) || !tool_calls.every(isToolCall)) {
    return "the answer has a call of another form";
  }
  const { finish_reason } = choice;
  return {
    content: contentText(message.content),
    tool_calls,
    finish_reason: typeof finish_reason === "string" ? finish_reason : null,
    usage: usageOf(value.usage),
  };
}

/** Text, or the texts of a list of parts. */
function contentText(content: unknown): string | null {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return null;
  const texts = content.flatMap((part) =>
    isJsonObject(part) && typeof part.text === "string" ? [part.text] : []
  );
  return texts.length > 0 ? texts.join("") : null;
}

function isToolCall(value: unknown): value is ChatToolCall {
  if (!isJsonObject(value) || !isJsonObject(value.function)) return false;
  const { name, arguments: given } = value.function, { id } = value;
  return typeof name === "string" && (typeof given === "string" || isJsonObject(given)) &&
    (id === undefined || typeof id === "string");
}

function usageOf(value: unknown): ChatReply["usage"] {
  const count = (tokens: unknown) => Number.isSafeInteger(tokens) && Number(tokens) >= 0 ? Number(tokens) : 0;
  const usage = isJsonObject(value) ? value : {};
  return { prompt_tokens: count(usage.prompt_tokens), completion_tokens: count(usage.completion_tokens) };
}
