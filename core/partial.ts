/** Files and folders under a reserved name until they are complete: one process at a time fills one. */

import { ServiceError } from "./errors.ts";

/** Another process may remove what is opened here; opening is then repeated, up to this often. */
const MAX_TRIES = 10;

/** How a partial file or folder is created, opened and recognised as empty. */
interface PartialKind {
  make: (path: string) => Promise<Deno.FsFile | void>;
  isThis: (info: Deno.FileInfo) => boolean;
  open: Deno.OpenOptions;
  isEmpty: (path: string, opened: Deno.FsFile) => Promise<boolean>;
}

const KINDS = {
  file: {
    make: (path) => Deno.open(path, { write: true, createNew: true }),
    isThis: ({ isFile }) => isFile,
    open: { write: true },
    isEmpty: async (_, opened) => (await opened.stat()).size === 0,
  },
  folder: {
    make: (path) => Deno.mkdir(path),
    isThis: ({ isDirectory }) => isDirectory,
    open: { read: true },
    isEmpty: async (path) => (await Array.fromAsync(Deno.readDir(path))).length === 0,
  },
} satisfies Record<string, PartialKind>;

export interface PartialOptions {
  kind: keyof typeof KINDS;
  /** The path that it gets when it is complete, for messages. */
  final: string;
}

/**
 * Opens an empty file or folder, and locks it, where the file system can, until it is closed or the process ends. What
 * a killed process left there is replaced.
 *
 * @param path A reserved name, in a folder that exists.
 * @throws {ServiceError} `conflict` while another process fills it.
 */
export async function openPartial(path: string, { kind, final }: PartialOptions): Promise<Deno.FsFile> {
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const opened = await makeOrOpen(path, KINDS[kind]);
    if (!opened) continue;
    let is_mine = false, is_ready = false;
    try {
      is_mine = await tryLock(opened);
      is_ready = is_mine && await isReady(path, opened, KINDS[kind]);
    } finally {
      if (!is_ready) opened.close();
    }
    if (is_ready) return opened;
    if (!is_mine) break;
  }
  throw new ServiceError(
    "conflict",
    `Cannot write ${final}: it is being written; wait for that, or name another path`,
    { path: final },
  );
}

/** A file system without locks, such as some network shares, takes files all the same: there nothing is locked. */
async function tryLock(opened: Deno.FsFile): Promise<boolean> {
  try {
    return await opened.tryLock(true);
  } catch {
    return true;
  }
}

/** Null when something else was there, which is removed, or what was there is gone. */
async function makeOrOpen(path: string, { make, isThis, open }: PartialKind): Promise<Deno.FsFile | null> {
  try {
    const made = await make(path);
    if (made) return made;
  } catch (error) {
    if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
  }
  try {
    const info = await Deno.lstat(path);
    if (isThis(info)) return await Deno.open(path, open);
    // A link would be followed, and its target overwritten.
    if (info.isFile || info.isDirectory) await removeOther(path, info);
    else await Deno.remove(path);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  return null;
}

/** Removes a file where a folder is to be made, or the other way round, unless another process fills it. */
async function removeOther(path: string, { isDirectory }: Deno.FileInfo): Promise<void> {
  using other = await Deno.open(path, KINDS[isDirectory ? "folder" : "file"].open);
  if (await tryLock(other)) await Deno.remove(path);
}

/** Whether what is locked is still under its name, and empty. Removes what a killed process wrote. */
async function isReady(path: string, opened: Deno.FsFile, { isEmpty }: PartialKind): Promise<boolean> {
  const held = await opened.stat(), there = await Deno.lstat(path).catch(() => null);
  if (held.ino !== there?.ino || held.dev !== there.dev) return false;
  if (await isEmpty(path, opened)) return true;
  await Deno.remove(path, { recursive: true });
  return false;
}
