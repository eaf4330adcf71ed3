/** The world of a replay for the checks before a run starts. */

import { join } from "node:path";
import { doing, ServiceError } from "../../core/errors.ts";
import type { EnvironmentFactory } from "../environment/environment.ts";
import type { RecordingHeader } from "./entries.ts";
import { readRecordingHeader, RECORDING_NAMES } from "./recording_file.ts";
import { recordedCatalogs } from "./replayer.ts";

/** A scenario that was never attempted gets no tools. */
const NO_TOOLS = { name: "none", version: "1", tools: [] };

/**
 * The same environments with the recorded tools: nothing is listed or opened.
 *
 * @throws {ServiceError} `path_not_found` for a folder without recordings, `format_invalid` for a damaged one.
 */
export async function withRecordedTools(
  own: EnvironmentFactory,
  folder: string,
): Promise<EnvironmentFactory> {
  const { call_timeout_ms, grading_advice } = own;
  const catalogs = recordedCatalogs(await headersIn(folder), () => NO_TOOLS);
  return {
    ...{ call_timeout_ms, grading_advice },
    ...catalogs,
    coverage: (scenario) => own.coverage(scenario),
    open: () =>
      Promise.reject(new ServiceError("conflict", "Cannot open an environment: the run is checked")),
    close: () => own.close(),
  };
}

async function headersIn(folder: string): Promise<RecordingHeader[]> {
  const entries = await doing(
    `read the recordings in ${folder}`,
    () => Array.fromAsync(Deno.readDir(folder)),
  );
  const names = entries.map(({ name }) => name).filter((name) =>
    RECORDING_NAMES.test(name) && !name.startsWith(".")
  );
  if (names.length === 0) {
    throw new ServiceError(
      "path_not_found",
      `Cannot replay the run: ${folder} has no recordings; record a run with run.record = true`,
      { path: folder },
    );
  }
  const headers: RecordingHeader[] = [];
  for (const name of names.sort()) headers.push(await readRecordingHeader(join(folder, name)));
  return headers;
}
