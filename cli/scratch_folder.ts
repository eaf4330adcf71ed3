/** A folder of one process among the temporary files, and what is done about those of killed ones. */

import { dirname } from "node:path";
import { killLeftovers } from "../agent/environment/leftovers.ts";
import { removeFolder } from "../agent/environment/workspace.ts";
import { doing } from "../core/errors.ts";
import { isPresent } from "../core/files.ts";

const PREFIX = "svc-eval-";

/** Held as long as the process lives: however that ends, the system lets it go. */
const LOCK = "lock";

export interface ScratchFolder {
  path: string;
  /** Removes it with everything in it. */
  close(): Promise<void>;
}

/**
 * Makes a folder, after those were removed whose process is dead: the ones of this user whose lock nobody holds, with
 * the processes that commands of theirs left.
 *
 * @param parent Left out: the system's folder of temporary files.
 * @throws {ServiceError} `config_invalid` where none can be made.
 */
export async function openScratchFolder(parent?: string): Promise<ScratchFolder> {
  const options = { prefix: PREFIX, ...(parent === undefined ? {} : { dir: parent }) };
  return await doing("make a temporary folder (TMPDIR names where)", async () => {
    while (true) {
      const path = await Deno.makeTempDir(options);
      const lock = await openLock(path, { createNew: true });
      // Whoever swept in between took it for a dead one's, here as below.
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

/** The lock of a folder; null where there is none, or no folder any more. */
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

/** An empty one is a killed process's, or one that another process is just making: that process then makes another. */
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
