/**
 * The run directory: `run.json` (what the run is, and its state), `config.toml` (resolved), `events.jsonl`, `log.txt`
 * (the events for people), and, unless their own keys say otherwise, `checkpoints/`, `trajectories/` and
 * `adapter.gguf`. Lock files keep other processes out, here and in folders of checkpoints and trajectories elsewhere.
 */

import { sep } from "node:path";
import type { ResolvedConfig } from "../../config/check/derive.ts";
import { type Clock, timestamp } from "../../core/clock.ts";
import { ServiceError, systemError } from "../../core/errors.ts";
import { writeFileAtomic } from "../../core/files.ts";
import { newId } from "../../core/ids.ts";
import { isLive, type RunRecord } from "../record/run.ts";
import { listCheckpoints } from "./checkpoint.ts";
import { configToml, type Identity, identityHash } from "./config_identity.ts";
import { DirectoryLock } from "./directory_lock.ts";
import {
  checkParent,
  checkPlaces,
  existingOutput,
  ignoreInGit,
  moveAside,
  occupied,
  removeOwnEntries,
  removeReplaced,
  restoreReplaced,
} from "./replaced_output.ts";
import { refuseForeignAdapter, refuseForeignFiles } from "./foreign_files.ts";

export interface OpenDirectoryOptions {
  config: ResolvedConfig;
  identity: Identity;
  clock: Clock;
  /** `resume`: continue the existing run, or start one when there is none. */
  mode: "new" | "resume" | "fork";
  /** The folder of the checkpoint from which a fork starts. */
  checkpoint: string | null;
  /** Replace existing output. */
  force: boolean;
  /** The id of a run that a server has prepared in the directory, and which this process runs. Absent: none. */
  adopt?: string | undefined;
}

/** The event log of a run directory. */
export const eventsPathOf = (directory: string) => `${directory}/events.jsonl`;

/** The events of a run directory for people. */
export const logPathOf = (directory: string) => `${directory}/log.txt`;

export class RunDirectory {
  readonly path: string;
  readonly #config: ResolvedConfig;
  readonly #locks: readonly DirectoryLock[];
  readonly #identity: Identity;
  #record: RunRecord;
  #is_discarded = false;
  #writing: Promise<void> = Promise.resolve();

  private constructor(
    { config, identity }: OpenDirectoryOptions,
    locks: readonly DirectoryLock[],
    record: RunRecord,
  ) {
    this.path = config.run.directory;
    this.#config = config;
    this.#identity = identity;
    this.#locks = locks;
    this.#record = record;
  }

  /**
   * Locks the directory and starts or resumes its run; `run.json` is then on disk.
   *
   * @throws {ServiceError} `conflict` when another process has it or its run cannot be resumed; `already_exists` when
   * output exists and may not be replaced, or no run wrote it; `config_invalid` when a key names something that is
   * never replaced; `format_invalid` when `run.json` is damaged and not to be replaced. `conflict` also when the run to
   * adopt is another one.
   */
  static async open(options: OpenDirectoryOptions): Promise<RunDirectory> {
    const { config, mode, force, checkpoint, adopt } = options;
    const path = config.run.directory;
    if (adopt !== undefined) return await RunDirectory.#adopt(options, adopt);
    await checkPlaces(config);
    await refuseForeignFiles(config, mode);
    if (force && checkpoint !== null) await checkParent(checkpoint, config);
    const locks = await takeLocks(config);
    try {
      await restoreReplaced(path);
      const found = mode === "resume" || !force ? await readRunRecord(path) : null;
      if (found && mode === "resume") {
        const directory = new RunDirectory(options, locks, found);
        await directory.#resume();
        return directory;
      }
      const existing = await existingOutput(config, mode);
      if (existing !== null && !force) throw occupied(existing, found !== null);
      if (force) await moveAside(path);
      const directory = new RunDirectory(options, locks, newRecord(options));
      await directory.update({});
      await directory.writeConfig();
      return directory;
    } catch (error) {
      for (const lock of locks) lock.closeUnused();
      throw error;
    }
  }

  /** Opens the folder of a run whose record a server has written. */
  static async #adopt(options: OpenDirectoryOptions, id: string): Promise<RunDirectory> {
    const { config, mode } = options, path = config.run.directory;
    const locks = await takeLocks(config);
    try {
      const record = await readRunRecord(path);
      if (record?.id !== id) {
        throw new ServiceError("conflict", `Cannot start ${id}: ${path} has ${record?.id ?? "no run"}`);
      }
      // The server that started this process may be gone, and the next one may have changed the run's state.
      if (record.state !== "starting") {
        throw new ServiceError("conflict", `Cannot start ${id}: it is ${record.state}`);
      }
      const directory = new RunDirectory(options, locks, record);
      if (mode !== "resume") await directory.writeConfig();
      return directory;
    } catch (error) {
      for (const lock of locks) lock.closeUnused();
      throw error;
    }
  }

  get record(): RunRecord {
    return this.#record;
  }

  get eventsPath(): string {
    return eventsPathOf(this.path);
  }

  get logPath(): string {
    return logPathOf(this.path);
  }

  /** Changes the record on disk, then in memory, one change at a time. */
  update(changes: Partial<RunRecord>): Promise<void> {
    const written = this.#writing.then(async () => {
      const record = { ...this.#record, ...changes };
      await writeFileAtomic(`${this.path}/run.json`, JSON.stringify(record, null, 1) + "\n");
      this.#record = record;
    });
    this.#writing = written.catch(() => {});
    return written;
  }

  /** The run has started: removes what `--force` replaces, and makes git ignore the run's folder. */
  async commit(): Promise<void> {
    await refuseForeignAdapter(this.#config);
    await removeReplaced(this.#config);
    await ignoreInGit(this.#config);
  }

  /**
   * The run never started: removes its files, and restores what `--force` would have replaced. If nothing existed
   * before, nothing remains after {@link close}.
   */
  async discard(): Promise<void> {
    this.#is_discarded = true;
    await removeOwnEntries(this.path);
    await restoreReplaced(this.path);
  }

  /** Writes the configuration that the run must keep from now on. */
  async writeConfig(): Promise<void> {
    await writeFileAtomic(`${this.path}/config.toml`, configToml(this.#config));
    const config_hash = identityHash(this.#identity);
    if (this.#record.config_hash !== config_hash) await this.update({ config_hash });
  }

  /** Releases the locks. */
  close(): void {
    for (const lock of this.#locks) {
      if (this.#is_discarded) lock.closeUnused();
      else lock.close();
    }
  }

  async #resume(): Promise<void> {
    if (isLive(this.#record.state)) await this.update({ state: "interrupted", state_reason: null });
    if (this.#record.state !== "cancelled") return;
    const root = this.#config.checkpoint?.directory ?? `${this.path}/checkpoints`;
    const has_checkpoint = (await listCheckpoints(root)).length > 0;
    throw new ServiceError(
      "conflict",
      `Cannot resume the run in ${this.path}: it was cancelled; ` +
        (has_checkpoint
          ? "start a fork of a checkpoint with --fork and another [run].directory"
          : "it has no checkpoint to fork: start a new run with another [run].directory"),
    );
  }
}

/** Locks all folders that only this run may write to, the run directory last. */
async function takeLocks({ run, checkpoint, observe }: ResolvedConfig): Promise<DirectoryLock[]> {
  const folders = new Map<string, string>();
  const named = [["[checkpoint].directory", checkpoint], ["[observe].directory", observe]] as const;
  for (const [key, section] of named) {
    // The lock of the run directory also covers the folders inside it.
    if (section && !section.directory.startsWith(run.directory + sep)) folders.set(section.directory, key);
  }
  folders.set(run.directory, "[run].directory");
  const locks: DirectoryLock[] = [];
  try {
    for (const [path, key] of folders) locks.push(await DirectoryLock.take(path, key));
  } catch (error) {
    for (const lock of locks) lock.closeUnused();
    throw error;
  }
  return locks;
}

/** The record of a run directory; null when it contains no run. @throws {ServiceError} `format_invalid`. */
export async function readRunRecord(directory: string): Promise<RunRecord | null> {
  const path = `${directory}/run.json`;
  let text: string;
  try {
    text = await Deno.readTextFile(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw systemError(`read ${path}`, error);
  }
  try {
    const record = JSON.parse(text);
    if (record?.format_version === 1 && typeof record.id === "string") return record;
  } catch { /* refused below */ }
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
