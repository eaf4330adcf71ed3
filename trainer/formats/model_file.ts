/** Opening and refusing files of values. */

import { ServiceError } from "../../core/errors.ts";
import { reasonOf } from "../../core/system_errors.ts";

/** The error of a malformed file: names the file, the place and the reason. */
export function formatError(
  path: string,
  reason: string,
  details: Record<string, unknown> = {},
): ServiceError {
  return new ServiceError("format_invalid", `Cannot read ${path}: ${reason}`, { path, ...details });
}

/**
 * Opens a file for reading unless it is a pipe or device, which could block for ever.
 *
 * @throws {ServiceError} `path_not_found` or `format_invalid`.
 */
export async function openRegularFile(path: string): Promise<Deno.FsFile> {
  try {
    const found = await Deno.stat(path);
    if (found.isFile) return await Deno.open(path, { read: true });
  } catch (error) {
    const message = `Cannot read ${path}: ${reasonOf(error)}`;
    throw new ServiceError("path_not_found", message, { path }, { cause: error });
  }
  throw formatError(path, "it is not a regular file");
}
