/** Errors of malformed model files. */

import { ServiceError } from "../../core/errors.ts";

/** The error for a malformed file, with the file, the place and the reason. */
export function formatError(
  path: string,
  reason: string,
  details: Record<string, unknown> = {},
): ServiceError {
  return new ServiceError("format_invalid", `Cannot read ${path}: ${reason}`, { path, ...details });
}
