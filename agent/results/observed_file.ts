/** Reads files of the observe directory line by line, in bounded memory. */

import { isTooDeep } from "../../core/json.ts";
import { type ObservedUpdate, observedUpdateSchema } from "./observed.ts";

/** The longest line in bytes; a longer one is skipped. */
export const MAX_OBSERVED_LINE_BYTES = 8 << 20;

/** The deepest nesting of a line: arguments of calls have their own limit, and are nested in their line. */
export const MAX_LINE_DEPTH = 128;

/** Lines are found in so many bytes without a pause. */
const READ_BYTES = 1 << 17;

/** The end of a line. */
export const LF = 10;

/** A place in a file. */
export interface LinePlace {
  offset: number;
  length: number;
}

/** A line without its end. */
export interface ScannedLine extends LinePlace {
  /** The first bytes as text, enough for {@link headOf}. */
  head: string;
  /** The line, if it is at hand without another read; valid until the next list of lines. */
  bytes: Uint8Array | null;
  /** False for the last line of a file that does not end in a line feed. */
  is_ended: boolean;
}

const HEAD_BYTES = 96;

/**
 * The lines of an open file that are not empty, from a byte offset on, in lists. Reads in pieces, between which other
 * work of the thread goes on.
 */
export async function* scanLines(file: Deno.FsFile, from = 0): AsyncGenerator<ScannedLine[]> {
  const piece = new Uint8Array(READ_BYTES), decoder = new TextDecoder();
  const head = new Uint8Array(HEAD_BYTES);
  let offset = from, length = 0;
  await file.seek(from, Deno.SeekMode.Start);
  const take = (bytes: Uint8Array) => {
    if (length < HEAD_BYTES) head.set(bytes.subarray(0, HEAD_BYTES - length), length);
    length += bytes.length;
  };
  const scanned = (is_ended: boolean, bytes: Uint8Array | null): ScannedLine => {
    const start = decoder.decode(head.subarray(0, Math.min(length, HEAD_BYTES)));
    return { offset, length, head: start, bytes, is_ended };
  };
  for (let n = await file.read(piece); n !== null; n = await file.read(piece)) {
    const lines: ScannedLine[] = [];
    for (let start = 0; start < n;) {
      const found = piece.subarray(0, n).indexOf(LF, start);
      const end = found < 0 ? n : found;
      const bytes = length === 0 ? piece.subarray(start, end) : null;
      take(piece.subarray(start, end));
      if (found < 0) break;
      if (length > 0) lines.push(scanned(true, bytes));
      offset += length + 1;
      length = 0;
      start = found + 1;
    }
    if (lines.length === 0) continue;
    // The reader of these lines may move the position of the file.
    const next = await file.seek(0, Deno.SeekMode.Current);
    yield lines;
    await file.seek(next, Deno.SeekMode.Start);
  }
  if (length > 0) yield [scanned(false, null)];
}

/** The bytes of a line; null when it is too long or the file ends within it. */
export async function readBytes(
  file: Deno.FsFile,
  { offset, length, bytes: known }: LinePlace & Partial<ScannedLine>,
): Promise<Uint8Array | null> {
  if (known) return known;
  if (length > MAX_OBSERVED_LINE_BYTES) return null;
  const bytes = new Uint8Array(length);
  await file.seek(offset, Deno.SeekMode.Start);
  for (let at = 0; at < length;) {
    const n = await file.read(bytes.subarray(at));
    if (n === null) return null;
    at += n;
  }
  return bytes;
}

/** The value of a line; null when it is too long, no JSON, or too deep. */
export async function readLine(file: Deno.FsFile, place: LinePlace & Partial<ScannedLine>): Promise<unknown> {
  const bytes = await readBytes(file, place);
  if (!bytes) return null;
  try {
    const value: unknown = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
    return isTooDeep(value, MAX_LINE_DEPTH) ? null : value;
  } catch {
    return null;
  }
}

/** The kind of a line in an update's file, and the group, member or part that it is about. */
export interface LineHead {
  kind: "facts" | "texts" | "part";
  group: number;
  /** Null: the line is about the group. */
  member: number | null;
  /** The position of a part's first token. */
  start: number;
}

const HEAD = /^\{"group":(\d{1,9})(?:,"member":(\d{1,9})(?:,"start":(\d{1,9}))?)?,"(facts|texts|part)":/;

/** The head of a line in an update's file; null for any other line. */
export function headOf(head: string): LineHead | null {
  const match = HEAD.exec(head);
  if (!match) return null;
  const [, group, member, start, kind] = match;
  if ((kind === "part") !== (start !== undefined) || (kind === "facts" && member !== undefined)) return null;
  return {
    kind: kind as LineHead["kind"],
    group: Number(group),
    member: member === undefined ? null : Number(member),
    start: Number(start ?? 0),
  };
}

/** The entry of a line of the index; null for a line of another form. */
export function indexEntry(line: unknown): ObservedUpdate | null {
  return observedUpdateSchema.safeParse(line).data ?? null;
}
