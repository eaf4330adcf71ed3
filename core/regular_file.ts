/** Files that are opened for reading without a risk: regular files only, and of checked ones no other in their place. */

import { AsyncLocalStorage } from "node:async_hooks";
import { closeSync, constants, fstat, open, read, readSync, type Stats } from "node:fs";
import { lstat } from "node:fs/promises";
import { doing, ServiceError, withDetails } from "./errors.ts";

/** A file as it was checked, so that opening it can tell whether it is still the same one. */
export interface CheckedFile {
  /** The real path. */
  path: string;
  dev: number;
  ino: number;
}

/**
 * Checks that a path leads to a regular file without a link, and remembers which file that is.
 *
 * The path is resolved before and after the look at the file. A folder above it that is exchanged for a link exactly
 * between the two, and back, is not seen: only `openat2` of Linux could, which Deno does not have.
 *
 * @param path A real path.
 * @throws {ServiceError} `path_not_found`, with the path as `details.path`.
 */
export async function checkedFile(path: string): Promise<CheckedFile> {
  const checking = doing(`read ${path}`, async () => {
    await refuseLinks(path);
    const found = await lstat(path);
    await refuseLinks(path);
    if (!found.isFile()) throw notRegular(path);
    return { path, dev: found.dev, ino: found.ino };
  }, "path_not_found");
  return await withDetails({ path }, checking);
}

async function refuseLinks(path: string): Promise<void> {
  const real = await Deno.realPath(path);
  if (real !== path) throw refused(path, `it is a link to ${real}, or lies in a folder that is one`);
}

function refused(path: string, reason: string): ServiceError {
  return new ServiceError("path_not_found", `Cannot read ${path}: ${reason}`);
}

const notRegular = (path: string) => refused(path, "it is not a regular file");

const checked_files = new AsyncLocalStorage<ReadonlyMap<string, CheckedFile>>();

/**
 * Runs work, however deep, for which {@link openRegularFile} takes these paths as these files, also where it is given
 * only the path. Other work of the process is not concerned.
 */
export function withCheckedFiles<T>(files: readonly CheckedFile[], work: () => T): T {
  return checked_files.run(new Map(files.map((file) => [file.path, file])), work);
}

/** The file among checked ones with a path; the path itself when none has it. */
export function asChecked(path: string, files: readonly CheckedFile[]): string | CheckedFile {
  return files.find((file) => file.path === path) ?? path;
}

/** The facts about an open file that identify its contents. */
type FileFacts = Pick<Stats, "dev" | "ino" | "size" | "mtime">;

/** The most bytes of one read of the system. */
const MAX_READ_BYTES = 1 << 30;

/** The bytes that {@link RegularFile.readAll} reads at a time. */
const PIECE_BYTES = 1 << 16;

/** A regular file that is open for reading, with the operations of `Deno.FsFile`. */
export class RegularFile implements Disposable {
  readonly #descriptor: number;
  #position = 0;
  #is_open = true;

  /** @param descriptor Of an open file, which this object closes. */
  constructor(descriptor: number) {
    this.#descriptor = descriptor;
  }

  /** Reads the next bytes. @returns Their number; null at the end of the file. */
  async read(into: Uint8Array): Promise<number | null> {
    if (into.length === 0) return 0;
    const length = Math.min(into.length, MAX_READ_BYTES), position = this.#position;
    const count = await new Promise<number>((resolve, reject) => {
      read(
        this.#descriptor,
        into,
        0,
        length,
        position,
        (error, n) => error ? reject(error) : resolve(n ?? 0),
      );
    });
    this.#position = position + count;
    return count === 0 ? null : count;
  }

  /** Like {@link read}, on this thread. */
  readSync(into: Uint8Array): number | null {
    if (into.length === 0) return 0;
    const count = readSync(this.#descriptor, into, 0, Math.min(into.length, MAX_READ_BYTES), this.#position);
    this.#position += count;
    return count === 0 ? null : count;
  }

  /** Reads from the next byte to the end. */
  async readAll(): Promise<Uint8Array<ArrayBuffer>> {
    const pieces: Uint8Array<ArrayBuffer>[] = [];
    while (true) {
      const piece = new Uint8Array(PIECE_BYTES), count = await this.read(piece);
      if (count === null) return new Uint8Array(await new Blob(pieces).arrayBuffer());
      pieces.push(piece.subarray(0, count));
    }
  }

  /** The next read begins at this byte. */
  seek(offset: number): void {
    this.#position = offset;
  }

  async stat(): Promise<FileFacts> {
    return await factsOf(this.#descriptor);
  }

  close(): void {
    if (this.#is_open) closeSync(this.#descriptor);
    this.#is_open = false;
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

function factsOf(descriptor: number): Promise<Stats> {
  return new Promise((resolve, reject) => {
    fstat(descriptor, (error, facts) => error ? reject(error) : resolve(facts));
  });
}

/** Opens without waiting for a writer: a pipe that is there now opens at once, and is refused. */
function openNow(path: string): Promise<number> {
  // Windows has no such flag, and no pipes among its files.
  const flags = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0);
  return new Promise((resolve, reject) => {
    open(path, flags, (error, descriptor) => error ? reject(error) : resolve(descriptor!));
  });
}

/**
 * Opens a file for reading. Refuses folders, pipes and devices, which could block for ever, and a file that has taken
 * the place of a checked one: one that is given, or one of {@link withCheckedFiles}.
 *
 * @throws {ServiceError} `path_not_found`, with the path as `details.path`.
 */
export async function openRegularFile(file: string | CheckedFile): Promise<RegularFile> {
  const path = typeof file === "string" ? file : file.path;
  const checked = typeof file === "string" ? checked_files.getStore()?.get(file) : file;
  const opening = doing(`read ${path}`, async () => {
    // Opening a device may have an effect.
    if (!(await Deno.stat(path)).isFile) throw notRegular(path);
    const descriptor = await openNow(path), opened = new RegularFile(descriptor);
    try {
      const found = await factsOf(descriptor);
      if (!found.isFile()) throw notRegular(path);
      if (!checked || found.dev === checked.dev && found.ino === checked.ino) return opened;
      throw refused(path, "another file has taken its place");
    } catch (error) {
      opened.close();
      throw error;
    }
  }, "path_not_found");
  return await withDetails({ path }, opening);
}
