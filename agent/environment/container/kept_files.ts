/** The protected files of a container's workspace: kept as an archive, and restored in the copy that is verified. */

import { type Clock, systemClock } from "../../../core/clock.ts";
import { ServiceError } from "../../../core/errors.ts";
import { matchesGlob, MAX_PROTECTED_BYTES } from "../protected_files.ts";
import { type ContainerReply, MAX_INPUT_BYTES, type RunningContainer } from "./container.ts";

/** The time for packing, copying or restoring a workspace. */
export const COPY_TIMEOUT_MS = 60_000;

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
  refuseCapped(listed, `list the files to protect: they have more than ${MAX_LIST_BYTES} bytes of names`);
  const paths = new TextDecoder().decode(listed.stdout).split("\0")
    .map((path) => path.replace(/^\.\//, ""))
    .filter((path) => path !== "" && globs.some((glob) => matchesGlob(glob, path)));
  if (paths.length === 0) return { paths, archive: new Uint8Array() };
  const max_output_bytes = Math.floor(MAX_PROTECTED_BYTES * ARCHIVE_OVERHEAD);
  const named = paths.map((path) => `./${path}`);
  const packed = await filesCall(container, "f_pack", { ...work, args: named, max_output_bytes });
  refuseCapped(packed, `protect files: they exceed ${MAX_PROTECTED_BYTES} bytes (MAX_PROTECTED_BYTES)`);
  if (packed.code !== 0) throw new ServiceError("environment_failed", "Cannot protect files: tar failed");
  return { paths, archive: packed.stdout };
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
  const options = { ...work, args: paths, input: archive, max_output_bytes: MAX_LIST_BYTES };
  const { code, stdout } = await filesCall(container, "f_restore", options);
  if (code !== 0) {
    throw new ServiceError("environment_failed", "Cannot restore the protected files: no space is left");
  }
  return new TextDecoder().decode(stdout).split("\0").filter((path) => path !== "");
}

/** The workspace as an archive. Files that its own user may not read are left out. @throws {ServiceError} */
export async function packWorkspace(container: RunningContainer, work: FileWork): Promise<Bytes> {
  const options = { ...work, args: ["."], max_output_bytes: MAX_INPUT_BYTES };
  const packed = await filesCall(container, "f_pack", options);
  refuseCapped(packed, `copy the workspace: it has more than ${MAX_INPUT_BYTES} bytes (MAX_INPUT_BYTES)`);
  return packed.stdout;
}

/** @throws {ServiceError} `environment_failed`. */
export async function unpackWorkspace(
  container: RunningContainer,
  archive: Bytes,
  work: FileWork,
): Promise<void> {
  const options = { ...work, input: archive, max_output_bytes: 4096 };
  const { code } = await filesCall(container, "f_unpack", options);
  if (code !== 0) {
    throw new ServiceError("environment_failed", "Cannot copy the workspace: tar could not unpack it");
  }
}

async function filesCall(
  container: RunningContainer,
  name: string,
  { args = [], input, max_output_bytes, signal, clock = systemClock }: FileWork & {
    args?: readonly string[];
    input?: Bytes;
    max_output_bytes: number;
  },
): Promise<ContainerReply> {
  const limit = { max_output_bytes, timeout_ms: COPY_TIMEOUT_MS, clock, signal };
  const reply = await container.files(name, args, { ...limit, ...(input && { input }) });
  // The shell reports the programs of a function as killed when they wrote to standard error.
  if (reply.code < 128) return reply;
  throw new ServiceError("environment_failed", `Cannot use the container's files: ${name} was killed`);
}

function refuseCapped({ capped }: ContainerReply, what: string): void {
  if (capped) throw new ServiceError("environment_failed", `Cannot ${what}`);
}
