/**
 * The run directory: `run.json` (what the run is and where it stands), `config.toml` (as resolved), `events.jsonl`,
 * `log.txt` (the same for people), and, unless their own keys say otherwise, `checkpoints/`, `trajectories/` and `adapter.gguf`.
 * A lock file keeps two processes apart.
 */

import type { ResolvedConfig } from "../config/derive.ts";
import { type Clock, timestamp } from "../core/clock.ts";
import { ServiceError } from "../core/errors.ts";
import { writeFileAtomic } from "../core/files.ts";
import { newId } from "../core/ids.ts";
import { configToml, type Identity, identityHash } from "./config_identity.ts";
import { isLive, type RunRecord } from "./run.ts";

/** What lies in a run directory and is the run's: `--force` removes this and nothing else. */
const OWN_ENTRIES = ["run.json", "config.toml", "events.jsonl", "log.txt", "checkpoints", "trajectories"];

/** Where they wait while the run that replaces them has not begun. */
const REPLACED = ".replaced";

export interface OpenDirectoryOptions {
  config: ResolvedConfig;
  identity: Identity;
  clock: Clock;
  /** `resume`: go on with the run that is there, or begin one when there is none. */
  mode: "new" | "resume" | "fork";
  /** Replace what is there. */
  force: boolean;
}

export class RunDirectory {
  readonly path: string;
  readonly #config: ResolvedConfig;
  readonly #lock: Deno.FsFile;
  #record: RunRecord;

  private constructor(config: ResolvedConfig, lock: Deno.FsFile, record: RunRecord) {
    this.path = config.run.directory;
    this.#config = config;
    this.#lock = lock;
    this.#record = record;
  }

  /**
   * Locks the directory and begins or takes up its run; `run.json` is then on the disk.
   *
   * @throws {ServiceError} `conflict` when another process has it or its run cannot be resumed; `already_exists`
   * when output is there and may not be replaced; `format_invalid` when `run.json` is damaged.
   */
  static async open(options: OpenDirectoryOptions): Promise<RunDirectory> {
    const { config, mode, force } = options;
    const path = config.run.directory;
    await Deno.mkdir(path, { recursive: true });
    const lock = await takeLock(path);
    try {
      await restoreReplaced(path);
      const found = await readRunRecord(path);
      if (found && mode === "resume") {
        const directory = new RunDirectory(config, lock, found);
        await directory.#takeUp();
        return directory;
      }
      const existing = await existingOutput(config, mode);
      if (existing !== null && !force) throw occupied(existing);
      if (force) await moveAside(path);
      const directory = new RunDirectory(config, lock, newRecord(options));
      await directory.update({});
      await directory.#writeConfig();
      return directory;
    } catch (error) {
      lock.close();
      throw error;
    }
  }

  get record(): RunRecord {
    return this.#record;
  }

  get eventsPath(): string {
    return `${this.path}/events.jsonl`;
  }

  get logPath(): string {
    return `${this.path}/log.txt`;
  }

  /** Changes the record, on the disk first. */
  async update(changes: Partial<RunRecord>): Promise<void> {
    const record = { ...this.#record, ...changes };
    await writeFileAtomic(`${this.path}/run.json`, JSON.stringify(record, null, 1) + "\n");
    this.#record = record;
  }

  /** The run has begun: what `--force` replaces goes for good. */
  async commit(): Promise<void> {
    const { output, checkpoint, observe } = this.#config;
    const aside = `${this.path}/${REPLACED}`;
    if (!await isPresent(aside)) return;
    await removeIfPresent(output.path);
    for (const place of [checkpoint?.directory, observe?.directory]) {
      if (place !== undefined) await removeOwnFiles(place);
    }
    await removeIfPresent(aside);
  }

  /** The run never began: what it left goes, and what `--force` would have replaced comes back. */
  async discard(): Promise<void> {
    for (const name of OWN_ENTRIES) await removeIfPresent(`${this.path}/${name}`);
    await restoreReplaced(this.path);
  }

  /** Gives the lock back. */
  close(): void {
    this.#lock.close();
  }

  async #writeConfig(): Promise<void> {
    await writeFileAtomic(`${this.path}/config.toml`, configToml(this.#config));
  }

  async #takeUp(): Promise<void> {
    if (isLive(this.#record.state)) await this.update({ state: "interrupted", state_reason: null });
    if (this.#record.state !== "cancelled") return await this.#writeConfig();
    throw new ServiceError(
      "conflict",
      `Cannot resume the run in ${this.path}: it was cancelled; start a fork of a checkpoint with --fork`,
    );
  }
}

async function takeLock(directory: string): Promise<Deno.FsFile> {
  const lock = await Deno.open(`${directory}/lock`, { read: true, write: true, create: true });
  if (await lock.tryLock(true)) return lock;
  lock.close();
  throw new ServiceError(
    "conflict",
    `Cannot use ${directory}: another process is working in it; wait for it, or name another [run].directory`,
  );
}

/** The record of a run directory; null when it holds no run. @throws {ServiceError} `format_invalid`. */
export async function readRunRecord(directory: string): Promise<RunRecord | null> {
  const path = `${directory}/run.json`;
  let text: string;
  try {
    text = await Deno.readTextFile(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw error;
  }
  try {
    const record = JSON.parse(text);
    if (record?.format_version === 1 && typeof record.id === "string") return record;
  } catch { /* reported below */ }
  throw new ServiceError(
    "format_invalid",
    `Cannot read ${path}: it is no record of a run; replace it with --force`,
  );
}

function newRecord({ config, identity, clock }: OpenDirectoryOptions): RunRecord {
  return {
    format_version: 1,
    id: newId("run", clock),
    name: config.run.name,
    algorithm: config.run.algorithm,
    state: "starting",
    state_reason: null,
    config_hash: identityHash(identity),
    created_at: timestamp(clock),
    started_at: null,
    ended_at: null,
    parent: null,
    error: null,
    deterministic: true,
  };
}

/** The first thing that a new run would overwrite. A fork may replace the adapter, never another run. */
async function existingOutput(
  config: ResolvedConfig,
  mode: "new" | "resume" | "fork",
): Promise<string | null> {
  const { directory } = config.run;
  const places = OWN_ENTRIES.map((name) => `${directory}/${name}`);
  if (config.checkpoint) places.push(config.checkpoint.directory);
  if (config.observe) places.push(config.observe.directory);
  if (mode === "new") {
    places.push(config.output.path, ...(config.output.peft_dir ? [config.output.peft_dir] : []));
  }
  for (const place of places) if (await holdsSomething(place)) return place;
  return null;
}

async function holdsSomething(path: string): Promise<boolean> {
  const info = await Deno.stat(path).catch(() => null);
  if (!info?.isDirectory) return info !== null;
  for await (const _ of Deno.readDir(path)) return true;
  return false;
}

function occupied(path: string): ServiceError {
  return new ServiceError(
    "already_exists",
    `Cannot start a run: ${path} exists; go on with --resume, name another [run].directory, or replace it with --force`,
    { path },
  );
}

async function isPresent(path: string): Promise<boolean> {
  return await Deno.lstat(path).then(() => true, () => false);
}

async function removeIfPresent(path: string): Promise<void> {
  if (await isPresent(path)) await Deno.remove(path, { recursive: true });
}

/** Puts the run that is there out of the way until the new one has begun. */
async function moveAside(directory: string): Promise<void> {
  await Deno.mkdir(`${directory}/${REPLACED}`);
  for (const name of OWN_ENTRIES) {
    if (await isPresent(`${directory}/${name}`)) {
      await Deno.rename(`${directory}/${name}`, `${directory}/${REPLACED}/${name}`);
    }
  }
}

/** A run that was put aside for one that never began comes back. */
async function restoreReplaced(directory: string): Promise<void> {
  const aside = `${directory}/${REPLACED}`;
  if (!await isPresent(aside)) return;
  for await (const { name } of Deno.readDir(aside)) {
    await removeIfPresent(`${directory}/${name}`);
    await Deno.rename(`${aside}/${name}`, `${directory}/${name}`);
  }
  await Deno.remove(aside);
}

/** A folder that a key names can hold other things: only what runs write there goes. */
async function removeOwnFiles(directory: string): Promise<void> {
  const entries = await Array.fromAsync(Deno.readDir(directory)).catch(() => []);
  for (const { name } of entries) {
    if (/^\.?update_\d+/.test(name) || name === "index.jsonl") {
      await Deno.remove(`${directory}/${name}`, { recursive: true });
    }
  }
}
