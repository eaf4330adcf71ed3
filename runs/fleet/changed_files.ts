/** The errors for a client when the files of a run have changed or are lost. */

import { loadRunConfig } from "../../config/check/load.ts";
import { type ErrorCode, type ErrorRecord, errorRecord, ServiceError } from "../../core/errors.ts";
import { clientFiles } from "../directory/client_files.ts";
import type { ManagedRun } from "./managed_run.ts";
import { PROCESS_CONFIG } from "./service_record.ts";

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

/** Whether a failure says only that files are not at their paths, or that links have taken their places. */
function saysLost({ code, details: { problems } }: Pick<ErrorRecord, "code" | "details">): boolean {
  if (code !== "config_invalid" || !Array.isArray(problems)) return code === "path_not_found";
  return problems.every((problem: { code: unknown }) => problem.code === "path_not_found");
}

/** The failure that a client's file of a run is gone, or that a link is in its place; null: all are there. */
async function lostFile({ directory }: Pick<ManagedRun, "directory">): Promise<ErrorRecord | null> {
  try {
    await clientFiles((await loadRunConfig(`${directory}/${PROCESS_CONFIG}`)).config);
    return null;
  } catch (failure) {
    const record = errorRecord(failure);
    return saysLost(record) ? record : null;
  }
}

/** Whether a run's process failed because a client's file is lost: other files and devices fail with the same code. */
export async function failedByLostFile(
  run: Pick<ManagedRun, "directory">,
  failure: Pick<ErrorRecord, "code" | "details">,
): Promise<boolean> {
  return saysLost(failure) && await lostFile(run) !== null;
}

/**
 * Refuses to resume a run of which a client's file is lost. Whatever else is wrong is for its process to report.
 *
 * @throws {ServiceError} `conflict` without paths; the log gets the reason.
 */
export async function refuseLostFiles(
  run: Pick<ManagedRun, "id" | "directory">,
  log: AskedRun["log"],
): Promise<void> {
  const lost = await lostFile(run);
  if (lost === null) return;
  log({ level: "warning", run: run.id, message: lost.message });
  const why =
    "a file that it names is gone, or a link is in its place; put it back (the server's log names it)";
  throw new ServiceError("conflict", `Cannot resume the run: ${why}`);
}
