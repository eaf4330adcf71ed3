/** The content of a download: a fixed number of bytes, also of a file that grows, readable from any offset. */

import { createHash } from "node:crypto";
import { crc32 } from "node:zlib";
import { ServiceError, systemError } from "../../core/errors.ts";
import { openRegularFile, type RegularFile } from "../../core/regular_file.ts";
import { zipParts, zipSize } from "../../core/zip.ts";

/** A snapshot of a file or of something made like one. */
export interface Content {
  size_bytes: number;
  /** Differs whenever the bytes do; letters, digits, dots and dashes. */
  version: string;
  modified_ms: number;
  /** The name of a file that only grows, by complete lines: its start stays as it was. Absent: all of it may change. */
  grows?: string;
  /** The bytes from `start` to before `end`. @throws {ServiceError} When they are no longer those of the snapshot. */
  read(start: number, end: number): AsyncIterable<Uint8Array<ArrayBuffer>>;
}

const PIECE_BYTES = 1 << 18;

/** A text. */
export function textContent(
  text: string,
  { version, modified_ms }: Pick<Content, "version" | "modified_ms">,
): Content {
  const bytes = new TextEncoder().encode(text);
  return {
    size_bytes: bytes.length,
    version,
    modified_ms,
    read: (start, end) => ReadableStream.from([bytes.subarray(start, end)]),
  };
}

/**
 * The bytes that a file has now; null when there is no such regular file.
 *
 * @param ends `line`: only complete lines, for a file that a process appends to.
 * @param most The most bytes, from the start.
 */
export async function fileContent(
  path: string,
  ends: "file" | "line" = "file",
  most = Infinity,
): Promise<Content | null> {
  let file: RegularFile;
  try {
    file = await openRegularFile(path);
  } catch (error) {
    if (error instanceof ServiceError && error.code === "path_not_found") return null;
    throw error;
  }
  using _closing = file;
  const { mtime, ino, dev, ...info } = await file.stat();
  const size = Math.min(info.size, most);
  const size_bytes = ends === "line" ? await endOfLines(file, size) : size,
    modified_ms = mtime.getTime();
  const identity = `${dev}-${ino}`;
  return {
    size_bytes,
    version: `${identity}-${size_bytes}-${ends === "line" ? "lines" : modified_ms}`,
    modified_ms,
    // The number of a removed file is used again, but its path is not: it has the run's id.
    ...(ends === "line" && { grows: `${identity}-${path}` }),
    read: (start, end) => readPart(path, { start, end, identity }),
  };
}

/** The end of the last complete line before `size`. */
async function endOfLines(file: RegularFile, size: number): Promise<number> {
  const piece = new Uint8Array(PIECE_BYTES);
  for (let end = size; end > 0;) {
    const start = Math.max(0, end - PIECE_BYTES);
    file.seek(start);
    const n = await readFull(file, piece.subarray(0, end - start));
    const at = piece.subarray(0, n).lastIndexOf(10);
    if (at >= 0) return start + at + 1;
    end = start;
  }
  return 0;
}

/** Reads until the buffer is full or the file ends. @returns The number of bytes. */
async function readFull(file: RegularFile, into: Uint8Array): Promise<number> {
  let at = 0;
  while (at < into.length) {
    const n = await file.read(into.subarray(at));
    if (n === null) break;
    at += n;
  }
  return at;
}

async function* readPart(
  path: string,
  { start, end, identity }: { start: number; end: number; identity: string },
): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  using file = await openRegularFile(path);
  const { dev, ino, size } = await file.stat();
  if (`${dev}-${ino}` !== identity || size < end) throw replaced(path);
  file.seek(start);
  for (let at = start; at < end;) {
    const piece = new Uint8Array(Math.min(PIECE_BYTES, end - at));
    if (await readFull(file, piece) < piece.length) throw replaced(path);
    yield piece;
    at += piece.length;
  }
}

function replaced(path: string): ServiceError {
  return new ServiceError("conflict", `Cannot read ${path}: it was replaced meanwhile`, { path });
}

/** A file of an archive. */
export interface PackedFile {
  name: string;
  content: Content;
}

/**
 * The files of a folder, by name, oldest name first; empty when there is no folder. Links and folders in it are left out.
 *
 * @param isWanted By name. @param ends How each file ends; see {@link fileContent}.
 */
export async function folderFiles(
  directory: string,
  isWanted: (name: string) => boolean,
  ends: (name: string) => "file" | "line" = () => "file",
): Promise<PackedFile[]> {
  const names: string[] = [];
  try {
    for await (const { name, isFile } of Deno.readDir(directory)) {
      if (isFile && isWanted(name)) names.push(name);
    }
  } catch (error) {
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) return [];
    throw systemError(`read the folder ${directory}`, error);
  }
  const files: PackedFile[] = [];
  for (const name of names.sort()) {
    const content = await fileContent(`${directory}/${name}`, ends(name));
    if (content) files.push({ name, content });
  }
  return files;
}

/** Checksums of files by their versions, so that a large archive is read once and not at every request. */
export class Checksums {
  readonly #known = new Map<string, number>();
  readonly #most: number;

  constructor(most = 20_000) {
    this.#most = most;
  }

  async of(content: Content): Promise<number> {
    const known = this.#known.get(content.version);
    if (known !== undefined) return known;
    let sum = 0;
    for await (const piece of content.read(0, content.size_bytes)) sum = crc32(piece, sum);
    if (this.#known.size >= this.#most) this.#known.delete(this.#known.keys().next().value!);
    this.#known.set(content.version, sum);
    return sum;
  }
}

/** An archive of files, without compression. Their checksums are computed when it is read. */
export function packedContent(files: readonly PackedFile[], checksums: Checksums): Content {
  const versions = files.map(({ name, content }) => `${name}:${content.version}`).join("\n");
  return {
    size_bytes: zipSize(zipParts(files.map((file) => entryOf(file, 0)))),
    version: createHash("sha256").update(versions).digest("hex").slice(0, 32),
    modified_ms: Math.max(0, ...files.map(({ content }) => content.modified_ms)),
    async *read(start, end) {
      const sums: number[] = [];
      for (const { content } of files) sums.push(await checksums.of(content));
      let at = 0;
      for (const part of zipParts(files.map((file, i) => entryOf(file, sums[i]!)))) {
        const size = part instanceof Uint8Array ? part.length : part.size_bytes;
        const from = Math.max(0, start - at), to = Math.min(size, end - at);
        at += size;
        if (from >= to) continue;
        if (part instanceof Uint8Array) yield part.slice(from, to);
        else yield* files[part.entry]!.content.read(from, to);
      }
    },
  };
}

function entryOf({ name, content }: PackedFile, crc32: number) {
  const { size_bytes, modified_ms } = content;
  return { name, size_bytes, modified_ms, crc32 };
}
