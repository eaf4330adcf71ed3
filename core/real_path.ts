/** Paths with links resolved, and whether two names mean one file. */

import { basename, dirname, join, sep } from "node:path";

/**
 * The path without links. For a path that does not exist: the real path of the nearest existing parent, then the rest
 * as written.
 */
export async function realPathOf(path: string): Promise<string> {
  try {
    return await Deno.realPath(path);
  } catch {
    const parent = dirname(path);
    return parent === path ? path : join(await realPathOf(parent), basename(path));
  }
}

/** Like {@link realPathOf}, but does not follow the last name: a rename replaces a link, not the link's target. */
export async function realPlaceOf(path: string): Promise<string> {
  return join(await realPathOf(dirname(path)), basename(path));
}

/** Whether a real path is one of the folders or lies in one. @param folders Real paths. */
export function isInside(path: string, folders: readonly string[]): boolean {
  return folders.some((folder) => {
    return path === folder || path.startsWith(folder.endsWith(sep) ? folder : folder + sep);
  });
}

/** Systems whose file systems usually ignore case. */
const IGNORES_CASE = Deno.build.os === "darwin" || Deno.build.os === "windows";

/**
 * A text that is equal for all names of one file or folder: device and inode when it exists (so hard links are equal),
 * else the real path, in lower case on systems that ignore case.
 */
export async function fileIdentity(path: string): Promise<string> {
  const info = await Deno.stat(path).catch(() => null);
  // Numbers above 2^53 are rounded, so different files could look the same.
  if (info && info.ino !== null && Number.isSafeInteger(info.ino)) return `${info.dev}:${info.ino}`;
  const real = await realPathOf(path);
  return IGNORES_CASE ? real.toLowerCase() : real;
}

/** A path or one of its parent folders. */
export interface PathStep {
  identity: string;
  /** The names from this folder down to the path; empty for the path itself. */
  below: string[];
}

/** A path and all its parent folders, from the path upwards. */
export async function pathSteps(path: string): Promise<PathStep[]> {
  const steps: PathStep[] = [];
  let below: string[] = [];
  for (let at = path;; at = dirname(at)) {
    steps.push({ identity: await fileIdentity(at), below });
    if (dirname(at) === at) return steps;
    below = [IGNORES_CASE ? basename(at).toLowerCase() : basename(at), ...below];
  }
}
