/** The files of a run that a client of the server named. Its configuration has their real paths. */

import type { RunConfig } from "../../config/schema.ts";
import { type CheckedFile, checkedFile } from "../../core/regular_file.ts";
import { inputFiles } from "./config_identity.ts";

/**
 * Checks that the files of a configuration still lie at their real paths: a client who may write into a folder cannot
 * lead a run to files elsewhere by a link. Another regular file at such a path is taken, as at the start of any run.
 *
 * @param keys Absent: all that name files.
 * @throws {ServiceError} `path_not_found` for a path that has become a link, or leads to no regular file.
 */
export async function clientFiles(config: RunConfig, keys?: readonly string[]): Promise<CheckedFile[]> {
  return await Promise.all(inputFiles(config, keys).map(({ path }) => checkedFile(path)));
}
