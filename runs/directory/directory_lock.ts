/** Locks a folder that a run works in, and tracks the folders made for it. */

import { dirname } from "node:path";
import { doing, ServiceError } from "../../core/errors.ts";
import { isPresent, syncParent } from "../../core/files.ts";

/** A lock file can be removed while it is opened; opening is then repeated, up to this often. */
const MAX_TRIES = 10;

export const LOCK_NAME = "lock";

/** The lock of a folder; the system releases it when the process ends. */
export class DirectoryLock {
  readonly #path: string;
  readonly #file: Deno.FsFile;
  /** The lock file and folders that this process created, from the innermost outwards. */
  readonly #made: string[];

  private constructor(path: string, file: Deno.FsFile, made: string[]) {
    this.#path = path;
    this.#file = file;
    this.#made = made;
  }

  /**
   * Creates the directory if necessary, and locks it.
   *
   * @param key The key that names it, for messages.
   * @throws {ServiceError} `conflict` when another process holds the lock; `config_invalid` when the directory cannot
   * be created.
   */
  static async take(directory: string, key = "[run].directory"): Promise<DirectoryLock> {
    const path = `${directory}/${LOCK_NAME}`;
    const folders = await missingFolders(directory);
    try {
      return await doing(`use the folder ${directory} of ${key}`, async () => {
        await Deno.mkdir(directory, { recursive: true });
        for (const folder of folders) await syncParent(folder);
        for (let tries = 0; tries < MAX_TRIES; tries++) {
          const [file, is_new] = await openLock(path);
          const is_mine = await file.tryLock(true);
          if (is_mine && await isStill(path, file)) {
            return new DirectoryLock(path, file, [...is_new ? [path] : [], ...folders]);
          }
          file.close();
          if (!is_mine) break;
        }
        throw taken(directory, key);
      }, "config_invalid");
    } catch (error) {
      removeEmpty(folders);
      throw error;
    }
  }

  /** Releases the lock; its file stays in the directory. */
  close(): void {
    this.#file.close();
  }

  /** Like {@link close}, for a run that never started: also removes what was created for it, unless it is in use. */
  closeUnused(): void {
    // Remove the file while it is locked: a later process then creates another.
    if (this.#made[0] === this.#path) Deno.removeSync(this.#path);
    this.#file.close();
    removeEmpty(this.#made.filter((path) => path !== this.#path));
  }
}

function taken(directory: string, key: string): ServiceError {
  return new ServiceError(
    "conflict",
    `Cannot use ${directory}: another process is working in it; wait for it, or name another ${key}`,
  );
}

async function openLock(path: string): Promise<[file: Deno.FsFile, is_new: boolean]> {
  try {
    return [await Deno.open(path, { read: true, write: true, createNew: true }), true];
  } catch (error) {
    if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
    return [await Deno.open(path, { read: true, write: true, create: true }), false];
  }
}

/** Whether the locked file is still the one under this path. */
async function isStill(path: string, file: Deno.FsFile): Promise<boolean> {
  const [held, there] = [await file.stat(), await Deno.stat(path).catch(() => null)];
  return there !== null && held.ino === there.ino && held.dev === there.dev;
}

/** The missing parent folders of a path, from the innermost outwards. */
async function missingFolders(directory: string): Promise<string[]> {
  const missing: string[] = [];
  for (let at = directory; at !== dirname(at); at = dirname(at)) {
    if (await isPresent(at)) break;
    missing.push(at);
  }
  return missing;
}

/** Removes empty folders, from the innermost outwards. */
function removeEmpty(folders: readonly string[]): void {
  for (const folder of folders) {
    try {
      Deno.removeSync(folder);
    } catch { /* something lies in it, or it was never made */ }
  }
}
