/** The folders of this machine that answers must not show: they tell where the server and the operator's files are. */

import { homedir, tmpdir } from "node:os";
import { dirname, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { CATALOGUE_LISTS } from "../../config/check/catalogue_tables.ts";
import type { ServerConfig } from "../../config/server/schema.ts";
import { pathsIn } from "../http/redact.ts";

/** Folders of every machine, which tell nothing about this one. */
const SYSTEM_FOLDER = /^\/(?:usr\/|usr\/local\/)?(?:bin|sbin|lib|lib64|libexec)(?:\/|$)|^\/dev(?:\/|$)/;

/** The folder of this program: of its first file, or of its binary. */
function programFolder(): string {
  const { mainModule } = Deno, is_file = !Deno.build.standalone && mainModule.startsWith("file:");
  return dirname(is_file ? fileURLToPath(mainModule) : Deno.execPath());
}

/** Null when nothing is at a path. */
function factsOf(path: string): Deno.FileInfo | null {
  try {
    return Deno.statSync(path);
  } catch {
    return null;
  }
}

/** A path of the operator's; of a file also the folder in which it lies, if that is not at the top of the file system. */
function withItsFolder(path: string): string[] {
  const folder = dirname(path);
  return factsOf(path)?.isDirectory || folder.lastIndexOf("/") <= 0 ? [path] : [folder, path];
}

/** An entry of the catalogue. Only some have a command, and the folder where it runs. */
interface Entry {
  id: string;
  command?: readonly string[] | undefined;
  cwd?: string | undefined;
}

/** The files and folders that the arguments of a command name, also in `--option=<path>`. */
function argumentPaths({ command = [], cwd }: Entry): string[] {
  if (cwd === undefined) return [];
  const named = command.flatMap((text) => [text, text.slice(text.indexOf("=") + 1)]);
  return named.map((text) => resolve(cwd, text)).filter((path) => factsOf(path) !== null);
}

/** A path by both of its names where a link leads to it. */
function bothNames(path: string): string[] {
  try {
    return [path, Deno.realPathSync(path)];
  } catch {
    return [path];
  }
}

/**
 * The server's folders and that of temporary files, and those that tell about this machine among the paths that the
 * operator's catalogue names, the folders of such files, and the folders of this program and of its user.
 */
export function serverFolders({ path_roots, data_dir, ...config }: ServerConfig): string[] {
  const entries = CATALOGUE_LISTS.flatMap<Entry>((list) => config[list]);
  const declared = entries.flatMap((entry) => [...pathsIn(entry), ...argumentPaths(entry)]);
  // A user may have no home folder.
  const around = [programFolder(), homedir()].filter((folder) => folder !== "").flatMap(bothNames);
  const found = [...declared.flatMap(bothNames).flatMap(withItsFolder), ...around];
  const own = [...path_roots, data_dir, tmpdir()].flatMap(bothNames);
  return [...new Set([...own, ...found.filter((path) => !SYSTEM_FOLDER.test(path))])];
}
