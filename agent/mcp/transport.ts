/** What carries the messages of one session with an MCP server, and the guard that every one of them passes. */

import { type Redact, redactedHead } from "../../core/chat_api/redact.ts";
import { isJsonObject, isTooDeep, MAX_JSON_DEPTH } from "../../core/json.ts";

/** A JSON-RPC message. Nothing else of it is known. */
export type Message = Readonly<Record<string, unknown>>;

/** Options of the official client for a message, which transports may pass on. */
export type SendOptions = Readonly<Record<string, unknown>>;

/** Carries messages; the official client calls it. */
export interface Transport {
  onmessage?: ((message: never) => void) | undefined;
  onclose?: (() => void) | undefined;
  onerror?: ((error: Error) => void) | undefined;
  start(): Promise<void>;
  send(message: Message, options?: SendOptions): Promise<void>;
  close(): Promise<void>;
  setProtocolVersion?: ((version: string) => void) | undefined;
  sessionId?: string | undefined;
}

/** What is wrong with a server, or with what is said of it; each kind is reported once. */
export type Misstep = "answers" | "noise" | "list_changed" | "gone" | "names";

/** Receives a misstep, with a text that completes "the MCP server …: ". */
export type Notice = (about: Misstep, text: string) => void;

/** In the `data` of an error that the guard puts in place of an answer. */
export const LOST = "svc: the answer was lost";

/** The most characters of an answer's id in a message. */
export const MAX_ID_CHARS = 100;

const isId = (id: unknown) => typeof id === "number" || typeof id === "string";

/**
 * Passes messages on in both directions. An answer that belongs to no open request is dropped. One that is no answer of
 * the protocol, which the client would drop, or is nested too deep becomes an error, and so does a stream of answers that
 * ends without the answer it was opened for.
 */
export class GuardedTransport implements Transport {
  onmessage?: (message: never) => void;
  onclose?: () => void;
  onerror?: (error: Error) => void;
  readonly #inner: Transport;
  readonly #notice: Notice;
  readonly #redact: Redact;
  readonly #open = new Set<unknown>();
  /** The answers that were passed on. */
  #answers = 0;

  constructor(inner: Transport, { notice, redact }: { notice: Notice; redact: Redact }) {
    this.#inner = inner;
    this.#notice = notice;
    this.#redact = redact;
    inner.onmessage = (message: Message) => this.#receive(message);
    inner.onclose = () => this.onclose?.();
    inner.onerror = (error) => this.onerror?.(error);
  }

  /** How many requests got an answer. */
  get answers(): number {
    return this.#answers;
  }

  get sessionId(): string | undefined {
    return this.#inner.sessionId;
  }

  setProtocolVersion(version: string): void {
    this.#inner.setProtocolVersion?.(version);
  }

  start(): Promise<void> {
    return this.#inner.start();
  }

  close(): Promise<void> {
    return this.#inner.close();
  }

  async send(message: Message, options: SendOptions = {}): Promise<void> {
    const { id, method } = message;
    if (!isId(id) || typeof method !== "string") return await this.#inner.send(message, options);
    this.#open.add(id);
    const onRequestStreamEnd = () => this.#lose(id, "its stream of answers ended without the answer");
    try {
      await this.#inner.send(message, { ...options, onRequestStreamEnd });
    } catch (error) {
      this.#open.delete(id);
      throw error;
    }
  }

  #receive(message: Message): void {
    const { id, method } = message;
    if (typeof method === "string") return this.#pass(message);
    if (!this.#open.delete(id)) {
      const which = redactedHead(String(JSON.stringify(id)), MAX_ID_CHARS, this.#redact);
      return this.#notice("answers", `it answered the request ${which}, which is not open`);
    }
    this.#answers++;
    const problem = problemOf(message);
    if (problem === null) return this.#pass(message);
    this.#open.add(id);
    this.#lose(id, problem);
  }

  #pass(message: Message): void {
    this.onmessage?.(message as never);
  }

  /** Puts an error in place of an answer. */
  #lose(id: unknown, reason: string): void {
    if (!this.#open.delete(id)) return;
    this.#pass({ jsonrpc: "2.0", id, error: { code: -32000, message: reason, data: LOST } });
  }
}

/** Why an answer cannot be used, as a sentence about the server; null: it can. */
function problemOf(answer: Message): string | null {
  const { result, error } = answer;
  if (isTooDeep(answer)) return `its answer is nested more than ${MAX_JSON_DEPTH} levels deep`;
  const is_error = isJsonObject(error) && Number.isInteger(error.code) && typeof error.message === "string";
  const is_answer = error === undefined ? isJsonObject(result) : is_error && result === undefined;
  return is_answer ? null : "its answer has neither a result nor an error of the protocol";
}
