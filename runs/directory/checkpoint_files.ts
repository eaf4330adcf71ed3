/** The file operations of checkpoints, so that tests can make each of them fail. */

import { ignoreMissing, makeFolder, syncDirectory } from "../../core/files.ts";

export interface FileOperations {
  makeDirectory(path: string): Promise<void>;
  /** Writes the entire file and flushes it. */
  writeFile(path: string, text: string): Promise<void>;
  /** Flushes a file that other code wrote. */
  syncFile(path: string): Promise<void>;
  syncDirectory(path: string): Promise<void>;
  rename(from: string, to: string): Promise<void>;
  /** Removes a file or folder with its contents; does nothing when it is absent. */
  remove(path: string): Promise<void>;
}

export const systemFiles: FileOperations = {
  makeDirectory: makeFolder,
  async writeFile(path, text) {
    using file = await Deno.open(path, { write: true, create: true, truncate: true });
    const bytes = new TextEncoder().encode(text);
    for (let at = 0; at < bytes.length;) at += await file.write(bytes.subarray(at));
    await file.sync();
  },
  async syncFile(path) {
    using file = await Deno.open(path, { read: true, write: true });
    await file.sync();
  },
  syncDirectory,
  rename: (from, to) => Deno.rename(from, to),
  async remove(path) {
    await Deno.remove(path, { recursive: true }).catch(ignoreMissing);
  },
};
