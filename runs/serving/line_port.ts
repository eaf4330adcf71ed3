/** A port for the calls of `core/rpc.ts` over two byte streams; each message is a line of JSON. */

import type { RpcPort } from "../../core/rpc.ts";

/** A port over streams. */
export interface LinePort extends RpcPort {
  /** Resolves when the other end has closed its stream, or the stream failed. */
  readonly ended: Promise<void>;
}

/**
 * @param write Writes a line, which has its line break. It may return before the line is written, but keeps the order.
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

/** Writes text to standard output. Errors are ignored: when the reader is gone, the input ends too. */
export function writeOutput(text: string): void {
  const bytes = new TextEncoder().encode(text);
  try {
    for (let at = 0; at < bytes.length;) at += Deno.stdout.writeSync(bytes.subarray(at));
  } catch {
    // The reader is gone.
  }
}

/** Passes on the messages of a stream. Lines that are no messages, such as a library's notice, are skipped. */
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
    // A broken pipe counts as the end of the stream.
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
