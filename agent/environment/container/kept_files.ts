/** The protected files of a container's workspace: kept as an archive, and restored in the copy that is verified. */

import { type Clock, systemClock } from "../../../core/clock.ts";
import { ServiceError } from "../../../core/errors.ts";
import { isAdded, isCache, isKept, type Protection } from "../protect_globs.ts";
import { MAX_PROTECTED_BYTES } from "../protected_files.ts";
import type { ContainerCall, ContainerReply, KeptOutput, RunningContainer } from "./container.ts";

/** The time for packing, copying or restoring a workspace. */
export const COPY_TIMEOUT_MS = 60_000;

/** The most bytes of a workspace's copy, which is a file; never more than the container's memory. */
export const MAX_COPY_BYTES = 1 << 30;

/** A copy is sent in pieces of so many bytes. */
const PIECE_BYTES = 1 << 20;

/** Bytes of an archive besides those of the files, as a share of the limit. */
const ARCHIVE_OVERHEAD = 1.25;

/** The most bytes of a list of paths. */
const MAX_LIST_BYTES = 8 << 20;

type Bytes = Uint8Array<ArrayBuffer>;

/** What is done with a container's files, and when it is given up. */
export interface FileWork {
  signal: AbortSignal;
  /** Default: the system's. */
  clock?: Clock;
}

/** Some files and links of a workspace. */
export interface KeptFiles {
  protection: Protection;
  paths: readonly string[];
  archive: Bytes;
}

/**
 * Packs the protected files and links, and the files of the workspace to which these links lead.
 *
 * @throws {ServiceError} `environment_failed`.
 */
export async function keepFiles(
  container: RunningContainer,
  protection: Protection,
  work: FileWork,
): Promise<KeptFiles> {
  if (protection.globs.length === 0) return { protection, paths: [], archive: new Uint8Array() };
  const entries = (await listed(container, "f_files", work)).split("\0"), links = entries.indexOf("links");
  const paths = new Set(entries.slice(0, links).map(fromRoot).filter((path) => isKept(protection, path)));
  for (let i = links + 1; i + 1 < entries.length; i += 2) {
    const link = fromRoot(entries[i]!), target = entries[i + 1]!;
    if (!isKept(protection, link)) continue;
    paths.add(link);
    // Else it leads outside, or to no file.
    if (target.startsWith("/work/")) paths.add(target.slice("/work/".length));
  }
  if (paths.size === 0) return { protection, paths: [], archive: new Uint8Array() };
  const max_output_bytes = Math.floor(MAX_PROTECTED_BYTES * ARCHIVE_OVERHEAD);
  const named = [...paths].map((path) => `./${path}`);
  const packed = await filesCall(container, "f_pack", { ...work, args: named, max_output_bytes });
  refuseCapped(
    packed.stdout,
    `protect files: they exceed ${MAX_PROTECTED_BYTES} bytes (MAX_PROTECTED_BYTES)`,
  );
  if (packed.code !== 0) throw new ServiceError("environment_failed", "Cannot protect files: tar failed");
  return { protection, paths: [...paths], archive: packed.stdout.bytes };
}

/**
 * Restores kept files and links, and replaces whatever is in their or their folders' places. Removes protected ones that
 * were not there, and Python's caches.
 *
 * @returns Whether one had been changed, removed or added; caches do not count.
 * @throws {ServiceError} `environment_failed`.
 */
export async function restoreFiles(
  container: RunningContainer,
  { protection, paths, archive }: KeptFiles,
  work: FileWork,
): Promise<boolean> {
  if (protection.globs.length === 0) return false;
  const options = { ...work, max_output_bytes: MAX_LIST_BYTES };
  let tampered = false;
  if (paths.length > 0) {
    const { code, stdout } = await filesCall(container, "f_restore", {
      ...options,
      ...{ args: paths, input: [archive] },
    });
    if (code !== 0) {
      throw new ServiceError("environment_failed", "Cannot restore the protected files: no space is left");
    }
    tampered = stdout.bytes.length > 0;
  }
  const kept = new Set(paths);
  const added = (await listed(container, "f_all", { ...work, is_complete: true })).split("\0").slice(0, -1)
    .map(fromRoot)
    .filter((path) => !kept.has(path) && (isCache(path) || isAdded(protection, path)));
  if (added.length > 0) {
    const { code } = await filesCall(container, "f_remove", { ...options, args: added });
    if (code !== 0) throw new ServiceError("environment_failed", "Cannot remove what was added to the tests");
  }
  return tampered || added.some((path) => !isCache(path));
}

/** A folder that its owner could not use, and its permissions. */
interface ClosedFolder {
  path: string;
  mode: string;
}

/** Lets the sandbox's user use all folders; which ones it could not use, those around others first. */
export async function openFolders(container: RunningContainer, work: FileWork): Promise<ClosedFolder[]> {
  const entries = (await listed(container, "f_open", work)).split("\0");
  return entries.slice(0, -1).flatMap((mode, i) => i % 2 ? [] : [{ mode, path: fromRoot(entries[i + 1]!) }]);
}

/** Gives folders of {@link openFolders} their permissions back, but not those of kept files. */
export async function closeFolders(
  container: RunningContainer,
  folders: readonly ClosedFolder[],
  { paths, ...work }: FileWork & { paths: readonly string[] },
): Promise<void> {
  const holds = (folder: string) => paths.some((path) => folder === "." || path.startsWith(`${folder}/`));
  const closed = folders.filter(({ path }) => !holds(path)).reverse();
  if (closed.length === 0) return;
  const args = closed.flatMap(({ mode, path }) => [mode, `./${path}`]);
  await filesCall(container, "f_close", { ...work, args, max_output_bytes: 4096 });
}

/** What a function for files lists. Folders that may not be read are left out, unless it must be complete. */
async function listed(
  container: RunningContainer,
  name: string,
  { is_complete = false, ...work }: FileWork & { is_complete?: boolean },
): Promise<string> {
  const found = await filesCall(container, name, { ...work, max_output_bytes: MAX_LIST_BYTES });
  if (is_complete && found.code !== 0) {
    throw new ServiceError("environment_failed", "Cannot list the workspace: not all of it can be read");
  }
  refuseCapped(
    found.stdout,
    `list the files to protect: they have more than ${MAX_LIST_BYTES} bytes of names`,
  );
  return new TextDecoder().decode(found.stdout.bytes);
}

const fromRoot = (path: string) => path.replace(/^\.\//, "");

/** A workspace as an archive, in a file without a name: it ends with its process. */
export class WorkspaceCopy {
  private constructor(readonly file: Deno.FsFile) {}

  /**
   * Files that the workspace's own user may not read are left out.
   *
   * @throws {ServiceError} `environment_failed`, also above {@link MAX_COPY_BYTES} or the container's memory, as with a
   * sparse file; `infrastructure_failed` when the folder takes no more.
   */
  static async make(container: RunningContainer, folder: string, work: FileWork): Promise<WorkspaceCopy> {
    const path = `${folder}/copy-${crypto.randomUUID()}`;
    const file = await Deno.open(path, { createNew: true, read: true, write: true, mode: 0o600 });
    const most = Math.min(MAX_COPY_BYTES, container.options.limits.memory_mb * 2 ** 20);
    try {
      await Deno.remove(path);
      let size = 0;
      const sink = async (bytes: Bytes) => {
        size += bytes.length;
        const written = writeAll(file, bytes);
        await written.catch((error) => {
          throw new ServiceError(
            "infrastructure_failed",
            `Cannot copy the workspace to ${folder}: ${error.message}`,
          );
        });
      };
      await filesCall(container, "f_pack", { ...work, args: ["."], max_output_bytes: most, sink });
      if (size <= most) return new WorkspaceCopy(file);
      const reason = `it has more than ${most} bytes (MAX_COPY_BYTES, and limits.memory_mb)`;
      throw new ServiceError("environment_failed", `Cannot copy the workspace: ${reason}`);
    } catch (error) {
      file.close();
      throw error;
    }
  }

  /** Unpacks it in the workspace of another container. @throws {ServiceError} `environment_failed`. */
  async unpack(container: RunningContainer, work: FileWork): Promise<void> {
    const options = { ...work, input: this.#pieces(), max_output_bytes: 4096 };
    const { code } = await filesCall(container, "f_unpack", options);
    if (code === 0) return;
    throw new ServiceError("environment_failed", "Cannot copy the workspace: tar could not unpack it");
  }

  async *#pieces(): AsyncGenerator<Bytes> {
    await this.file.seek(0, Deno.SeekMode.Start);
    while (true) {
      const piece = new Uint8Array(PIECE_BYTES), read = await this.file.read(piece);
      if (read === null) return;
      yield piece.subarray(0, read);
    }
  }

  close(): void {
    this.file.close();
  }
}

async function writeAll(file: Deno.FsFile, bytes: Bytes): Promise<void> {
  for (let at = 0; at < bytes.length;) at += await file.write(bytes.subarray(at));
}

async function filesCall(
  container: RunningContainer,
  name: string,
  { args = [], signal, clock = systemClock, ...call }:
    & FileWork
    & Pick<ContainerCall, "input" | "sink" | "max_output_bytes">
    & { args?: readonly string[] },
): Promise<ContainerReply> {
  const reply = await container.files(name, args, { ...call, timeout_ms: COPY_TIMEOUT_MS, clock, signal });
  // The shell reports the programs of a function as killed when they wrote to standard error.
  if (reply.code < 128) return reply;
  throw new ServiceError("environment_failed", `Cannot use the container's files: ${name} was killed`);
}

function refuseCapped({ capped }: KeptOutput, what: string): void {
  if (capped) throw new ServiceError("environment_failed", `Cannot ${what}`);
}
