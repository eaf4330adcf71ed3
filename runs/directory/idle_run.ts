/** Changes a run that has no process: its state, its log, and what a killed process left unfinished. */

import type { Clock } from "../../core/clock.ts";
import { assert, ServiceError } from "../../core/errors.ts";
import { writeFileAtomic } from "../../core/files.ts";
import type { EndEvent, EventData, RunEvent, StateEvent } from "../record/event.ts";
import { EventLog, readEvents } from "../record/event_log.ts";
import type { LogPlace } from "../record/log_lines.ts";
import { lastEvents, type LogTail } from "../record/log_tail.ts";
import { hasEnded, isLive, type RunRecord, type RunState, TRANSITIONS } from "../record/run.ts";
import { DirectoryLock } from "./directory_lock.ts";
import { readRunRecord } from "./run_directory.ts";

/** Why a run is in a state. */
type StateReason = Partial<Pick<StateEvent, "reason" | "detail" | "checkpoint">>;

export class IdleRun {
  readonly #directory: string;
  readonly #lock: DirectoryLock;
  readonly #log: EventLog;
  /** The update that the log has reached. */
  readonly #update: number;
  #record: RunRecord;

  private constructor(
    { directory, lock }: { directory: string; lock: DirectoryLock },
    { record, log, update }: { record: RunRecord; log: EventLog; update: number },
  ) {
    this.#directory = directory;
    this.#lock = lock;
    this.#log = log;
    this.#record = record;
    this.#update = update;
  }

  /**
   * Locks a run's directory, and cuts off an incomplete last line of its log.
   *
   * @param checked {@link place} of the last time, so that only what is new in the log is read.
   * @throws {ServiceError} `conflict` when a process works in it; `format_invalid` when it is damaged.
   */
  static async open(directory: string, clock: Clock, checked?: LogPlace): Promise<IdleRun> {
    const lock = await DirectoryLock.take(directory);
    try {
      const record = await readRunRecord(directory);
      if (!record) {
        throw new ServiceError("format_invalid", `Cannot open the run in ${directory}: it has no run.json`);
      }
      const path = `${directory}/events.jsonl`;
      const log = await EventLog.open(path, { run: record.id, clock, ...(checked && { checked }) });
      const { state, update } = await lastEvents(path);
      const written = await repaired(record, { state, path });
      return new IdleRun({ directory, lock }, { record: written, log, update });
    } catch (error) {
      lock.close();
      throw error;
    }
  }

  get record(): RunRecord {
    return this.#record;
  }

  /** The end of its log on disk. */
  get place(): LogPlace {
    return this.#log.place;
  }

  /** After its process is gone: a run that was live is interrupted, and one that ended has its last event. */
  async recover(): Promise<void> {
    const { state } = this.#record;
    if (isLive(state)) return await this.transition("interrupted");
    await this.#write({});
    if (!hasEnded(state) || (await lastEvents(this.#path)).end) return;
    this.append(this.#end());
    await this.#log.flush();
  }

  /** Appends an event without changing the state. */
  append(event: EventData): RunEvent {
    return this.#log.append(event);
  }

  /** Changes the state: in the log, then in the record. An ended run gets its last event. */
  async transition(state: RunState, more: StateReason = {}): Promise<void> {
    this.appendTransition(state, more);
    await this.#log.flush();
    await this.#write({});
  }

  /** Appends a change of the state, and the last event of a run that ends by it. {@link transition} writes them. */
  appendTransition(
    state: RunState,
    { reason = null, detail = null, checkpoint = null }: StateReason = {},
  ): void {
    const from = this.#record.state;
    assert(state === from || TRANSITIONS[from].includes(state), `a run goes from ${from} to ${state}`);
    const event = { kind: "state", state, reason, detail, update: this.#update, checkpoint } as const;
    const { time } = this.append(event);
    this.#record = { ...this.#record, ...ofState({ ...event, time }) };
    if (hasEnded(state)) this.append(this.#end());
  }

  /** Releases the directory. */
  async close(): Promise<void> {
    try {
      await this.#log.close();
    } finally {
      this.#lock.close();
    }
  }

  get #path(): string {
    return `${this.#directory}/events.jsonl`;
  }

  /** The last event of a run whose process could not write one: what it would summarise is in the log before. */
  #end(): EndEvent {
    const { state, error, deterministic } = this.#record;
    return {
      kind: "end",
      state,
      reason: error?.reason ?? null,
      detail: error?.detail ?? null,
      update: this.#update,
      evaluation: null,
      plot: null,
      adapter: null,
      adapter_update: null,
      other_adapter: null,
      deterministic,
    };
  }

  async #write(changes: Partial<RunRecord>): Promise<void> {
    this.#record = { ...this.#record, ...changes };
    await writeFileAtomic(`${this.#directory}/run.json`, JSON.stringify(this.#record, null, 1) + "\n");
  }
}

/** A process writes its log first: the record may be older, and lack what the log has. */
async function repaired(
  record: RunRecord,
  { state, path }: { state: LogTail["state"]; path: string },
): Promise<RunRecord> {
  if (!state || record.state === state.state) return record;
  const started_at = record.started_at ?? await firstStart(path);
  return { ...record, ...ofState(state), started_at };
}

/** When the run first trained; null when it never did. */
async function firstStart(path: string): Promise<string | null> {
  for await (const event of readEvents(path)) {
    if (event.kind === "state" && event.state === "running") return event.time;
  }
  return null;
}

function ofState(
  { state, reason, detail, update, time }: StateEvent & { time: string },
): Pick<RunRecord, "state" | "state_reason" | "error" | "ended_at"> {
  const error = state === "failed" ? { reason: reason ?? "internal", detail: detail ?? "", update } : null;
  const ended_at = hasEnded(state) || state === "interrupted" ? time : null;
  return { state, state_reason: reason, error, ended_at };
}
