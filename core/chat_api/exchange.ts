/** One request over HTTP to an untrusted endpoint: bounded in time and size, and never sent on to another address. */

import type { Clock } from "../clock.ts";

/** `connection`: another attempt may succeed; `final`: it would not. */
export type ExchangeFailureKind = "connection" | "final";

/** An exchange without a whole answer. Its message never has the address. */
export class ExchangeFailure extends Error {
  constructor(readonly kind: ExchangeFailureKind, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "ExchangeFailure";
  }
}

/** A POST of JSON. */
export interface ExchangeRequest {
  url: URL;
  headers: Readonly<Record<string, string>>;
  body: string;
  /** From the connection to the last byte of the answer. */
  timeout_ms: number;
  /** The most bytes of an answer, after its decompression. */
  max_bytes: number;
}

/** A whole answer. */
export interface ExchangeAnswer {
  status: number;
  headers: Headers;
  /** Bytes that are not UTF-8 show as `�`. */
  text: string;
}

/**
 * Sends a request and reads the answer. Redirects are answers: nothing follows them.
 *
 * @throws {ExchangeFailure}
 * @throws The signal's reason when the caller aborts.
 */
export async function postJson(
  { url, headers, body, timeout_ms, max_bytes }: ExchangeRequest,
  { clock, signal }: { clock: Clock; signal: AbortSignal },
): Promise<ExchangeAnswer> {
  signal.throwIfAborted();
  const late = new AbortController(), done = new AbortController();
  clock.sleep(timeout_ms, done.signal).then(() => late.abort(), () => {});
  const either = AbortSignal.any([signal, late.signal]);
  try {
    const response = await fetch(url, {
      method: "POST",
      headers: { ...headers, "content-type": "application/json" },
      ...{ body, redirect: "manual", signal: either },
    });
    const text = await readText(response, max_bytes);
    return { status: response.status, headers: response.headers, text };
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof ExchangeFailure) throw error;
    if (late.signal.aborted) {
      throw new ExchangeFailure("connection", `there was no whole answer within ${timeout_ms / 1000} s`);
    }
    throw connectionFailure(error, url);
  } finally {
    done.abort();
  }
}

async function readText({ body, headers }: Response, max_bytes: number): Promise<string> {
  const tooLarge = () => new ExchangeFailure("final", `the answer is larger than ${max_bytes} bytes`);
  if (Number(headers.get("content-length") ?? 0) > max_bytes) {
    await body?.cancel();
    throw tooLarge();
  }
  if (!body) return "";
  const reader = body.getReader(), decoder = new TextDecoder();
  let text = "", read = 0;
  while (true) {
    const { value, done } = await reader.read();
    if (done) return text + decoder.decode();
    read += value.length;
    if (read > max_bytes) {
      await reader.cancel();
      throw tooLarge();
    }
    text += decoder.decode(value, { stream: true });
  }
}

function connectionFailure(error: unknown, url: URL): ExchangeFailure {
  const kind = error instanceof Deno.errors.NotCapable ? "final" : "connection";
  // What `fetch` throws says only that it failed; its cause says why, after both addresses.
  const { cause } = error as { cause?: unknown };
  const { message } = cause instanceof Error ? cause : error as Error;
  const reason = message.replaceAll(url.href, "").replace(/^error sending request [^()]*\([^()]*\): /, "");
  return new ExchangeFailure(kind, reason, { cause: kind === "final" ? error : undefined });
}
