/** Exit statuses. */

import { type ErrorCode, ServiceError } from "../core/errors.ts";

/** The exit statuses of `svc`. `interrupted` is 128 + SIGINT, as shells count. */
export const EXIT = { done: 0, failed: 1, usage: 2, no_device: 3, interrupted: 130 } as const;

export type ExitCode = typeof EXIT[keyof typeof EXIT];

/** Errors in the user's own files and arguments: nothing was started. */
const USAGE_CODES: readonly ErrorCode[] = [
  "config_invalid",
  "data_invalid",
  "format_invalid",
  "template_failed",
  "path_not_found",
  "already_exists",
  "not_built",
  "conflict",
];

/** The exit status of a command that threw. */
export function exitCodeOf(error: unknown): ExitCode {
  if (!(error instanceof ServiceError)) return EXIT.failed;
  if (error.code === "device_unavailable") return EXIT.no_device;
  if (error.code === "cancelled") return EXIT.interrupted;
  return USAGE_CODES.includes(error.code) ? EXIT.usage : EXIT.failed;
}
