/** A temporary folder for one process; removes those of killed processes. */

import { dirname } from "node:path";
import { killLeftovers } from "../agent/environment/leftovers.ts";
import { removeFolder } from "../agent/environment/workspace.ts";
import { doing } from "../core/errors.ts";
import { isPresent } from "../core/files.ts";

const PREFIX = "svc-eval-";

/** Locked as long as the process lives: the system releases it however the process ends. */
const LOCK = "lock";

export interface ScratchFolder {
  path: string;
  /** Removes the folder with its contents. */
  close(): Promise<void>;
}

/**
 * Creates a folder, after removing those of dead processes: this user's folders without a locked file, and the
 * processes that their commands left.
 *
 * @param parent Absent: the system's folder of temporary files.
 * @throws {ServiceError} `config_invalid` when no folder can be created.
 */
export async function openScratchFolder(parent?: string): Promise<ScratchFolder> {
  const options = { prefix: PREFIX, ...(parent === undefined ? {} : { dir: parent }) };
  return await doing("make a temporary folder (TMPDIR names where)", async () => {
    while (true) {
      const path = await Deno.makeTempDir(options);
      const lock = await openLock(path, { createNew: true });
      // A concurrent cleanup took it for a dead process's folder, here as below.
      if (lock === null) continue;
      await lock.lock(true);
      const is_there = await isPresent(`${path}/${LOCK}`);
      if (!is_there) {
        lock.close();
        continue;
      }
      await sweep(dirname(path));
      return { path, close: () => removeFolder(path).finally(() => lock.close()) };
    }
  }, "config_invalid");
}

/** Opens the lock of a folder; null when there is no lock or no folder any more. */
async function openLock(path: string, options: Deno.OpenOptions): Promise<Deno.FsFile | null> {
  try {
    return await Deno.open(`${path}/${LOCK}`, { ...options, write: true });
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw error;
  }
}

async function sweep(parent: string): Promise<void> {
  for await (const { name, isDirectory } of Deno.readDir(parent)) {
    if (isDirectory && name.startsWith(PREFIX)) await removeDead(`${parent}/${name}`).catch(() => {});
  }
}

/** An empty folder belongs to a killed process, or to one that is just creating it: that process then makes another. */
async function removeDead(path: string): Promise<void> {
  const { uid } = await Deno.lstat(path);
  if (Deno.build.os !== "windows" && uid !== Deno.uid()) return;
  using lock = await openLock(path, { read: true });
  // The system refuses to remove a folder that is not empty (any more).
  if (lock === null) return await Deno.remove(path);
  if (!await lock.tryLock(true)) return;
  await killLeftovers(path);
  await removeFolder(path);
}
