/** Paths as the file system has them: links followed, and two names of one file known as one. */

import { basename, dirname, join } from "node:path";

/** The path without links; of what does not exist, that of the nearest folder above it and the rest as written. */
export async function realPathOf(path: string): Promise<string> {
  try {
    return await Deno.realPath(path);
  } catch {
    const parent = dirname(path);
    return parent === path ? path : join(await realPathOf(parent), basename(path));
  }
}

/** As {@link realPathOf}, but the last name stays: a file that is renamed to it takes a link's place, not its target's. */
export async function realPlaceOf(path: string): Promise<string> {
  return join(await realPathOf(dirname(path)), basename(path));
}

/** Systems whose file systems usually take `A` and `a` for one name. */
const IGNORES_CASE = Deno.build.os === "darwin" || Deno.build.os === "windows";

/**
 * The same text for every name of one file or folder: device and inode of what exists, hard links included, else the
 * real path. A name that does not exist yet counts without its case where the system usually ignores that.
 */
export async function fileIdentity(path: string): Promise<string> {
  const info = await Deno.stat(path).catch(() => null);
  // Numbers above 2^53 are rounded: they would make strangers the same.
  if (info && info.ino !== null && Number.isSafeInteger(info.ino)) return `${info.dev}:${info.ino}`;
  const real = await realPathOf(path);
  return IGNORES_CASE ? real.toLowerCase() : real;
}

/** One of a path and the folders above it. */
export interface PathStep {
  identity: string;
  /** The names that lead from here down to the path; none at the path itself. */
  below: string[];
}

/** A path and all folders above it, from the path up. */
export async function pathSteps(path: string): Promise<PathStep[]> {
  const steps: PathStep[] = [];
  let below: string[] = [];
  for (let at = path;; at = dirname(at)) {
    steps.push({ identity: await fileIdentity(at), below });
    if (dirname(at) === at) return steps;
    below = [IGNORES_CASE ? basename(at).toLowerCase() : basename(at), ...below];
  }
}
