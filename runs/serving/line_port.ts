/** Calls (`core/rpc.ts`) over two byte streams, as a JSON line for each message. */

import type { RpcPort } from "../../core/rpc.ts";

/** A port over streams. */
export interface LinePort extends RpcPort {
  /** Resolves when the other end has closed its stream, or the stream failed. */
  readonly ended: Promise<void>;
}

/**
 * @param write Writes a line with its end; may be asynchronous inside, but keeps the order.
 */
export function linePort(input: ReadableStream<Uint8Array>, write: (line: string) => void): LinePort {
  const listeners: ((event: MessageEvent) => void)[] = [];
  return {
    postMessage: (message) => write(`${JSON.stringify(message)}\n`),
    addEventListener: (_type, listener) => void listeners.push(listener),
    ended: read(input, (data) => {
      for (const listener of listeners) listener({ data } as MessageEvent);
    }),
  };
}

/** Writes text to standard output; a reader that is gone is noticed at the end of the input. */
export function writeOutput(text: string): void {
  const bytes = new TextEncoder().encode(text);
  try {
    for (let at = 0; at < bytes.length;) at += Deno.stdout.writeSync(bytes.subarray(at));
  } catch {
    // The input ends too.
  }
}

/** Passes on the messages of a stream. What is no message, such as a library's notice, is left out. */
async function read(input: ReadableStream<Uint8Array>, receive: (message: unknown) => void): Promise<void> {
  const decoder = new TextDecoder();
  let parts: string[] = [];
  try {
    for await (const piece of input) {
      const lines = decoder.decode(piece, { stream: true }).split("\n");
      parts.push(lines.shift()!);
      for (const line of lines) {
        const message = parsed(parts.join(""));
        parts = [line];
        if (message !== null) receive(message);
      }
    }
  } catch {
    // A broken pipe is its end.
  }
}

function parsed(line: string): object | null {
  try {
    const message: unknown = JSON.parse(line);
    return typeof message === "object" ? message : null;
  } catch {
    return null;
  }
}
