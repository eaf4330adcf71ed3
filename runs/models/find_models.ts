/** The job that looks for model files in the operator's folders. */

import { join } from "node:path";
import { type Clock, systemClock } from "../../core/clock.ts";
import { type CheckedFile, checkedFile } from "../../core/regular_file.ts";
import { isInside } from "../../core/real_path.ts";

/** How far the search goes: folders below a root, entries and files in all, and time. */
export const FIND_LIMITS = { depth: 8, entries: 100_000, files: 10_000, seconds: 15 } as const;

export interface ModelRootsRequest {
  /** Real paths. */
  roots: string[];
}

/** A model file: the name under which it was found, and its real file. */
export interface FoundModel {
  path: string;
  file: CheckedFile;
  size_bytes: number;
  modified_ms: number;
}

/** The model files that a search found. */
export interface FoundModels {
  /** By path. */
  models: FoundModel[];
  /** False when a limit ended the search. */
  complete: boolean;
}

/** A search in progress. */
interface Search extends FoundModels {
  roots: readonly string[];
  limits: Readonly<Record<keyof typeof FIND_LIMITS, number>>;
  end_ms: number;
  clock: Clock;
  entries: number;
  /** Real paths of folders that were read, and of files that were found. */
  seen: Set<string>;
}

/**
 * All files whose names end in `.gguf`. Links are followed if their targets lie in a root; a file with several names is
 * found once: under its real name if that ends in `.gguf`.
 */
export async function findModels(
  { roots }: ModelRootsRequest,
  { clock = systemClock, limits = FIND_LIMITS }: {
    clock?: Clock;
    limits?: Readonly<Record<keyof typeof FIND_LIMITS, number>>;
  } = {},
): Promise<FoundModels> {
  const search: Search = {
    roots,
    limits,
    clock,
    end_ms: clock.monotonic_ms() + limits.seconds * 1000,
    entries: 0,
    seen: new Set(),
    models: [],
    complete: true,
  };
  for (const root of roots) await lookIn(root, 0, search);
  const models = search.models.sort((a, b) => a.path < b.path ? -1 : 1);
  return { models, complete: search.complete };
}

// A folder that cannot be read, or a link to nothing, is none of the client's concern.
const unreadable = () => null;

async function lookIn(folder: string, depth: number, search: Search): Promise<void> {
  const real = await Deno.realPath(folder).catch(unreadable);
  if (real === null || search.seen.has(real) || !isInside(real, search.roots)) return;
  search.seen.add(real);
  const entries = await Array.fromAsync(Deno.readDir(folder)).catch(unreadable) ?? [];
  for (const { name } of entries.sort((a, b) => a.name < b.name ? -1 : 1)) {
    const { limits, clock } = search;
    search.entries++;
    if (
      search.entries > limits.entries || search.models.length >= limits.files ||
      clock.monotonic_ms() >= search.end_ms
    ) {
      search.complete = false;
      return;
    }
    await lookAt(join(folder, name), depth, search);
  }
}

async function lookAt(path: string, depth: number, search: Search): Promise<void> {
  const info = await Deno.stat(path).catch(unreadable);
  if (info?.isDirectory) {
    if (depth < search.limits.depth) return await lookIn(path, depth + 1, search);
    search.complete = false;
    return;
  }
  if (!info?.isFile || !path.toLowerCase().endsWith(".gguf")) return;
  const real = await Deno.realPath(path).catch(unreadable);
  if (real === null || search.seen.has(real) || !isInside(real, search.roots)) return;
  search.seen.add(real);
  const file = await checkedFile(real).catch(unreadable);
  if (!file) return;
  const { size, mtime } = info;
  search.models.push({
    path: real.toLowerCase().endsWith(".gguf") ? real : path,
    file,
    size_bytes: size,
    modified_ms: mtime?.getTime() ?? 0,
  });
}
