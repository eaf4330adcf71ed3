/** The protected files of a container's workspace: kept as an archive, and restored in the copy that is verified. */

import { type Clock, systemClock } from "../../../core/clock.ts";
import { ServiceError } from "../../../core/errors.ts";
import { matchesGlob, MAX_PROTECTED_BYTES } from "../protected_files.ts";
import type { ContainerCall, ContainerReply, KeptOutput, RunningContainer } from "./container.ts";

/** The time for packing, copying or restoring a workspace. */
export const COPY_TIMEOUT_MS = 60_000;

/** The most bytes of a workspace's copy, which is a file. */
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

/** Some files of a workspace. */
export interface KeptFiles {
  paths: readonly string[];
  archive: Bytes;
}

/** Packs the regular files that match a glob. @throws {ServiceError} `environment_failed`. */
export async function keepFiles(
  container: RunningContainer,
  globs: readonly string[],
  work: FileWork,
): Promise<KeptFiles> {
  if (globs.length === 0) return { paths: [], archive: new Uint8Array() };
  const listed = await filesCall(container, "f_files", { ...work, max_output_bytes: MAX_LIST_BYTES });
  refuseCapped(
    listed.stdout,
    `list the files to protect: they have more than ${MAX_LIST_BYTES} bytes of names`,
  );
  const paths = new TextDecoder().decode(listed.stdout.bytes).split("\0")
    .map((path) => path.replace(/^\.\//, ""))
    .filter((path) => path !== "" && globs.some((glob) => matchesGlob(glob, path)));
  if (paths.length === 0) return { paths, archive: new Uint8Array() };
  const max_output_bytes = Math.floor(MAX_PROTECTED_BYTES * ARCHIVE_OVERHEAD);
  const named = paths.map((path) => `./${path}`);
  const packed = await filesCall(container, "f_pack", { ...work, args: named, max_output_bytes });
  refuseCapped(
    packed.stdout,
    `protect files: they exceed ${MAX_PROTECTED_BYTES} bytes (MAX_PROTECTED_BYTES)`,
  );
  if (packed.code !== 0) throw new ServiceError("environment_failed", "Cannot protect files: tar failed");
  return { paths, archive: packed.stdout.bytes };
}

/**
 * Restores kept files, and replaces whatever is in their or their folders' places.
 *
 * @returns The paths that had been changed or removed.
 * @throws {ServiceError} `environment_failed`.
 */
export async function restoreFiles(
  container: RunningContainer,
  { paths, archive }: KeptFiles,
  work: FileWork,
): Promise<string[]> {
  if (paths.length === 0) return [];
  const options = { ...work, args: paths, input: [archive], max_output_bytes: MAX_LIST_BYTES };
  const { code, stdout } = await filesCall(container, "f_restore", options);
  if (code !== 0) {
    throw new ServiceError("environment_failed", "Cannot restore the protected files: no space is left");
  }
  return new TextDecoder().decode(stdout.bytes).split("\0").filter((path) => path !== "");
}

/** A workspace as an archive, in a file without a name: it ends with its process. */
export class WorkspaceCopy {
  private constructor(readonly file: Deno.FsFile) {}

  /**
   * Files that the workspace's own user may not read are left out.
   *
   * @throws {ServiceError} `environment_failed`, also above {@link MAX_COPY_BYTES}.
   */
  static async make(container: RunningContainer, folder: string, work: FileWork): Promise<WorkspaceCopy> {
    const path = `${folder}/copy-${crypto.randomUUID()}`;
    const file = await Deno.open(path, { createNew: true, read: true, write: true, mode: 0o600 });
    try {
      await Deno.remove(path);
      let size = 0;
      const sink = async (bytes: Bytes) => {
        size += bytes.length;
        const written = writeAll(file, bytes);
        await written.catch((error) => {
          throw new ServiceError(
            "environment_failed",
            `Cannot copy the workspace to ${folder}: ${error.message}`,
          );
        });
      };
      await filesCall(container, "f_pack", { ...work, args: ["."], max_output_bytes: MAX_COPY_BYTES, sink });
      if (size <= MAX_COPY_BYTES) return new WorkspaceCopy(file);
      const reason = `it has more than ${MAX_COPY_BYTES} bytes (MAX_COPY_BYTES)`;
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
