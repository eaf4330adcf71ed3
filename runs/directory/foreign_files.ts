/**
 * Files that no run wrote are never replaced, not even with `--force`. A run's files are recognised by their contents:
 * an adapter by its metadata, a PEFT folder by its files and keys, lists by their first bytes, a run directory by
 * `run.json`, a checkpoint by `state.json`.
 */

import { RECORDING_NAMES, RECORDINGS } from "../../agent/recording/recording_file.ts";
import type { ResolvedConfig } from "../../config/check/derive.ts";
import { ServiceError } from "../../core/errors.ts";
import { isPresent } from "../../core/files.ts";
import { isWrittenAdapter } from "../../trainer/formats/adapter.ts";
import { isWrittenPeft } from "../../trainer/formats/peft.ts";
import { METRICS_CSV_HEADER } from "../record/metrics_csv.ts";
import {
  adapterFiles,
  CHECKPOINT_NAMES,
  isLink,
  isRunRecord,
  OBSERVE_NAMES,
  OWN_ENTRIES,
  REPLACED,
} from "./replaced_output.ts";

/** The first bytes of files in an observe directory. */
const OBSERVED = '{"group":', OBSERVED_INDEX = '{"format":';

/** An existing file that no run wrote. */
interface ForeignFile {
  key: string;
  path: string;
  /** Completes "it is". */
  reason: string;
}

/**
 * Checks every path that a run replaces or appends to.
 *
 * @throws {ServiceError} `already_exists` for the first file that no run wrote.
 */
export async function refuseForeignFiles(
  config: ResolvedConfig,
  mode: "new" | "resume" | "fork",
): Promise<void> {
  await refuseForeignAdapter(config);
  await refuseForeignCsv(config);
  const { run, checkpoint, observe } = config;
  refuse(await foreignFileInRun(run.directory));
  // A resumed run owns the files in its folders, damaged or not; it uses the newest complete checkpoint.
  if (mode === "resume" && await isPresent(`${run.directory}/run.json`)) return;
  const checkpoints = `${run.directory}/checkpoints`, trajectories = `${run.directory}/trajectories`;
  for (const path of new Set([checkpoint?.directory ?? checkpoints, checkpoints])) {
    refuse(await foreignFileIn(path, "checkpoint.directory"));
  }
  for (const path of new Set([observe?.directory ?? trajectories, trajectories])) {
    refuse(await foreignFileIn(path, "observe.directory"));
  }
  refuse(await foreignRecordingIn(`${run.directory}/${RECORDINGS}`));
}

/** Like {@link refuseForeignFiles}, for the files that the trained adapter replaces. */
export async function refuseForeignAdapter({ output }: Pick<ResolvedConfig, "output">): Promise<void> {
  for (const path of adapterFiles({ output })) {
    if (await isLink(path)) refuse({ key: "output.path", path, reason: "a link" });
    if (await sizeOf(path) > 0 && !await isWrittenAdapter(path)) {
      refuse({ key: "output.path", path, reason: "no adapter of a run" });
    }
  }
  const { peft_dir } = output;
  if (peft_dir === undefined || !await isFolder(peft_dir) || await isWrittenPeft(peft_dir)) return;
  refuse({ key: "output.peft_dir", path: peft_dir, reason: "no PEFT folder of a run, or holds more" });
}

/** Like {@link refuseForeignFiles}, for the file that the metrics replace. */
export async function refuseForeignCsv({ metrics: { csv } }: ResolvedConfig): Promise<void> {
  if (csv === undefined) return;
  if (await isLink(csv)) refuse({ key: "metrics.csv", path: csv, reason: "a link" });
  if (await beginsWith(csv, METRICS_CSV_HEADER)) return;
  refuse({ key: "metrics.csv", path: csv, reason: "no CSV of a run's metrics" });
}

function refuse(file: ForeignFile | null): void {
  if (!file) return;
  const { key, path, reason } = file;
  throw new ServiceError(
    "already_exists",
    `Cannot write ${path}: it exists and is ${reason}, and what no run wrote is not replaced, not even with ` +
      `--force; move it away, or name another path in ${key}`,
    { key, path },
  );
}

/** Files with a run's names, but without the record that every run starts with, belong to someone else. */
async function foreignFileInRun(directory: string): Promise<ForeignFile | null> {
  const key = "run.directory", record = `${directory}/run.json`;
  // A run that was moved aside for one that never started left its record there.
  if (await isFolder(`${directory}/${REPLACED}`)) return null;
  const text = await Deno.readTextFile(record).catch(() => null);
  if (text !== null) {
    return isRunRecord(text) ? null : { key, path: record, reason: "no record of a run" };
  }
  for (const name of OWN_ENTRIES) {
    const path = `${directory}/${name}`;
    if (await sizeOf(path) > 0) return { key, path, reason: "no run's: there is no run.json beside it" };
  }
  return null;
}

/** The names that a run would use in a folder of checkpoints or trajectories. */
async function foreignFileIn(directory: string, key: string): Promise<ForeignFile | null> {
  for (const { name } of await Array.fromAsync(Deno.readDir(directory)).catch(() => [])) {
    const path = `${directory}/${name}`;
    if (CHECKPOINT_NAMES.test(name) && !name.startsWith(".") && !await isCheckpoint(path)) {
      return { key, path, reason: "no checkpoint" };
    }
    if (!OBSERVE_NAMES.test(name) || name.startsWith(".")) continue;
    if (await beginsWith(path, name.startsWith("update_") ? OBSERVED : OBSERVED_INDEX)) continue;
    return { key, path, reason: "no file of an observe directory" };
  }
  return null;
}

/** Recordings are compressed with gzip, whose files begin with these bytes. */
const GZIP = [0x1f, 0x8b];

async function foreignRecordingIn(directory: string): Promise<ForeignFile | null> {
  for (const { name } of await Array.fromAsync(Deno.readDir(directory)).catch(() => [])) {
    const path = `${directory}/${name}`;
    if (!RECORDING_NAMES.test(name) || name.startsWith(".") || await sizeOf(path) === 0) continue;
    using file = await Deno.open(path, { read: true });
    const bytes = new Uint8Array(GZIP.length);
    await file.read(bytes);
    if (GZIP.some((byte, i) => byte !== bytes[i])) {
      return { key: "run.directory", path, reason: "no recording" };
    }
  }
  return null;
}

async function isCheckpoint(path: string): Promise<boolean> {
  if (!await isFolder(path)) return false;
  const names = (await Array.fromAsync(Deno.readDir(path))).map(({ name }) => name);
  return names.length === 0 || names.includes("state.json");
}

async function isFolder(path: string): Promise<boolean> {
  return (await Deno.stat(path).catch(() => null))?.isDirectory ?? false;
}

/** The size of a regular file in bytes; 0 for anything else and for missing files. */
async function sizeOf(path: string): Promise<number> {
  const info = await Deno.stat(path).catch(() => null);
  return info?.isFile ? info.size : 0;
}

/** Whether a file is missing, starts with `begin`, or is cut off within it. */
export async function beginsWith(path: string, beginning: string): Promise<boolean> {
  if (await sizeOf(path) === 0) return true;
  using file = await Deno.open(path, { read: true });
  const bytes = new Uint8Array(beginning.length);
  const read = await file.read(bytes) ?? 0;
  return beginning.startsWith(new TextDecoder().decode(bytes.subarray(0, read)));
}
