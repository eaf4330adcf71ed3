/**
 * One request to an environment server, on a connection of its own: no redirects, proxies, cookies or compression. A kept
 * connection could be closed by the server while a call is on its way, and such a call may not be sent again.
 */

import { Buffer } from "node:buffer";
import { type IncomingMessage, request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";

/** The most bytes of an answer's body. */
export const MAX_ANSWER_BYTES = 1 << 20;

/** A request. */
export interface Exchange {
  method: "GET" | "POST";
  url: URL;
  /** Sent as a bearer token; null: none. */
  key: string | null;
  /** Sent as JSON; absent: no body. */
  body?: unknown;
}

/** The answer to a request. */
export interface ExchangeAnswer {
  status: number;
  /** The value of Content-Type, or "". */
  media_type: string;
  body: Uint8Array;
}

/** Why there is no answer. The message completes "POST /step …". */
export class ExchangeFailure extends Error {
  /** @param not_sent The server did not get the request: there was no connection. */
  constructor(message: string, readonly not_sent: boolean, options?: ErrorOptions) {
    super(message, options);
  }
}

/**
 * Sends a request and reads the answer. A body longer than {@link MAX_ANSWER_BYTES} is given up as soon as it is known to
 * be.
 *
 * @throws {ExchangeFailure} Without an answer; the signal's reason when it aborts.
 */
export async function exchange(
  { method, url, key, body }: Exchange,
  signal: AbortSignal,
): Promise<ExchangeAnswer> {
  signal.throwIfAborted();
  const text = body === undefined ? null : Buffer.from(JSON.stringify(body));
  const headers = {
    "accept": "application/json",
    "accept-encoding": "identity",
    ...(key !== null && { authorization: `Bearer ${key}` }),
    ...(text && { "content-type": "application/json", "content-length": text.length }),
  };
  try {
    return await new Promise<ExchangeAnswer>((resolve, reject) => {
      const send = url.protocol === "https:" ? httpsRequest : httpRequest;
      const sent = send(url, { method, headers, agent: false, signal });
      sent.on("error", reject);
      sent.on("response", (answer) => {
        readBody(answer).then((body) =>
          resolve({ status: answer.statusCode ?? 0, media_type: answer.headers["content-type"] ?? "", body })
        ).catch((error) => {
          sent.destroy();
          reject(error);
        });
      });
      if (text) sent.write(text);
      sent.end();
    });
  } catch (error) {
    signal.throwIfAborted();
    throw error instanceof ExchangeFailure ? error : networkFailure(error);
  }
}

function readBody(answer: IncomingMessage): Promise<Uint8Array> {
  const tooLong = () => new ExchangeFailure(`answered with more than ${MAX_ANSWER_BYTES} bytes`, false);
  const cut = () => new ExchangeFailure("closed the connection within its answer", false);
  const { promise, resolve, reject } = Promise.withResolvers<Uint8Array>();
  const encoding = answer.headers["content-encoding"] ?? "identity";
  if (encoding !== "identity") {
    reject(new ExchangeFailure("answered with a Content-Encoding that was not asked for", false));
  }
  if (Number(answer.headers["content-length"] ?? 0) > MAX_ANSWER_BYTES) reject(tooLong());
  const parts: Uint8Array[] = [];
  let bytes = 0;
  answer.on("data", (part: Uint8Array) => {
    bytes += part.length;
    if (bytes > MAX_ANSWER_BYTES) return reject(tooLong());
    parts.push(part);
  });
  answer.on("end", () => answer.complete ? resolve(Buffer.concat(parts)) : reject(cut()));
  answer.on("aborted", () => reject(cut()));
  answer.on("close", () => reject(cut()));
  answer.on("error", (error) => reject(networkFailure(error)));
  return promise;
}

/** Errors of a request before the server got it, and what they mean. */
const NOT_SENT: Readonly<Record<string, string>> = {
  ECONNREFUSED: "was refused: no server listens there",
  ENOTFOUND: "cannot be sent: the host has no address",
  EAI_AGAIN: "cannot be sent: the host's address is not known at present",
  EHOSTUNREACH: "cannot be sent: the host cannot be reached",
  ENETUNREACH: "cannot be sent: the host's network cannot be reached",
};

function networkFailure(error: unknown): ExchangeFailure {
  const { code = "", message = String(error) } = error as { code?: string; message?: string };
  const because = { cause: error };
  if (Object.hasOwn(NOT_SENT, code)) return new ExchangeFailure(NOT_SENT[code]!, true, because);
  if (code.startsWith("HPE_")) {
    return new ExchangeFailure("was answered with something that is no HTTP", false, because);
  }
  const is_closed = code === "ECONNRESET" || code === "EPIPE";
  return new ExchangeFailure(
    is_closed ? "got no answer: the connection was closed" : `failed: ${message}`,
    false,
    because,
  );
}
