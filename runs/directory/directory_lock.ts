/** The lock of a folder that a run works in, and the folders that were made for it. */

import { dirname } from "node:path";
import { doing, ServiceError } from "../../core/errors.ts";
import { isPresent } from "../../core/files.ts";

/** A lock that is removed while it is opened is another file at the next look: so many times it is tried again. */
const MAX_TRIES = 10;

export const LOCK_NAME = "lock";

export class DirectoryLock {
  readonly #path: string;
  readonly #file: Deno.FsFile;
  /** What this process made and nobody had before: the lock, and folders from the inside out. */
  readonly #made: string[];

  private constructor(path: string, file: Deno.FsFile, made: string[]) {
    this.#path = path;
    this.#file = file;
    this.#made = made;
  }

  /**
   * Makes the directory, where it is missing, and locks it.
   *
   * @param key The key that names it, for messages.
   * @throws {ServiceError} `conflict` when another process has it; `config_invalid` when it cannot be made.
   */
  static async take(directory: string, key = "[run].directory"): Promise<DirectoryLock> {
    const path = `${directory}/${LOCK_NAME}`;
    const folders = await missingFolders(directory);
    try {
      return await doing(`use the folder ${directory} of ${key}`, async () => {
        await Deno.mkdir(directory, { recursive: true });
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

  /** Gives the lock back; it stays in the directory. */
  close(): void {
    this.#file.close();
  }

  /** As {@link close} of a run that never began: what was made for it goes, unless something lies in it. */
  closeUnused(): void {
    // Removed while it is held: who opens it afterwards makes another.
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

/** Whether the file that is locked is the one that others will open. */
async function isStill(path: string, file: Deno.FsFile): Promise<boolean> {
  const [held, there] = [await file.stat(), await Deno.stat(path).catch(() => null)];
  return there !== null && held.ino === there.ino && held.dev === there.dev;
}

/** The folders on the way to one that are not there, from the inside out. */
async function missingFolders(directory: string): Promise<string[]> {
  const missing: string[] = [];
  for (let at = directory; at !== dirname(at); at = dirname(at)) {
    if (await isPresent(at)) break;
    missing.push(at);
  }
  return missing;
}

/** From the inside out. */
function removeEmpty(folders: readonly string[]): void {
  for (const folder of folders) {
    try {
      Deno.removeSync(folder);
    } catch { /* something lies in it, or it was never made */ }
  }
}
