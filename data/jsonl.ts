/** Reads a JSONL file line by line with line numbers: UTF-8, with or without a byte order mark. */

import { ServiceError } from "../core/errors.ts";
import { openRegularFile } from "../core/regular_file.ts";
import { isJsonObject, parseJson } from "../core/json.ts";

/** The longest line in bytes. A longer line is refused by its number before all of it is in memory. */
export const MAX_DATA_LINE_BYTES = 16 << 20;

/** One line of a JSONL file that is not blank, without its line end. */
export interface JsonLine {
  /** The line number, from 1. */
  line: number;
  text: string;
}

/** A line that cannot be read. */
export interface BrokenLine {
  line: number;
  /** `data_invalid` with file and line. */
  error: ServiceError;
}

/** The place of a line: reading can start there. */
export interface LineStart {
  /** From 1. */
  line: number;
  /** The offset of its first byte. */
  offset: number;
}

export interface ReadLinesOptions {
  max_line_bytes?: number;
  /** The name of the file in messages; absent: its path. */
  name?: string;
  /** Absent: the first line. */
  from?: LineStart;
  /** Called with every line's place before the line is returned. */
  onStart?: (start: LineStart) => void;
}

const LF = 10, CR = 13;

/** A line's bytes; null when it is longer than allowed. */
interface RawLine extends LineStart {
  bytes: Uint8Array | null;
}

/** Splits bytes at LF, CR LF and CR. Drops the bytes of a line above the limit. */
class LineSplitter {
  #pieces: Uint8Array[] = [];
  #length = 0;
  #after_cr = false;
  #line: number;
  /** The offset of the first byte of the line. */
  #start: number;
  /** The offset of the next pushed byte. */
  #at: number;

  constructor(from: LineStart, readonly max_line_bytes: number) {
    this.#line = from.line;
    this.#start = from.offset;
    this.#at = from.offset;
  }

  *push(bytes: Uint8Array): Generator<RawLine> {
    let from = 0;
    if (this.#after_cr && bytes[0] === LF) this.#start = this.#at + ++from;
    let lf = bytes.indexOf(LF, from), cr = bytes.indexOf(CR, from);
    while (lf >= 0 || cr >= 0) {
      const is_lf = cr < 0 || (lf >= 0 && lf < cr), end = is_lf ? lf : cr;
      this.#hold(bytes.slice(from, end));
      from = !is_lf && bytes[end + 1] === LF ? end + 2 : end + 1;
      yield this.end(this.#at + from);
      if (lf >= 0 && lf < from) lf = bytes.indexOf(LF, from);
      if (cr >= 0 && cr < from) cr = bytes.indexOf(CR, from);
    }
    this.#after_cr = bytes.at(-1) === CR;
    this.#hold(bytes.slice(from));
    this.#at += bytes.length;
  }

  /** The line so far. @param next The offset of the next line. */
  end(next = this.#at): RawLine {
    let bytes: Uint8Array | null = null;
    if (this.#length <= this.max_line_bytes) {
      bytes = new Uint8Array(this.#length);
      let at = 0;
      for (const piece of this.#pieces) {
        bytes.set(piece, at);
        at += piece.length;
      }
    }
    const raw = { line: this.#line++, offset: this.#start, bytes };
    this.#pieces = [];
    this.#length = 0;
    this.#start = next;
    return raw;
  }

  #hold(piece: Uint8Array): void {
    this.#length += piece.length;
    if (this.#length > this.max_line_bytes) this.#pieces = [];
    else if (piece.length > 0) this.#pieces.push(piece);
  }
}

/**
 * All lines except blank ones at the end of the file, and lines that cannot be read: bytes that are not UTF-8, a line
 * above `max_line_bytes`, a blank line before the last (the first of several).
 *
 * @throws {ServiceError} `path_not_found`.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * const path = await Deno.makeTempFile({ suffix: ".jsonl" });
 * await Deno.writeTextFile(path, '{"text": "a"}\n\n{"text": "b"}\n');
 * for await (const found of readAllLines(path)) {
 *   if ("error" in found) assert.match(found.error.message, /:2: the line is blank$/);
 *   else assert.equal(found.text, found.line === 1 ? '{"text": "a"}' : '{"text": "b"}');
 * }
 * await Deno.remove(path);
 * ```
 */
export async function* readAllLines(
  path: string,
  options: ReadLinesOptions = {},
): AsyncGenerator<JsonLine | BrokenLine> {
  const { max_line_bytes = MAX_DATA_LINE_BYTES, name = path, from = { line: 1, offset: 0 }, onStart } =
    options;
  using file = await openRegularFile(path);
  if (from.offset > 0) file.seek(from.offset);
  const splitter = new LineSplitter(from, max_line_bytes);
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  const broken = (line: number, reason: string): BrokenLine => {
    const error = new ServiceError("data_invalid", `Cannot read ${name}:${line}: ${reason}`, {
      path: name,
      line,
    });
    return { line, error };
  };
  let blank: number | null = null;
  const check = function* ({ line, offset, bytes }: RawLine): Generator<JsonLine | BrokenLine> {
    let found: JsonLine | BrokenLine;
    if (bytes === null) found = broken(line, `the line is longer than ${max_line_bytes} bytes`);
    else {
      try {
        const text = decoder.decode(bytes);
        found = { line, text: line === 1 && text.startsWith("\ufeff") ? text.slice(1) : text };
      } catch {
        found = broken(line, "the bytes are not UTF-8");
      }
    }
    if ("text" in found && found.text.trim() === "") {
      blank ??= line;
      return;
    }
    if (blank !== null) yield broken(blank, "the line is blank");
    blank = null;
    onStart?.({ line, offset });
    yield found;
  };
  const piece = new Uint8Array(1 << 16);
  for (let n = await file.read(piece); n !== null; n = await file.read(piece)) {
    for (const raw of splitter.push(piece.subarray(0, n))) yield* check(raw);
  }
  yield* check(splitter.end());
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
  if (isJsonObject(value)) return value;
  throw new ServiceError("data_invalid", `Cannot read ${path}:${line}: not a JSON object`, { path, line });
}
