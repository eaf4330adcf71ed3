/**
 * The file of a rollout's recording: JSON lines, compressed with gzip. The first line is the header and the last has the
 * hashes of all others.
 */

import { createHash } from "node:crypto";
import { join } from "node:path";
import { doing, ServiceError } from "../../core/errors.ts";
import { writeFileAtomic } from "../../core/files.ts";
import { LineReader, LineTooLong } from "../../core/line_reader.ts";
import {
  decode,
  encode,
  type Entry,
  entrySchema,
  headerSchema,
  RECORDING_FORMAT,
  type RecordingHeader,
} from "./entries.ts";

/** The longest line in bytes: one answer. */
export const MAX_RECORDED_LINE_BYTES = 64 << 20;

/** Lines are compressed in pieces of about so many characters. */
const PIECE_CHARS = 1 << 18;

/** The folder of recordings in a run's folder. */
export const RECORDINGS = "recordings";

/** All names that a run uses in its folder of recordings. */
export const RECORDING_NAMES = /^(\.svc-partial-)?(update|evaluation)_\d{6,}\.jsonl\.gz$/;

/** The file of a rollout's recording. */
export const recordingPath = (folder: string, rollout: string) => join(folder, `${rollout}.jsonl.gz`);

/** A rollout's recording. */
export interface Recording {
  header: RecordingHeader;
  entries: Entry[];
}

/** The number of characters of a line's hash. */
const HASH_CHARS = 16;

const hashOf = (line: string) => createHash("sha256").update(line).digest("hex").slice(0, HASH_CHARS);

/**
 * Writes a recording under its final name when it is complete.
 *
 * @param entries The lines of entries, each by {@link encode}.
 */
export async function writeRecording(
  folder: string,
  header: RecordingHeader,
  entries: readonly string[],
): Promise<void> {
  const bytes = linePieces([encode(header), ...entries]).pipeThrough(new CompressionStream("gzip"));
  await writeFileAtomic(recordingPath(folder, header.rollout), bytes);
}

/** The lines and the last line in pieces. */
function linePieces(lines: readonly string[]): ReadableStream<Uint8Array<ArrayBuffer>> {
  const encoder = new TextEncoder(), hashes: string[] = [];
  const pieces = function* () {
    let piece = "";
    for (const line of lines) {
      hashes.push(hashOf(line));
      piece += `${line}\n`;
      if (piece.length < PIECE_CHARS) continue;
      yield encoder.encode(piece);
      piece = "";
    }
    yield encoder.encode(`${piece}${JSON.stringify({ sha256: hashes })}\n`);
  };
  return ReadableStream.from(pieces());
}

/**
 * Reads and checks a recording.
 *
 * @throws {ServiceError} `path_not_found`; `format_invalid`, with the line, for one that is torn or changed, or of another
 * version.
 */
export async function readRecording(path: string): Promise<Recording> {
  const lines: string[] = [];
  await readLines(path, (line) => {
    lines.push(line);
    return true;
  });
  const hashes = hashesOf(lines.pop());
  if (!hashes) throw damaged(path, lines.length + 1, "it is not complete");
  lines.forEach((line, i) => {
    if (hashOf(line) !== hashes[i]) throw damaged(path, i + 1, "it was changed");
  });
  if (hashes.length !== lines.length) throw damaged(path, lines.length + 1, "lines are missing");
  const header = headerOf(path, lines[0]);
  const entries = lines.slice(1).map((line, i) => {
    const entry = entrySchema.safeParse(parsed(line)).data;
    if (!entry) throw damaged(path, i + 2, "it is no answer");
    return entry;
  });
  return { header, entries };
}

/** Only the first line of a recording. @throws {ServiceError} Like {@link readRecording}. */
export async function readRecordingHeader(path: string): Promise<RecordingHeader> {
  let first: string | undefined;
  await readLines(path, (line) => {
    first = line;
    return false;
  });
  return headerOf(path, first);
}

/** Passes on lines until `take` returns false. */
async function readLines(path: string, take: (line: string) => boolean): Promise<void> {
  const file = await doing(`read ${path}`, () => Deno.open(path, { read: true }));
  const stream = file.readable.pipeThrough(new DecompressionStream("gzip"));
  const reader = new LineReader(stream, MAX_RECORDED_LINE_BYTES);
  let count = 0;
  try {
    for (let line = await reader.next(); line !== null; line = await reader.next()) {
      count++;
      if (!take(line)) return;
    }
  } catch (error) {
    if (error instanceof LineTooLong) throw damaged(path, count + 1, error.message);
    throw damaged(path, count + 1, "it is torn or was changed");
  } finally {
    await reader.cancel();
  }
}

function headerOf(path: string, line: string | undefined): RecordingHeader {
  const value = line === undefined ? null : parsed(line);
  const header = headerSchema.safeParse(value).data;
  if (header) return header;
  const format = (value as { format?: unknown } | null)?.format;
  const reason = typeof format === "number"
    ? `it has version ${format}, not ${RECORDING_FORMAT}`
    : "it begins no recording";
  throw damaged(path, 1, reason);
}

function hashesOf(line: string | undefined): string[] | null {
  const { sha256 = null } = (line === undefined ? {} : parsed(line) ?? {}) as { sha256?: unknown };
  return Array.isArray(sha256) ? sha256 : null;
}

function parsed(line: string): unknown {
  try {
    return decode(line);
  } catch {
    return null;
  }
}

function damaged(path: string, line: number, reason: string): ServiceError {
  return new ServiceError(
    "format_invalid",
    `Cannot replay the recording ${path}: line ${line}: ${reason}; record the run again`,
    { path, line },
  );
}
