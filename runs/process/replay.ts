/** Which recording a run replays, and what a departure from it does. */

import { resolve } from "node:path";
import { RECORDINGS } from "../../agent/recording/recording_file.ts";
import type { ReplaySource } from "../../agent/recording/replayer.ts";
import { ServiceError } from "../../core/errors.ts";
import { realPathOf } from "../../core/real_path.ts";
import { identityHash } from "../directory/config_identity.ts";
import { readRunRecord } from "../directory/run_directory.ts";
import type { PreparedRun } from "../plan/prepare.ts";

/** The folder of the recordings of a run. @param run The run's folder, as it is written. */
export const recordingsAt = (run: string) => `${resolve(run)}/${RECORDINGS}`;

/**
 * A run with the configuration and data of the recorded one must ask the same questions. One with another configuration
 * may depart: the attempts that do then fail.
 *
 * @throws {ServiceError} `path_not_found` for a folder without a run; `config_invalid` for a run without rollouts.
 */
export async function replaySource(
  run: string,
  { config, identity }: Pick<PreparedRun, "config" | "identity">,
): Promise<ReplaySource> {
  if (!config.agent) {
    throw new ServiceError(
      "config_invalid",
      `Cannot replay ${run}: run.algorithm = "${config.run.algorithm}" has no rollouts`,
    );
  }
  const record = await readRunRecord(resolve(run));
  if (!record) {
    throw new ServiceError("path_not_found", `Cannot replay ${run}: it is no folder of a run`, { path: run });
  }
  const is_same = record.config_hash === identityHash(identity);
  const folder = await realPathOf(recordingsAt(run));
  return { folder, departures: is_same ? "end_run" : "fail_attempt" };
}
