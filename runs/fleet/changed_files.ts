/** The error for a client when the files of a run have changed. */

import { type ErrorCode, errorRecord, ServiceError } from "../../core/errors.ts";

/** Failures of the run's own files: a change or a loss since it was created, not a fault of the request. */
const OF_THE_FILES: readonly ErrorCode[] = [
  "config_invalid",
  "conflict",
  "data_invalid",
  "format_invalid",
  "not_built",
  "path_not_found",
  "template_failed",
];

export interface AskedRun {
  run: string;
  /** Completes "Cannot … the run". */
  doing: string;
  log: (line: Record<string, unknown>) => void;
}

/**
 * Maps a failure of a process that answers for a run. When the run's files cause it, the client gets a `conflict` without
 * paths, and the log gets the reason. A failure of the request, which names a field or a keyword, is returned unchanged.
 */
export function failureOfFiles(failure: unknown, { run, doing, log }: AskedRun): unknown {
  const { code, message, details } = errorRecord(failure);
  const is_of_request = details.field !== undefined || details.keyword !== undefined;
  if (!OF_THE_FILES.includes(code) || is_of_request) return failure;
  log({ level: "warning", run, message });
  const { changed } = details;
  const what = Array.isArray(changed)
    ? `${changed.join(", ")} changed since it trained`
    : "it does not load any more";
  return new ServiceError("conflict", `Cannot ${doing} the run: ${what}; the server's log has the reason`);
}
