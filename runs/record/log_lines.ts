/** The lines of a log that may still grow. */

import { Buffer } from "node:buffer";

const READ_BYTES = 1 << 16;

/** A place between two lines. */
export interface LogPlace {
  /** The number of the event before it; 0 at the start. */
  seq: number;
  /** Bytes from the start of the file. */
  offset: number;
}

/** The start of a log. */
export const LOG_START: LogPlace = { seq: 0, offset: 0 };

/** The complete lines of a file from an offset on, each with the offset of its end. A missing file has none. */
export async function* linesFrom(path: string, from: number): AsyncGenerator<{ line: string; end: number }> {
  let file: Deno.FsFile;
  try {
    file = await Deno.open(path, { read: true });
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return;
    throw error;
  }
  using _closing = file;
  await file.seek(from, Deno.SeekMode.Start);
  const piece = new Uint8Array(READ_BYTES), decoder = new TextDecoder();
  let rest: Uint8Array[] = [], end = from;
  for (let n = await file.read(piece); n !== null; n = await file.read(piece)) {
    let start = 0;
    for (let at = piece.indexOf(10); at >= 0 && at < n; at = piece.indexOf(10, start)) {
      const parts = [...rest, piece.subarray(start, at)];
      rest = [];
      const text = parts.length === 1 ? parts[0]! : Buffer.concat(parts);
      end += text.length + 1;
      yield { line: decoder.decode(text), end };
      start = at + 1;
    }
    if (start < n) rest.push(piece.slice(start, n));
  }
}
