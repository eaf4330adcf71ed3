/** The checkpoint from which a fork starts. It is in the fork's own folder, because the parent may be deleted. */

import { ServiceError } from "../../core/errors.ts";
import { makeFolder, syncDirectory } from "../../core/files.ts";
import { PARENT_CHECKPOINTS } from "./service_record.ts";

/**
 * Links a checkpoint's files, which never change, into a run's folder; copies them where links are not possible.
 *
 * @throws {ServiceError} `path_not_found` with `details.lost_parent` when the checkpoint is removed or replaced meanwhile.
 */
export async function copyParent(
  { run, checkpoint, directory }: { run: string; checkpoint: string; directory: string },
  run_folder: string,
): Promise<void> {
  const to = `${run_folder}/${PARENT_CHECKPOINTS}/${checkpoint}`;
  await makeFolder(to);
  try {
    const { ino } = await Deno.stat(directory);
    for await (const { name, isFile } of Deno.readDir(directory)) {
      if (!isFile) continue;
      const from = `${directory}/${name}`, copy = `${to}/${name}`;
      await Deno.link(from, copy).catch(() => copySynced(from, copy));
    }
    // A checkpoint is renamed before its files are removed. If the same folder is still here, the copy is complete.
    if ((await Deno.stat(directory)).ino !== ino) throw new Deno.errors.NotFound("it was replaced");
  } catch (cause) {
    if (!(cause instanceof Deno.errors.NotFound)) throw cause;
    const message = `Cannot fork ${run}: its checkpoint ${checkpoint} is gone`;
    throw new ServiceError("path_not_found", message, { lost_parent: run }, { cause });
  }
  await syncDirectory(to);
}

/** Copies a file so that it survives a power cut. */
async function copySynced(from: string, copy: string): Promise<void> {
  await Deno.copyFile(from, copy);
  using file = await Deno.open(copy, { read: true });
  await file.sync();
}

/** The folder of the checkpoint that a run was forked from; null when it was not. */
export async function parentCheckpoint(run_folder: string): Promise<string | null> {
  const folder = `${run_folder}/${PARENT_CHECKPOINTS}`;
  try {
    for await (const { name } of Deno.readDir(folder)) return `${folder}/${name}`;
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  return null;
}
