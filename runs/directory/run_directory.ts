/**
 * The run directory: `run.json` (what the run is and where it stands), `config.toml` (as resolved), `events.jsonl`,
 * `log.txt` (the same for people), and, unless their own keys say otherwise, `checkpoints/`, `trajectories/` and `adapter.gguf`.
 * A lock file keeps two processes apart, here and in the folders of checkpoints and trajectories that keys name elsewhere.
 */

import { sep } from "node:path";
import type { ResolvedConfig } from "../../config/derive.ts";
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
import { refuseStrangeAdapter, refuseStrangers } from "./strangers.ts";

export interface OpenDirectoryOptions {
  config: ResolvedConfig;
  identity: Identity;
  clock: Clock;
  /** `resume`: go on with the run that is there, or begin one when there is none. */
  mode: "new" | "resume" | "fork";
  /** The folder of the checkpoint that a fork begins with. */
  checkpoint: string | null;
  /** Replace what is there. */
  force: boolean;
}

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
   * Locks the directory and begins or takes up its run; `run.json` is then on the disk.
   *
   * @throws {ServiceError} `conflict` when another process has it or its run cannot be resumed; `already_exists`
   * when output is there and may not be replaced, or no run wrote it; `config_invalid` when a key names what is never replaced;
   * `format_invalid` when `run.json` is damaged and is not to be replaced.
   */
  static async open(options: OpenDirectoryOptions): Promise<RunDirectory> {
    const { config, mode, force, checkpoint } = options;
    const path = config.run.directory;
    await checkPlaces(config);
    await refuseStrangers(config, mode);
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

  get record(): RunRecord {
    return this.#record;
  }

  get eventsPath(): string {
    return `${this.path}/events.jsonl`;
  }

  get logPath(): string {
    return `${this.path}/log.txt`;
  }

  /** Changes the record, on the disk first, one change after the other. */
  update(changes: Partial<RunRecord>): Promise<void> {
    const written = this.#writing.then(async () => {
      const record = { ...this.#record, ...changes };
      await writeFileAtomic(`${this.path}/run.json`, JSON.stringify(record, null, 1) + "\n");
      this.#record = record;
    });
    this.#writing = written.catch(() => {});
    return written;
  }

  /** The run has begun: what `--force` replaces goes for good, and git leaves the run's own folder alone. */
  async commit(): Promise<void> {
    await refuseStrangeAdapter(this.#config);
    await removeReplaced(this.#config);
    await ignoreInGit(this.#config);
  }

  /**
   * The run never began: what it left goes, and what `--force` would have replaced comes back. Where nothing was
   * before, nothing is left after {@link close}.
   */
  async discard(): Promise<void> {
    this.#is_discarded = true;
    await removeOwnEntries(this.path);
    await restoreReplaced(this.path);
  }

  /** Writes down the configuration that the run is held to from here on. */
  async writeConfig(): Promise<void> {
    await writeFileAtomic(`${this.path}/config.toml`, configToml(this.#config));
    const config_hash = identityHash(this.#identity);
    if (this.#record.config_hash !== config_hash) await this.update({ config_hash });
  }

  /** Gives the locks back. */
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

/** Locks every folder that the run alone may write into, the run directory last. */
async function takeLocks({ run, checkpoint, observe }: ResolvedConfig): Promise<DirectoryLock[]> {
  const folders = new Map<string, string>();
  const named = [["[checkpoint].directory", checkpoint], ["[observe].directory", observe]] as const;
  for (const [key, section] of named) {
    // What lies in the run directory is locked with it.
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

/** The record of a run directory; null when it holds no run. @throws {ServiceError} `format_invalid`. */
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
  } catch { /* told below */ }
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
