/** A local endpoint of chat completions that answers as a test says, well or badly. */

import { ManualClock } from "../clock_fake.ts";

/** A key that must be seen nowhere but in the header of a request. */
export const CANARY = "sk-canary-0123456789abcdefghijklmnopqrstuvwxyz";

/** A request as the endpoint got it. */
export interface ReceivedRequest {
  method: string;
  path: string;
  headers: Headers;
  // deno-lint-ignore no-explicit-any -- what the client sent
  body: any;
}

/** Answers a request. */
export type Behaviour = (received: ReceivedRequest, signal: AbortSignal) => Response | Promise<Response>;

export interface ChatServer {
  /** With the prefix `/v1`. */
  base_url: string;
  received: ReceivedRequest[];
}

/** An answer with a text, as OpenAI's API gives it. */
export function chatAnswer(content: unknown, more: object = {}): Response {
  return Response.json({
    id: "chatcmpl-1",
    object: "chat.completion",
    choices: [{ index: 0, message: { role: "assistant", content }, finish_reason: "stop", ...more }],
    usage: { prompt_tokens: 20, completion_tokens: 10, total_tokens: 30 },
  });
}

/** A message of a request, before it is known to be one. */
// deno-lint-ignore no-explicit-any -- what the client sent
type SentMessage = any;

/**
 * Why a strict endpoint refuses the messages of a request; null: it does not. These are the rules of OpenAI and of vLLM,
 * and for ids those of Mistral's models, which both OpenAI and vLLM accept.
 */
function messagesRefusal(messages: SentMessage): string | null {
  if (!Array.isArray(messages) || messages.length === 0) return "Invalid 'messages': expected a list";
  const open = new Set<string>(), used = new Set<string>();
  for (const [i, message] of messages.entries()) {
    const { role, content, tool_calls, tool_call_id, name: _, ...others } = message, at = `messages[${i}]`;
    const [unknown] = Object.keys(others);
    if (unknown !== undefined) return `Unknown parameter: '${at}.${unknown}'`;
    if (!["system", "user", "assistant", "tool"].includes(role)) return `Invalid value: '${at}.role'`;
    if (tool_calls !== undefined && role !== "assistant") return `'${at}.tool_calls' is not allowed`;
    const may_be_null = tool_calls !== undefined && "content" in message;
    if (typeof content !== "string" && !(may_be_null && content === null)) {
      return `Invalid value for '${at}.content': expected a string, got ${content}`;
    }
    if (role === "tool") {
      if (!open.delete(tool_call_id)) return `'${at}.tool_call_id' answers no call of the message before`;
      continue;
    }
    if (open.size > 0) return `'${at}': the calls ${[...open]} have no tool message`;
    const wrong = callsRefusal(tool_calls ?? [], { at, used });
    if (wrong !== null) return wrong;
    for (const { id } of tool_calls ?? []) open.add(id);
  }
  return open.size > 0 ? `the calls ${[...open]} have no tool message` : null;
}

function callsRefusal(calls: SentMessage, { at, used }: { at: string; used: Set<string> }): string | null {
  for (const [i, { id, type, function: { name, arguments: given } }] of calls.entries()) {
    const call = `${at}.tool_calls[${i}]`;
    if (!/^[a-zA-Z0-9]{9}$/.test(id)) return `${call}.id: must be a-z, A-Z, 0-9, with a length of 9`;
    if (used.has(id)) return `${call}.id: occurs twice`;
    used.add(id);
    if (type !== "function") return `Invalid value: '${call}.type'`;
    if (!/^[a-zA-Z0-9_-]{1,64}$/.test(name)) return `Invalid value: '${call}.function.name'`;
    if (typeof given !== "string") return `Invalid type for '${call}.function.arguments': expected a string`;
  }
  return null;
}

/**
 * Runs a test with an endpoint that answers the requests in turn; the last behaviour also answers all later ones. It
 * refuses messages that a strict endpoint refuses.
 */
export async function withChatServer(
  behaviours: readonly Behaviour[],
  body: (server: ChatServer) => Promise<void>,
): Promise<void> {
  const received: ReceivedRequest[] = [], closing = new AbortController();
  const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen: () => {} }, async (request) => {
    const { method, url, headers, signal } = request;
    const got = { method, path: new URL(url).pathname, headers, body: await request.json() };
    const refused = messagesRefusal(got.body.messages);
    if (refused !== null) return Response.json({ error: { message: refused } }, { status: 400 });
    const behave = behaviours[Math.min(received.push(got), behaviours.length) - 1]!;
    // A server that closes does not see any more that a client left.
    return await behave(got, AbortSignal.any([signal, closing.signal]));
  });
  try {
    await body({ base_url: `http://127.0.0.1:${server.addr.port}/v1`, received });
  } finally {
    closing.abort();
    await server.shutdown();
  }
}

/** Gives no answer, until the client leaves. */
export const hanging = (signal: AbortSignal): Promise<Response> =>
  new Promise((resolve) => signal.addEventListener("abort", () => resolve(new Response()), { once: true }));

/** Answers with a status and a message. */
export const refusing = (
  status: number,
  { message = "busy", headers = {} }: { message?: string; headers?: HeadersInit } = {},
): Behaviour =>
() => Response.json({ error: { message } }, { status, headers });

/** Lets the time limit of the clock pass without an answer. */
export const late = (clock: WaitsClock): Behaviour => (_, signal) => {
  void clock.advance(clock.timeout_ms);
  return hanging(signal);
};

/** Sends a byte each second up to the time limit of the clock; then nothing more until the client leaves. */
export const dripping = (clock: WaitsClock): Behaviour => (_, signal) => {
  let seconds = clock.timeout_ms / 1000;
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      if (seconds-- === 0) {
        await hanging(signal);
        return controller.close();
      }
      controller.enqueue(new TextEncoder().encode(" "));
      await clock.advance(1000);
    },
  }, { highWaterMark: 0 });
  return new Response(body, { headers: { "content-type": "application/json" } });
};

/** Answers with 64 MiB that are few bytes on the wire. */
export const bomb: Behaviour = async () => {
  let bytes = 64 << 20;
  const zeros = new ReadableStream<Uint8Array<ArrayBuffer>>({
    pull(controller) {
      const size = Math.min(bytes, 1 << 20);
      bytes -= size;
      if (size === 0) controller.close();
      else controller.enqueue(new Uint8Array(size).fill(32));
    },
  });
  const packed = await new Response(zeros.pipeThrough(new CompressionStream("gzip"))).bytes();
  return new Response(packed, {
    headers: { "content-type": "application/json", "content-encoding": "gzip" },
  });
};

/**
 * A clock on which waits other than `timeout_ms` pass at once and are recorded. A limit of `timeout_ms` passes when the
 * test moves the clock.
 */
export class WaitsClock extends ManualClock {
  readonly waits: number[] = [];

  constructor(readonly timeout_ms: number) {
    super();
  }

  override sleep(delay_ms: number, signal?: AbortSignal): Promise<void> {
    const slept = super.sleep(delay_ms, signal);
    if (delay_ms !== this.timeout_ms) {
      this.waits.push(delay_ms);
      void this.advance(delay_ms);
    }
    return slept;
  }
}
