/** Makes the folder of a run that a server creates. */

import { type Clock, timestamp } from "../../core/clock.ts";
import { writeFileAtomic } from "../../core/files.ts";
import { IdleRun } from "../directory/idle_run.ts";
import type { RunRecord } from "../record/run.ts";
import { copyParent } from "./parent_checkpoint.ts";
import { PROCESS_CONFIG, type ServiceRecord, writeServiceRecord } from "./service_record.ts";

/** The name of a run's folder is its id. */
export const RUN_FOLDER = /^run_[0-9A-HJKMNP-TV-Z]{26}$/;

/** The name of a folder that is being made or removed. A server that starts removes what has such a name. */
export const UNFINISHED = /^\.(new|gone)_/;

/** The plan and the configuration for a run's process. */
export interface PlannedProcess extends Pick<ServiceRecord, "plan"> {
  /** The text of its configuration file, given its folder. */
  processConfig: (directory: string) => string;
}

/** A run that a server is to create. */
export interface NewRun
  extends PlannedProcess, Pick<ServiceRecord, "name" | "notes" | "tags" | "idempotency"> {
  algorithm: string;
  /** The checkpoint from which a fork starts, and its folder; null for a run that is no fork. */
  parent: { run: string; checkpoint: string; directory: string } | null;
}

interface RunPlace {
  id: string;
  directory: string;
  /** The folder in which its files are made; it is renamed to `directory` when it is complete. */
  made: string;
  clock: Clock;
  /** Whether it waits for a slot. */
  waits: boolean;
}

/** Makes the folder of a queued run. It is complete and on disk when this returns; on failure nothing remains. */
export async function makeRunFolder(
  run: NewRun,
  { id, directory, made, clock, waits }: RunPlace,
): Promise<void> {
  const { name, notes, tags, plan, idempotency } = run, now = timestamp(clock);
  const parent = run.parent && { run: run.parent.run, checkpoint: run.parent.checkpoint };
  const queued_at = waits ? now : null;
  try {
    // Only the operator may read the folder: it has the complete configuration.
    await Deno.mkdir(made, { mode: 0o700 });
    await writeFileAtomic(`${made}/${PROCESS_CONFIG}`, run.processConfig(directory));
    await writeServiceRecord(made, {
      ...{ format_version: 1, name, notes, tags, plan, parent, idempotency, queued_at },
      ...{ learning_rate: null, unlogged: null, killed_for: null },
    });
    if (run.parent) await copyParent(run.parent, made);
    const record = newRecord(id, { ...run, created_at: now, parent });
    await writeFileAtomic(`${made}/run.json`, JSON.stringify(record, null, 1) + "\n");
    const idle = await IdleRun.open(made, clock);
    await idle.transition("queued").finally(() => idle.close());
    await Deno.rename(made, directory);
  } catch (error) {
    await Deno.remove(made, { recursive: true }).catch(() => {});
    throw error;
  }
}

function newRecord(
  id: string,
  { name, algorithm, created_at, parent }:
    & Pick<NewRun, "name" | "algorithm">
    & Pick<RunRecord, "created_at" | "parent">,
): RunRecord {
  return {
    format_version: 1,
    id,
    name,
    algorithm,
    state: "queued",
    state_reason: null,
    config_hash: "",
    created_at,
    started_at: null,
    ended_at: null,
    parent,
    error: null,
    deterministic: true,
  };
}
