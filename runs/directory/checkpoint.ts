/**
 * Checkpoints: a folder `update_000004` each, which appears complete by one rename. Reading verifies its bytes. It
 * holds the engine's files (`adapter.gguf`, `optimizer.safetensors`) and `state.json`.
 */

import { createHash } from "node:crypto";
import { basename, resolve } from "node:path";
import { doing, ServiceError, systemError } from "../../core/errors.ts";
import { isPresent, partialPath, replacedPath, sha256OfFile } from "../../core/files.ts";
import { reasonOf } from "../../core/system_errors.ts";
import type { EvaluationRecord } from "../record/evaluation_record.ts";
import { type FileOperations, systemFiles } from "./checkpoint_files.ts";
import type { Identity } from "./config_identity.ts";

export const CHECKPOINT_FORMAT_VERSION = 4;

/** The record of a checkpoint. */
export const STATE_FILE = "state.json";
const NAME = /^update_\d{6,}$/;

/** A checkpoint that a crash left incomplete or replaced, with or without `svc-` in its name. */
const LEFTOVER = /^\.(?:svc-(partial|replaced)-(update_\d{6,})|(update_\d{6,})\.(partial|replaced))$/;

/** Attempts at one scenario in one update. */
export interface HistoryEntry {
  update: number;
  attempts: number;
  passes: number;
  /** Attempts that failed for reasons other than the model's. */
  failed: number;
}

/** All state of a run besides the engine's files. Randomness is a function of these counters. */
export interface TrainingState {
  /** Finished updates. */
  update: number;
  /** Finished optimiser steps. */
  step: number;
  /** Scenarios or rows used so far. This number and the seed determine the epoch and the position in it. */
  examples_seen: number;
  /** Set by a command; null: the configuration's. */
  learning_rate: number | null;
  /** Finished evaluations. */
  evaluations: number;
  /** The update before the last evaluation; null before the first evaluation. */
  evaluated_update: number | null;
  /** The evaluation with the best value so far. */
  best: EvaluationRecord | null;
  /**
   * For `patience`: the value of the last evaluation that improved by more than `min_delta`, and the number of
   * evaluations since.
   */
  patience_value: number | null;
  evaluations_since_gain: number;
  /** The first evaluation, and the latest. */
  before: EvaluationRecord | null;
  latest: EvaluationRecord | null;
  /** By scenario id. */
  history: Record<string, HistoryEntry[]>;
  /** Mean reward, or loss, of every update: the plot at the end. */
  curve: (number | null)[];
  /** Training time so far, for `max_minutes` and the time estimate. */
  elapsed_seconds: number;
  deterministic: boolean;
}

export function initialState(): TrainingState {
  return {
    update: 0,
    step: 0,
    examples_seen: 0,
    learning_rate: null,
    evaluations: 0,
    evaluated_update: null,
    best: null,
    patience_value: null,
    evaluations_since_gain: 0,
    before: null,
    latest: null,
    history: {},
    curve: [],
    elapsed_seconds: 0,
    deterministic: true,
  };
}

export interface CheckpointFile {
  size_bytes: number;
  sha256: string;
}

/** `state.json`. Its last key is a hash of the others. */
export interface CheckpointRecord {
  format_version: number;
  run: string;
  created_at: string;
  config_hash: string;
  config: Identity;
  /** The metrics of the last update. */
  metrics: Record<string, number>;
  state: TrainingState;
  files: Record<string, CheckpointFile>;
}

export interface Checkpoint {
  name: string;
  directory: string;
  size_bytes: number;
  record: CheckpointRecord;
}

export function checkpointName(update: number): string {
  return `update_${String(update).padStart(6, "0")}`;
}

function serializeRecord(record: CheckpointRecord): string {
  const body = JSON.stringify(record, null, 1);
  return JSON.stringify({ ...record, seal: createHash("sha256").update(body).digest("hex") }, null, 1) + "\n";
}

export interface SaveCheckpointOptions {
  /** The folder of all checkpoints. */
  root: string;
  record: Omit<CheckpointRecord, "format_version" | "files">;
  /** Writes the engine's files into an existing folder. */
  write: (directory: string) => Promise<void>;
  files?: FileOperations;
}

/** Writes a checkpoint. On failure nothing appears under its final name, and an earlier checkpoint there stays. */
export async function saveCheckpoint(options: SaveCheckpointOptions): Promise<Checkpoint> {
  const { root, write, files = systemFiles } = options;
  const name = checkpointName(options.record.state.update);
  const final = `${root}/${name}`, partial = partialPath(final), replaced = replacedPath(final);
  try {
    await files.makeDirectory(root);
    await files.remove(partial);
    await files.makeDirectory(partial);
    await write(partial);
    const listed = await measureFiles(partial, files);
    const record = { format_version: CHECKPOINT_FORMAT_VERSION, ...options.record, files: listed };
    await files.writeFile(`${partial}/${STATE_FILE}`, serializeRecord(record));
    await files.syncDirectory(partial);
    if (await isPresent(final)) await files.rename(final, replaced);
    await files.rename(partial, final);
    await files.syncDirectory(root);
    await files.remove(replaced);
    return await loadCheckpoint(final);
  } catch (error) {
    await repairCheckpoints(root).catch(() => {});
    throw systemError(`write checkpoint ${final}`, error);
  }
}

async function measureFiles(
  directory: string,
  files: FileOperations,
): Promise<Record<string, CheckpointFile>> {
  const names: string[] = [];
  for await (const entry of Deno.readDir(directory)) names.push(entry.name);
  const measured: Record<string, CheckpointFile> = {};
  for (const name of names.sort()) {
    const path = `${directory}/${name}`;
    await files.syncFile(path);
    measured[name] = { size_bytes: (await Deno.stat(path)).size, sha256: await sha256OfFile(path) };
  }
  return measured;
}

/** Repairs what a crash left: removes unfinished folders, and restores one that was about to be replaced. */
export function repairCheckpoints(root: string): Promise<void> {
  return doing(`clear the unfinished checkpoints in ${root}`, () => repair(root));
}

async function repair(root: string): Promise<void> {
  for (const name of await readNames(root)) {
    const left = LEFTOVER.exec(name);
    if (!left) continue;
    const kind = left[1] ?? left[4], final = `${root}/${left[2] ?? left[3]}`;
    const restore = kind === "replaced" && !await isPresent(final);
    if (restore) await Deno.rename(`${root}/${name}`, final);
    else await Deno.remove(`${root}/${name}`, { recursive: true });
  }
}

async function readNames(root: string): Promise<string[]> {
  const names: string[] = [];
  try {
    for await (const entry of Deno.readDir(root)) names.push(entry.name);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw systemError(`read the folder ${root}`, error);
  }
  return names.sort();
}

/** Names of the checkpoints in a folder, oldest first; empty when the folder does not exist. */
export async function listCheckpoints(root: string): Promise<string[]> {
  const names = (await readNames(root)).filter((name) => NAME.test(name));
  return names.sort((a, b) => checkpointUpdate(a) - checkpointUpdate(b));
}

/**
 * Reads a checkpoint and verifies the length and hash of all its files.
 *
 * @throws {ServiceError} `path_not_found`, or `format_invalid` naming the damaged file.
 */
export async function loadCheckpoint(directory: string): Promise<Checkpoint> {
  const refuse = (reason: string, code: "format_invalid" | "path_not_found" = "format_invalid") =>
    new ServiceError(code, `Cannot use checkpoint ${directory}: ${reason}`, { path: directory });
  await Deno.stat(directory).catch((error: Error) => {
    const is_absent = error instanceof Deno.errors.NotFound;
    throw refuse(is_absent ? "there is no such folder" : reasonOf(error), "path_not_found");
  });
  const text = await Deno.readTextFile(`${directory}/${STATE_FILE}`).catch((error: Error) => {
    throw refuse(`${STATE_FILE} cannot be read: ${reasonOf(error)}`);
  });
  const record = parseRecord(text);
  if (!record) throw refuse(`${STATE_FILE} is damaged`);
  if (record.format_version !== CHECKPOINT_FORMAT_VERSION) {
    throw new ServiceError(
      "conflict",
      `Cannot use checkpoint ${directory}: its format version is ${record.format_version}, this build reads ` +
        `${CHECKPOINT_FORMAT_VERSION}; go on with the build that wrote it`,
      { path: directory },
    );
  }
  let size_bytes = new TextEncoder().encode(text).length;
  for (const [name, file] of Object.entries(record.files)) {
    const damage = await damageOf(`${directory}/${name}`, file);
    if (damage !== null) throw refuse(`${name} ${damage}`);
    size_bytes += file.size_bytes;
  }
  const absolute = resolve(directory);
  return { name: basename(absolute), directory: absolute, size_bytes, record };
}

/** Why a file is not the one that was written, as the end of a sentence about it; null when it is. */
export async function damageOf(path: string, { size_bytes, sha256 }: CheckpointFile): Promise<string | null> {
  const info = await Deno.stat(path).catch(() => null);
  if (!info) return "is missing";
  if (info.size !== size_bytes) return `has ${info.size} bytes instead of ${size_bytes}`;
  return await sha256OfFile(path) === sha256 ? null : "is damaged: its SHA-256 differs";
}

/** The record of a checkpoint, without a look at its other files; null when it is damaged or missing. */
export async function readCheckpointRecord(directory: string): Promise<CheckpointRecord | null> {
  return parseRecord(await Deno.readTextFile(`${directory}/${STATE_FILE}`).catch(() => ""));
}

/** The update after which a checkpoint was written. */
export function checkpointUpdate(name: string): number {
  return Number(name.slice("update_".length));
}

/** Parses a record; null unless its bytes match its hash. */
function parseRecord(text: string): CheckpointRecord | null {
  try {
    const { seal: _, ...record } = JSON.parse(text);
    return serializeRecord(record) === text ? record : null;
  } catch {
    return null;
  }
}

/** The newest complete checkpoint; null when there is none. Damaged ones are skipped and reported to `warn`. */
export async function newestCheckpoint(
  root: string,
  warn: (message: string) => void,
): Promise<Checkpoint | null> {
  await repairCheckpoints(root);
  for (const name of (await listCheckpoints(root)).reverse()) {
    try {
      return await loadCheckpoint(`${root}/${name}`);
    } catch (error) {
      // A checkpoint of another build is not damaged. Skipping it would lose it.
      if (!(error instanceof ServiceError) || error.code === "conflict") throw error;
      warn(`${error.message}; the one before is used`);
    }
  }
  return null;
}

/**
 * Removes all but the last `keep` up to `newest`, and `best`; returns the removed names. Later checkpoints than
 * `newest` belong to a run that continued from an earlier one: they are kept and not counted.
 */
export async function pruneCheckpoints(
  root: string,
  { keep, best, newest }: { keep: number; best: string | null; newest: string },
): Promise<string[]> {
  const all = await listCheckpoints(root), names = all.slice(0, all.indexOf(newest) + 1);
  const removed = names.slice(0, Math.max(0, names.length - keep)).filter((name) => name !== best);
  for (const name of removed) {
    const path = `${root}/${name}`, gone = partialPath(path);
    await doing(`remove checkpoint ${path}`, async () => {
      await Deno.rename(path, gone);
      await Deno.remove(gone, { recursive: true });
    });
  }
  return removed;
}
