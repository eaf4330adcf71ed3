/** Refusing files of values. */

import { ServiceError } from "../../core/errors.ts";

/** The error of a malformed file: names the file, the place and the reason. */
export function formatError(
  path: string,
  reason: string,
  details: Record<string, unknown> = {},
): ServiceError {
  return new ServiceError("format_invalid", `Cannot read ${path}: ${reason}`, { path, ...details });
}
