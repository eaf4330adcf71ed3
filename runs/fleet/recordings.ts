/** The folder with recorded conversations: a folder for each model, named after its run and deleted with it. */

import { doing } from "../../core/errors.ts";
import { ignoreMissing, makeFolder } from "../../core/files.ts";

/** A folder's name: the run, then `@base` or `@` and a checkpoint when one of these was served. */
const MODEL_FOLDER = /^(run_[0-9A-HJKMNP-TV-Z]{26})(@.*)?$/;

/** The folders of a run, or of all runs. */
async function foldersIn(folder: string): Promise<{ run: string; path: string }[]> {
  try {
    const entries = await Array.fromAsync(Deno.readDir(folder));
    return entries.flatMap(({ name }) => {
      const [, run] = MODEL_FOLDER.exec(name) ?? [];
      return run === undefined ? [] : [{ run, path: `${folder}/${name}` }];
    });
  } catch (error) {
    ignoreMissing(error);
    return [];
  }
}

/** Removes the conversations of the runs for which `isGone` is true. @param folder Absent: nothing is recorded. */
export async function removeConversations(
  folder: string | undefined,
  isGone: (run: string) => boolean,
): Promise<void> {
  if (folder === undefined) return;
  for (const { run, path } of await foldersIn(folder)) {
    if (isGone(run)) await Deno.remove(path, { recursive: true }).catch(ignoreMissing);
  }
}

/** Makes the folder. Only the operator may read it: it holds what clients said. @throws {ServiceError} */
export async function makeRecordings(folder: string): Promise<void> {
  await makeFolder(folder);
  if (Deno.build.os === "windows") return;
  await doing(`close ${folder} to others`, () => Deno.chmod(folder, 0o700));
}
