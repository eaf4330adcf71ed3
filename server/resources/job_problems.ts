/** Maps errors of a job to problems of the request that needs it. */

import { ServiceError } from "../../core/errors.ts";
import type { CheckedFile } from "../../core/regular_file.ts";
import type { JobRunner } from "../../runs/jobs/job_table.ts";
import { problemAt } from "../http/problems.ts";

/** Jobs whose refusal because of a full queue is the problem `device-busy`, for every request. */
export function jobsOrBusy(jobs: JobRunner): JobRunner {
  return {
    async run(...asked) {
      try {
        return await jobs.run(...asked);
      } catch (error) {
        if (!(error instanceof ServiceError) || error.code !== "device_unavailable") throw error;
        throw problemAt("", error);
      }
    },
  };
}

/** A file of a job, with the field that names it and the path in that field. */
export interface NamedFile {
  pointer: string;
  /** The path as the client wrote it. */
  named: string;
  file: CheckedFile;
}

/** A failure of a job as a refusal of the field that names its file. Other errors are returned unchanged. */
export function modelProblem(error: unknown, { pointer, named, file }: NamedFile): unknown {
  if (!(error instanceof ServiceError)) return error;
  // The real path may differ from the path that the client named.
  const message = error.message.replaceAll(file.path, named);
  return problemAt(pointer, new ServiceError(error.code, message, error.details, { cause: error }));
}

/**
 * Waits for a job on a model file. Its failures become refusals of the field that names the model, or of the row when
 * they name a line.
 *
 * @param row_pointer The field that names the row; absent: no failure names a line.
 * @throws {Problem}
 */
export async function jobOn<T>(work: Promise<T>, model: NamedFile, row_pointer?: string): Promise<T> {
  try {
    return await work;
  } catch (error) {
    const is_row = error instanceof ServiceError && error.details.line !== undefined;
    throw modelProblem(error, is_row && row_pointer ? { ...model, pointer: row_pointer } : model);
  }
}
