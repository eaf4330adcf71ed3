/** Adapters of runs, checked before they are used: a checkpoint's by its record, a run's result by the event log. */

import { basename, dirname } from "node:path";
import { ServiceError } from "../../core/errors.ts";
import { isPresent } from "../../core/files.ts";
import { writtenFile } from "../record/log_tail.ts";
import { type CheckpointFile, damageOf, readCheckpointRecord, STATE_FILE } from "./checkpoint.ts";
import { eventsPathOf } from "./run_directory.ts";

/**
 * Compares length and SHA-256 of an adapter in a run's directory or checkpoint with what was written. A file of which
 * nothing is recorded passes.
 *
 * @throws {ServiceError} `format_invalid` naming the file.
 */
export async function checkAdapter(path: string): Promise<void> {
  const folder = dirname(path), name = basename(path);
  const written = await isPresent(`${folder}/${STATE_FILE}`)
    ? await fileOfCheckpoint(folder, name)
    : await writtenFile(eventsPathOf(folder), name);
  const damage = written && await damageOf(path, written);
  if (damage) throw new ServiceError("format_invalid", `Cannot use ${path}: it ${damage}`, { path });
}

async function fileOfCheckpoint(directory: string, name: string): Promise<CheckpointFile | null> {
  const record = await readCheckpointRecord(directory);
  if (record) return record.files[name] ?? null;
  const message = `Cannot use checkpoint ${directory}: ${STATE_FILE} is damaged`;
  throw new ServiceError("format_invalid", message, { path: directory });
}
