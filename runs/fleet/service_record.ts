/** `service.json`: what a server stores about a run besides the run's own files. */

import { ServiceError } from "../../core/errors.ts";
import { writeFileAtomic } from "../../core/files.ts";
import type { Plan } from "../plan/plan.ts";

/** The configuration for the run's process, with everything that the operator declares. */
export const PROCESS_CONFIG = "run.toml";

const SERVICE_RECORD = "service.json";

/** The folder in a fork's directory that keeps the checkpoint from which it starts. */
export const PARENT_CHECKPOINTS = "parent";

export interface ServiceRecord {
  format_version: 1;
  name: string;
  notes: string;
  tags: string[];
  /** The plan at creation; its `config` is the resolved configuration by catalogue ids, without the run's own paths. */
  plan: Plan;
  parent: { run: string; checkpoint: string } | null;
  /** The idempotency key of the request that created it, and the hash of that request; null without one. */
  idempotency: { key: string; body_sha256: string; created_ms: number } | null;
  /** When it began to wait for a slot; null when it does not wait. */
  queued_at: string | null;
  /** The learning rate that a command set last, for every process that starts; null before the first. */
  learning_rate: number | null;
  /** Rates accepted while its process started, in order, that its log may lack after this event. */
  unlogged: { after_seq: number; rates: number[] } | null;
  /** The cancel for which its process is killed. The log of a live run lacks this command. */
  killed_for: CancelArguments | null;
}

export interface CancelArguments {
  at: "boundary" | "now";
  checkpoint: boolean;
}

export async function writeServiceRecord(directory: string, record: ServiceRecord): Promise<void> {
  await writeFileAtomic(`${directory}/${SERVICE_RECORD}`, JSON.stringify(record, null, 1) + "\n");
}

/** @throws {ServiceError} `format_invalid` when it is missing or damaged. */
export async function readServiceRecord(directory: string): Promise<ServiceRecord> {
  const path = `${directory}/${SERVICE_RECORD}`;
  try {
    const record = JSON.parse(await Deno.readTextFile(path));
    if (record?.format_version === 1 && typeof record.plan?.config === "object") {
      return { unlogged: null, killed_for: null, ...record };
    }
  } catch { /* refused below */ }
  throw new ServiceError("format_invalid", `Cannot read ${path}: it is no record of a server's run`);
}
