/** Files that appear under their final name only when they are complete. */

import { basename, dirname, join } from "node:path";
import { doing, ServiceError } from "./errors.ts";
import { openPartial } from "./partial.ts";
import { openRegularFile } from "./regular_file.ts";
import { reasonOf } from "./system_errors.ts";

/** Flushes a directory, so that a rename in it survives a power cut. */
export async function syncDirectory(path: string): Promise<void> {
  using directory = await Deno.open(path, { read: true });
  await directory.sync();
}

/** Flushes the contents of a file that another process may have written. */
export async function syncFile(path: string): Promise<void> {
  using file = await Deno.open(path, { read: true });
  await file.syncData();
}

/** Where a file or folder is written until it is complete. The name is reserved: what a user has there is replaced. */
export function partialPath(path: string): string {
  return join(dirname(path), `.svc-partial-${basename(path)}`);
}

/** Where a folder lies while another one takes its place. The name is reserved. */
export function replacedPath(path: string): string {
  return join(dirname(path), `.svc-replaced-${basename(path)}`);
}

/**
 * Writes a file in pieces: into `partialPath(path)`, then fsync, rename, and fsync of the directory. On failure it removes
 * the partial file, leaves `path` as it was, and rethrows.
 *
 * @param verify Reads the complete partial file before the rename; an error that it throws fails the write.
 * @throws {ServiceError} `path_not_found` for a path that cannot be written, `internal` for a full disk, `conflict` while
 * another process writes the same file.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * const folder = await Deno.makeTempDir(), path = `${folder}/run.json`;
 * await writeFileAtomic(path, '{"state": "running"}');
 * assert.equal(await Deno.readTextFile(path), '{"state": "running"}');
 * await Deno.remove(folder, { recursive: true });
 * ```
 */
export function writeFileAtomic(
  path: string,
  pieces: FilePieces,
  verify?: (partial_path: string) => Promise<void>,
): Promise<void> {
  const bytes = typeof pieces === "string" ? new TextEncoder().encode(pieces) : pieces;
  return doing(`write ${path}`, () => writeAndRename(path, bytes, verify));
}

/** The operations of {@link makeFolder}, so that tests can observe them. */
export interface FolderOperations {
  makeDirectory(path: string): Promise<void>;
  /** Flushes the folder in which a new folder lies. */
  syncParent(path: string): Promise<void>;
}

const systemFolders: FolderOperations = { makeDirectory, syncParent };

// Recursive: another process may have made it meanwhile.
function makeDirectory(path: string): Promise<void> {
  return Deno.mkdir(path, { recursive: true });
}

/**
 * Creates a folder and its missing parents. Each of them is on disk when this returns: what is then written in the folder
 * survives a power cut.
 *
 * @throws {ServiceError} `path_not_found` when a file is there, or nothing may be written.
 */
export async function makeFolder(path: string, operations = systemFolders): Promise<void> {
  await doing(`make the folder ${path}`, async () => {
    try {
      for (const missing of await missingFolders(path)) {
        await operations.makeDirectory(missing);
        await operations.syncParent(missing);
      }
    } catch (error) {
      if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
      throw new ServiceError("path_not_found", `Cannot make the folder ${path}: a file is there`, { path });
    }
  });
}

/** The folders to create so that there is one at a path, the outermost first. @throws `AlreadyExists` for a file there. */
async function missingFolders(path: string): Promise<string[]> {
  const missing: string[] = [];
  for (let folder = path;; folder = dirname(folder)) {
    let info: Deno.FileInfo | null = null;
    try {
      info = await Deno.stat(folder);
    } catch (error) {
      // A worker may not look further up: the outermost folder is then made with its parents.
      if (error instanceof Deno.errors.NotCapable && missing.length > 0) return missing;
      ignoreMissing(error);
    }
    if (info?.isDirectory) return missing;
    if (info) throw new Deno.errors.AlreadyExists(folder);
    missing.unshift(folder);
  }
}

/** Flushes the folder in which a new file or folder lies, if this process may read it: else that cannot be done. */
export async function syncParent(path: string): Promise<void> {
  await syncDirectory(dirname(path)).catch((error) => {
    if (!(error instanceof Deno.errors.PermissionDenied || error instanceof Deno.errors.NotCapable)) {
      throw error;
    }
  });
}

type FilePieces = Uint8Array | string | Iterable<Uint8Array> | AsyncIterable<Uint8Array>;

async function writeAndRename(
  path: string,
  pieces: Exclude<FilePieces, string>,
  verify?: (partial_path: string) => Promise<void>,
): Promise<void> {
  const partial = partialPath(path);
  await makeFolder(dirname(path));
  using file = await openPartial(partial, { kind: "file", final: path });
  try {
    for await (const piece of pieces instanceof Uint8Array ? [pieces] : pieces) {
      for (let at = 0; at < piece.length;) at += await file.write(piece.subarray(at));
    }
    await file.sync();
    await verify?.(partial);
    await Deno.rename(partial, path);
  } catch (error) {
    await Deno.remove(partial).catch(() => {});
    throw error;
  }
  await syncDirectory(dirname(path));
}

/** The file that {@link whyNotWritable} makes and removes. */
const PROBE_NAME = ".svc-writable";

/**
 * The reason why a file, or files in a folder, could not be written at a path; null when they could. Leaves nothing: it
 * tries the nearest existing parent folder with an empty file.
 */
export async function whyNotWritable(path: string, kind: "file" | "folder"): Promise<string | null> {
  const there = await Deno.stat(path).catch(() => null);
  if (there && kind === "file" && !there.isFile) return "it is not a regular file";
  if (there && kind === "folder" && !there.isDirectory) return "it is not a folder";
  let folder = there && kind === "folder" ? path : dirname(path);
  let info = await Deno.stat(folder).catch(() => null);
  while (!info && folder !== dirname(folder)) {
    if (await Deno.lstat(folder).catch(() => null)) return `${folder} is a link to nothing`;
    folder = dirname(folder);
    info = await Deno.stat(folder).catch(() => null);
  }
  if (!info?.isDirectory) return `${folder} is not a folder`;
  // One name for all probes: what a probe leaves that dies here, the next one removes.
  const probe = join(folder, PROBE_NAME);
  try {
    (await Deno.open(probe, { write: true, create: true })).close();
    await Deno.remove(probe).catch(ignoreMissing);
    return null;
  } catch (error) {
    return `nothing can be written in ${folder} (${reasonOf(error)})`;
  }
}

/** Whether anything exists at a path. A broken link counts. */
export async function isPresent(path: string): Promise<boolean> {
  return await Deno.lstat(path).then(() => true, () => false);
}

/** For `catch`: ignores that a file is missing, for removing and copying. */
export function ignoreMissing(error: unknown): void {
  if (!(error instanceof Deno.errors.NotFound)) throw error;
}

/** The SHA-256 of a file in lower-case hex. Reads in pieces. @throws {ServiceError} `path_not_found`. */
export async function sha256OfFile(path: string): Promise<string> {
  const { createHash } = await import("node:crypto");
  const hash = createHash("sha256");
  using file = await openRegularFile(path);
  const piece = new Uint8Array(1 << 20);
  for (let n = await file.read(piece); n !== null; n = await file.read(piece)) {
    hash.update(piece.subarray(0, n));
  }
  return hash.digest("hex");
}
