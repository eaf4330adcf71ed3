/** Reads a JSONL file line by line with line numbers: UTF-8, with or without a byte order mark. */

import { ServiceError } from "../core/errors.ts";
import { openRegularFile } from "../core/files.ts";
import { parseJson } from "../core/json.ts";

/** The longest line in bytes. A longer line is refused by its number before all of it is in memory. */
export const MAX_LINE_BYTES = 16 << 20;

/** One line of a JSONL file that is not blank, without its line end. */
export interface JsonLine {
  /** The line number, from 1. */
  line: number;
  text: string;
}

const LF = 10, CR = 13;

/** Splits bytes at LF, CR LF and CR. Refuses a line above the limit. */
class LineSplitter {
  #pieces: Uint8Array[] = [];
  #length = 0;
  #after_cr = false;
  #line = 0;

  constructor(readonly path: string, readonly max_line_bytes: number) {}

  *push(bytes: Uint8Array): Generator<[number, Uint8Array]> {
    let from = 0;
    for (let i = 0; i < bytes.length; i++) {
      const byte = bytes[i]!;
      if (byte === LF && this.#after_cr) from = i + 1;
      else if (byte === LF || byte === CR) {
        this.#hold(bytes.slice(from, i));
        from = i + 1;
        yield this.end();
      }
      this.#after_cr = byte === CR;
    }
    this.#hold(bytes.slice(from));
  }

  end(): [number, Uint8Array] {
    const whole = new Uint8Array(this.#length);
    let at = 0;
    for (const piece of this.#pieces) {
      whole.set(piece, at);
      at += piece.length;
    }
    this.#pieces = [];
    this.#length = 0;
    return [++this.#line, whole];
  }

  #hold(piece: Uint8Array): void {
    this.#length += piece.length;
    if (this.#length > this.max_line_bytes) {
      throw new ServiceError(
        "data_invalid",
        `Cannot read ${this.path}:${this.#line + 1}: the line is longer than ${this.max_line_bytes} bytes`,
        { path: this.path, line: this.#line + 1 },
      );
    }
    if (piece.length > 0) this.#pieces.push(piece);
  }
}

/**
 * All lines except blank ones at the end of the file.
 *
 * @throws {ServiceError} `path_not_found`; `data_invalid` for bytes that are not UTF-8, a line above `max_line_bytes`,
 * or a blank line before the last, each with file and line.
 */
export async function* readLines(
  path: string,
  options: { max_line_bytes?: number } = {},
): AsyncGenerator<JsonLine> {
  using file = await openRegularFile(path);
  const splitter = new LineSplitter(path, options.max_line_bytes ?? MAX_LINE_BYTES);
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  const refuse = (line: number, reason: string) =>
    new ServiceError("data_invalid", `Cannot read ${path}:${line}: ${reason}`, { path, line });
  let blank: number | null = null;
  const check = ([line, bytes]: [number, Uint8Array]): JsonLine | null => {
    let text: string;
    try {
      text = decoder.decode(bytes);
    } catch {
      throw refuse(line, "the bytes are not UTF-8");
    }
    if (line === 1 && text.startsWith("\ufeff")) text = text.slice(1);
    if (text.trim() === "") {
      blank ??= line;
      return null;
    }
    if (blank !== null) throw refuse(blank, "the line is blank");
    return { line, text };
  };
  const piece = new Uint8Array(1 << 16);
  for (let n = await file.read(piece); n !== null; n = await file.read(piece)) {
    for (const raw of splitter.push(piece.subarray(0, n))) {
      const checked = check(raw);
      if (checked) yield checked;
    }
  }
  const last = check(splitter.end());
  if (last) yield last;
}

/** The object of one line. @throws {ServiceError} `data_invalid` with file and line. */
export function parseObject(path: string, { line, text }: JsonLine): Record<string, unknown> {
  let value: unknown;
  try {
    value = parseJson(text);
  } catch (error) {
    const reason = `not JSON (${(error as Error).message})`;
    throw new ServiceError("data_invalid", `Cannot read ${path}:${line}: ${reason}`, { path, line });
  }
  if (typeof value === "object" && value !== null && !Array.isArray(value)) {
    return value as Record<string, unknown>;
  }
  throw new ServiceError("data_invalid", `Cannot read ${path}:${line}: not a JSON object`, { path, line });
}
