/** Paths in requests: each must lead to a regular file in `path_roots`. */

import { dirname, isAbsolute } from "node:path";
import { type CheckedFile, checkedFile } from "../../core/regular_file.ts";
import { isInside } from "../../core/real_path.ts";
import type { DatasetStore } from "../../runs/datasets/dataset_store.ts";
import { invalidRequest, notFound, Problem, type ProblemError } from "../http/problems.ts";

/** The most bytes of a path: the limit of Linux. */
const MAX_PATH_BYTES = 4096;

/** How to check a client's path. */
export interface PathCheck {
  /** `path_roots` of the configuration. */
  roots: readonly string[];
  /** The field of the request. */
  pointer: string;
}

/** The refusal of a path outside of every root. It does not tell whether something exists there. */
export function forbiddenPath(pointer: string): Problem {
  const message = "is in none of the server's path_roots";
  const errors: ProblemError[] = [{ pointer, code: "forbidden_path", message }];
  return new Problem("forbidden-path", `The path at ${pointer} ${message}`, { errors });
}

function refuse(pointer: string, code: "invalid_value" | "path_not_found", message: string): Problem {
  return invalidRequest([{ pointer, code, message }]);
}

/** The real paths of roots that exist. */
export async function realRoots(roots: readonly string[]): Promise<string[]> {
  const real = await Promise.all(roots.map((root) => Deno.realPath(root).catch(() => null)));
  return [...new Set(real.filter((root) => root !== null))];
}

/** The nearest existing folder above a path, without links; the path itself when it exists. */
async function nearestReal(path: string): Promise<string> {
  try {
    return await Deno.realPath(path);
  } catch {
    const parent = dirname(path);
    return parent === path ? path : await nearestReal(parent);
  }
}

/**
 * Checks the path of a file that a client named. Links are resolved first; the target must be a regular file in a root.
 * Open the result with `openRegularFile` or `openGguf`, which refuse a file that has taken its place since.
 *
 * @throws {Problem} `invalid_value` for a path with NUL or of more than 4,096 bytes; `forbidden-path` for one outside of
 * every root, relative ones and `~` among them; `path_not_found` for one inside that is no regular file.
 */
export async function clientFile(path: string, { roots, pointer }: PathCheck): Promise<CheckedFile> {
  if (path === "" || path.includes("\0")) throw refuse(pointer, "invalid_value", "is no path of a file");
  if (!path.isWellFormed()) throw refuse(pointer, "invalid_value", "is not Unicode text");
  if (new TextEncoder().encode(path).length > MAX_PATH_BYTES) {
    throw refuse(pointer, "invalid_value", `has more than ${MAX_PATH_BYTES} bytes`);
  }
  if (!isAbsolute(path)) throw forbiddenPath(pointer);
  const real_roots = await realRoots(roots);
  if (!isInside(await nearestReal(path), real_roots)) throw forbiddenPath(pointer);
  const absent = () => refuse(pointer, "path_not_found", "names no regular file of the server");
  try {
    const real = await Deno.realPath(path);
    if (!isInside(real, real_roots)) throw forbiddenPath(pointer);
    // A trailing slash names a folder.
    if (path.endsWith("/")) throw absent();
    return await checkedFile(real);
  } catch (error) {
    if (error instanceof Problem) throw error;
    throw absent();
  }
}

/** A relative path would be forbidden, so a text of this form means an id. */
const LIKE_AN_ID = /^ds_[^/]*$/;

/**
 * Checks the data that a client named: the id of a dataset, or the path of a file, see {@link clientFile}.
 *
 * @throws {Problem} Those of a path; `not_found` at the field for an unknown id.
 */
export async function clientData(
  named: string,
  { datasets, ...check }: PathCheck & { datasets: DatasetStore },
): Promise<{ dataset: string | null; file: CheckedFile }> {
  if (!LIKE_AN_ID.test(named)) return { dataset: null, file: await clientFile(named, check) };
  const absent = () => notFound("There is no such dataset", check.pointer);
  const card = await datasets.get(named);
  if (!card) throw absent();
  try {
    return { dataset: named, file: await checkedFile(await Deno.realPath(datasets.pathOf(card))) };
  } catch (error) {
    // The dataset may have been deleted after the check.
    throw await datasets.get(named) ? error : absent();
  }
}
