/** Opens files of a folder that other programs can write to. */

import { join } from "node:path";
import { systemError } from "../../core/errors.ts";

const TRIES = 3;

/**
 * Opens a regular file of a folder for reading. Null when there is none: a link, a pipe or a folder under that name
 * counts as none. A file that is replaced while it is being opened is opened again.
 *
 * @param name A file name of the program's own, never of a client's.
 */
export async function openInside(folder: string, name: string): Promise<Deno.FsFile | null> {
  const path = join(folder, name);
  try {
    for (let i = 0; i < TRIES; i++) {
      const named = await Deno.lstat(path);
      if (!named.isFile) return null;
      const file = await Deno.open(path, { read: true });
      const opened = await file.stat();
      if (opened.isFile && opened.ino === named.ino && opened.dev === named.dev) return file;
      file.close();
    }
    return null;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) return null;
    throw systemError(`read ${path}`, error);
  }
}
