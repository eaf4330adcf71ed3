/** A run in a process: its directory, log, state, and the data of its next checkpoint. */

import type { ResolvedConfig } from "../../config/check/derive.ts";
import { type Clock, timestamp } from "../../core/clock.ts";
import { assert, ServiceError } from "../../core/errors.ts";
import { isPresent, writeFileAtomic } from "../../core/files.ts";
import { CHECKPOINT_ADAPTER } from "../../trainer/protocol/protocol.ts";
import type { Metrics } from "../algorithms/step_metrics.ts";
import {
  type Checkpoint,
  type CheckpointFile,
  checkpointName,
  damageOf,
  initialState,
  pruneCheckpoints,
  saveCheckpoint,
  type TrainingState,
} from "../directory/checkpoint.ts";
import { type Identity, identityHash } from "../directory/config_identity.ts";
import { siblingAdapter } from "../directory/kept_adapters.ts";
import type { RunDirectory } from "../directory/run_directory.ts";
import type { RunWarning } from "../record/warning.ts";
import { ActivityFeed } from "../record/activity.ts";
import type { EventData, StateEvent } from "../record/event.ts";
import type { EventLog } from "../record/event_log.ts";
import { hasEnded, type RunFacts, type RunState, TRANSITIONS } from "../record/run.ts";

/** The best evaluated adapter in a checkpoint. */
const BEST_ADAPTER = "adapter_best.gguf";

/** The kept judgements in a checkpoint. */
const JUDGEMENTS = "judgements.jsonl";

export interface LiveRunOptions {
  config: ResolvedConfig;
  directory: RunDirectory;
  log: EventLog;
  clock: Clock;
  identity: Identity;
}

export class LiveRun {
  readonly config: ResolvedConfig;
  readonly clock: Clock;
  /** Its activity between two events. */
  readonly activity = new ActivityFeed();
  /** The state for checkpoints; the loop advances it. */
  state: TrainingState = initialState();
  /** Metrics of the last update and of evaluations since. */
  metrics: Metrics = {};
  /** The file of the best evaluated adapter as this process wrote it; null when it did not. */
  best_file: CheckpointFile | null = null;
  /** The update of the newest checkpoint of the current state; null without one. */
  saved_update: number | null = null;
  readonly #options: LiveRunOptions;
  #has_checkpoint = false;
  #run_state: RunState;

  constructor(options: LiveRunOptions) {
    this.#options = options;
    this.#run_state = options.directory.record.state;
    this.config = options.config;
    this.clock = options.clock;
  }

  get id(): string {
    return this.#options.directory.record.id;
  }

  /** The state by which commands are accepted; the record follows it. */
  get runState(): RunState {
    return this.#run_state;
  }

  get directory(): RunDirectory {
    return this.#options.directory;
  }

  /** The folder of the checkpoints: `[checkpoint].directory`, else the run's own. */
  get checkpointRoot(): string {
    return this.config.checkpoint?.directory ?? `${this.directory.path}/checkpoints`;
  }

  /** The path of the best evaluated adapter during the run. */
  get bestAdapterPath(): string {
    return siblingAdapter(this.config.output.path, "best");
  }

  facts(): RunFacts {
    return {
      has_checkpoint: this.#has_checkpoint,
      checkpoint_configured: this.config.checkpoint !== undefined,
      has_heldout: this.config.evaluation !== undefined,
    };
  }

  /** Resolves when all emitted events are on disk. */
  flush(): Promise<void> {
    return this.#options.log.flush();
  }

  emit(event: EventData): void {
    this.#options.log.append(event);
  }

  warn(warning: RunWarning): void {
    this.emit({ kind: "warning", ...warning });
  }

  /**
   * Changes the state: at once in this process, then in the log, then in the record.
   *
   * @param events Events after that of the state. The record is written after them, so that a record of an ended run
   * never exists without the run's last event.
   */
  async transition(
    state: RunState,
    more: Partial<Pick<StateEvent, "reason" | "detail" | "checkpoint">> = {},
    events: readonly EventData[] = [],
  ): Promise<void> {
    const from = this.runState;
    assert(state === from || TRANSITIONS[from].includes(state), `a run goes from ${from} to ${state}`);
    const { reason = null, detail = null, checkpoint = null } = more;
    this.#run_state = state;
    const event = { kind: "state", state, reason, detail, update: this.state.update, checkpoint } as const;
    const { time } = this.#options.log.append(event);
    for (const event of events) this.emit(event);
    await this.#options.log.flush();
    const has_ended = hasEnded(state) || state === "interrupted";
    await this.directory.update({
      state,
      state_reason: reason,
      deterministic: this.state.deterministic,
      ended_at: has_ended ? time : null,
      ...(state === "running" && this.directory.record.started_at === null && { started_at: time }),
      error: state === "failed" ? { reason: reason!, detail: detail ?? "", update: this.state.update } : null,
    });
  }

  /** Changes the learning rate from the next update on; the next checkpoint keeps it. */
  setLearningRate(learning_rate: number | null): void {
    if (this.state.learning_rate === learning_rate) return;
    this.state.learning_rate = learning_rate;
    this.saved_update = null;
  }

  /** Writes a checkpoint of the current state and removes old ones. */
  async saveCheckpoint(writeEngineFiles: (directory: string) => Promise<void>): Promise<Checkpoint> {
    const { identity } = this.#options;
    const root = this.checkpointRoot;
    const checkpoint = await saveCheckpoint({
      root,
      record: {
        run: this.id,
        created_at: timestamp(this.clock),
        config_hash: identityHash(identity),
        config: identity,
        metrics: this.metrics,
        state: structuredClone(this.state),
      },
      write: async (directory) => {
        await writeEngineFiles(directory);
        await this.#copyBestAdapter(directory);
        await this.#copyJudgements(directory);
      },
    });
    this.#has_checkpoint = true;
    this.saved_update = this.state.update;
    const { update, step, best } = this.state;
    const { name, size_bytes } = checkpoint;
    const is_best = best?.update === update;
    this.emit({ kind: "checkpoint", name, update, step, size_bytes, metrics: this.metrics, best: is_best });
    const { keep, best: keeps_best } = this.config.checkpoint ?? { keep: 1, best: false };
    const kept_best = keeps_best && best ? checkpointName(best.update) : null;
    await pruneCheckpoints(root, { keep, best: kept_best, newest: name });
    return checkpoint;
  }

  /** Adds the best adapter to a checkpoint of another update. */
  async #copyBestAdapter(directory: string): Promise<void> {
    const { best, update } = this.state;
    if (!best || best.update === update) return;
    // If someone removed the best adapter during the run, the checkpoint does without it.
    if (!await isPresent(this.bestAdapterPath)) return;
    await this.checkBestAdapter();
    await Deno.copyFile(this.bestAdapterPath, `${directory}/${BEST_ADAPTER}`);
  }

  /** The file of `agent.judge.cache_path` as it is now: a resumed run asks the same questions again. */
  async #copyJudgements(directory: string): Promise<void> {
    const path = this.#judgementsPath;
    if (path === null || !await isPresent(path)) return;
    await Deno.copyFile(path, `${directory}/${JUDGEMENTS}`);
  }

  /** Restores the kept judgements of a checkpoint, unless their file is there: it has them, and later ones. */
  async restoreJudgements(checkpoint: Checkpoint | null): Promise<void> {
    const path = this.#judgementsPath;
    if (!checkpoint?.record.files[JUDGEMENTS] || path === null || await isPresent(path)) return;
    await writeFileAtomic(path, await Deno.readFile(`${checkpoint.directory}/${JUDGEMENTS}`));
  }

  get #judgementsPath(): string | null {
    return this.config.agent?.judge?.cache_path ?? null;
  }

  /** @throws {ServiceError} `format_invalid` when the best adapter's file is not what this process wrote. */
  async checkBestAdapter(): Promise<void> {
    const path = this.bestAdapterPath, damage = this.best_file && await damageOf(path, this.best_file);
    if (damage) throw new ServiceError("format_invalid", `Cannot use ${path}: it ${damage}`, { path });
  }

  /** Restores the best adapter from a checkpoint. Call it after {@link restore}. */
  async restoreBestAdapter(checkpoint: Checkpoint | null): Promise<void> {
    const { best } = this.state;
    if (!checkpoint || !best) return;
    const is_own = best.update === checkpoint.record.state.update;
    const name = is_own ? CHECKPOINT_ADAPTER : BEST_ADAPTER;
    const file = checkpoint.record.files[name];
    if (!file) return;
    await writeFileAtomic(this.bestAdapterPath, await Deno.readFile(`${checkpoint.directory}/${name}`));
    this.best_file = file;
    await this.checkBestAdapter();
  }

  /** Restores the state of a checkpoint. */
  restore(checkpoint: Checkpoint | null): void {
    this.state = checkpoint ? structuredClone(checkpoint.record.state) : initialState();
    this.metrics = checkpoint ? { ...checkpoint.record.metrics } : {};
    const is_own = checkpoint !== null &&
      checkpoint.directory === `${this.checkpointRoot}/${checkpoint.name}`;
    this.#has_checkpoint = is_own;
    this.saved_update = is_own ? this.state.update : null;
  }
}
