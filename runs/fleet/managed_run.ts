/** A run of a server: its records, its newest events, and its process while it has one. */

import { ServiceError } from "../../core/errors.ts";
import { syncFile } from "../../core/files.ts";
import { listCheckpoints } from "../directory/checkpoint.ts";
import { readRunRecord } from "../directory/run_directory.ts";
import type { Activity } from "../record/activity.ts";
import type { RunEvent } from "../record/event.ts";
import { finiteMetrics } from "../record/finite_metrics.ts";
import type { LogPlace } from "../record/log_lines.ts";
import { lastEvents, type LogTail } from "../record/log_tail.ts";
import { hasEnded, isLive, type RunFacts, type RunRecord } from "../record/run.ts";
import { needsLock } from "./device_lease.ts";
import { EventFeed } from "./event_feed.ts";
import type { RunChild } from "./run_child.ts";
import {
  type CancelArguments,
  readServiceRecord,
  type ServiceRecord,
  writeServiceRecord,
} from "./service_record.ts";

/** The progress of a run. */
export interface RunProgress {
  update: number;
  /** Null while it is not known. */
  updates: number | null;
  step: number;
  eta_seconds: number | null;
  /** What its process does between two events; null without one, and before the process says so. */
  phase: RunPhase | null;
}

/** What a run does; `done` of `total` are ended attempts or scored examples, where it counts them. */
export interface RunPhase {
  name: typeof RUN_PHASES[number];
  done: number | null;
  total: number | null;
}

/** What a run of a server may do between two events. */
export const RUN_PHASES = ["rollouts", "training", "checkpoint", "evaluation"] as const;

function phaseOf(activity: Activity | null): RunPhase | null {
  // Attempts that are collected are no run of a server.
  if (!activity || activity.phase === "collection") return null;
  const { done, total } = "done" in activity ? activity : { done: null, total: null };
  return { name: activity.phase, done, total };
}

/** A run of a server. */
export class ManagedRun {
  readonly directory: string;
  /** Its durable events. */
  readonly feed: EventFeed;
  /** The state according to its durable events. */
  record: RunRecord;
  service: ServiceRecord;
  child: RunChild | null = null;
  /** The place in its log up to which this server has checked it; absent: not yet. */
  checked: LogPlace | undefined;
  /** The cancel for which its process is killed. */
  killed_for: CancelArguments | null;
  /** Whether its process was started for a queued run: a new one, or one that waited. */
  was_queued = false;
  /** When it began to wait for the slot of its process; null: it found one free. */
  waited_since: string | null = null;
  /** Whether its process was asked to cancel. */
  is_cancelling = false;
  #tail: Omit<LogTail, "offset">;
  #working: Promise<unknown> = Promise.resolve();
  #changing: Promise<unknown> = Promise.resolve();

  private constructor(
    directory: string,
    { record, service, tail }: { record: RunRecord; service: ServiceRecord; tail: LogTail },
  ) {
    this.directory = directory;
    this.record = record;
    this.service = service;
    this.killed_for = service.killed_for;
    const { offset, ...events } = tail;
    this.#tail = events;
    this.feed = new EventFeed(this.eventsPath, { seq: tail.seq, offset });
  }

  /** Reads a run's records. @throws {ServiceError} `format_invalid` when one is damaged or missing. */
  static async read(directory: string): Promise<ManagedRun> {
    const [record, service] = await Promise.all([readRunRecord(directory), readServiceRecord(directory)]);
    if (!record) throw new ServiceError("format_invalid", `Cannot read ${directory}: it has no run.json`);
    const log = `${directory}/events.jsonl`, tail = await lastEvents(log);
    // The process of an earlier server may still write, and readers get only what is on disk.
    if (isLive(record.state) && tail.seq > 0) await syncFile(log);
    return new ManagedRun(directory, { record, service, tail });
  }

  get id(): string {
    return this.record.id;
  }

  /** See {@link needsLock}. */
  get needs_lock(): boolean {
    return needsLock(this.service.plan.config.model);
  }

  get eventsPath(): string {
    return `${this.directory}/events.jsonl`;
  }

  get checkpointRoot(): string {
    return `${this.directory}/checkpoints`;
  }

  /** Whether its process left something unfinished: its log, its record, or its last event. */
  get needs_repair(): boolean {
    const { state } = this.record;
    return isLive(state) || this.#tail.state?.state !== state || hasEnded(state) && !this.has_last_event;
  }

  /** The number of its last durable event. */
  get last_seq(): number {
    return this.#tail.seq;
  }

  /** The number of the last durable event that changed its state; 0 before the first one. */
  get last_state_seq(): number {
    return this.#tail.state?.seq ?? 0;
  }

  /** Whether its last durable event is an `end`. */
  get has_last_event(): boolean {
    return this.#tail.end !== null;
  }

  get progress(): RunProgress {
    const { update, summary, step } = this.#tail;
    return {
      update,
      updates: summary?.updates ?? this.service.plan.schedule.updates,
      step,
      eta_seconds: isLive(this.record.state) ? summary?.eta_seconds ?? null : null,
      phase: isLive(this.record.state) ? phaseOf(this.child?.activity ?? null) : null,
    };
  }

  /** The newest metrics by name. */
  get last_metrics(): Record<string, number> {
    return finiteMetrics(this.#tail.metrics);
  }

  /** Reads the log up to an event that is on disk. @returns The new events. */
  async advance(seq: number): Promise<RunEvent[]> {
    const events = await this.feed.advance(seq);
    for (const event of events) this.#take(event);
    return events;
  }

  /** The names of its checkpoints, the oldest first. */
  checkpoints(): Promise<string[]> {
    return listCheckpoints(this.checkpointRoot);
  }

  /** The facts that decide whether the run accepts a command. */
  async facts(): Promise<RunFacts> {
    const { config } = this.service.plan;
    return {
      has_checkpoint: (await this.checkpoints()).length > 0,
      checkpoint_configured: config.checkpoint !== undefined,
      has_heldout: config.evaluation !== undefined,
    };
  }

  /** Changes the server's record, first on disk. Changes are made one after the other, each to the newest record. */
  change(changes: Partial<ServiceRecord> | ((now: ServiceRecord) => Partial<ServiceRecord>)): Promise<void> {
    const changed = this.#changing.then(async () => {
      const more = typeof changes === "function" ? changes(this.service) : changes;
      const service = { ...this.service, ...more };
      await writeServiceRecord(this.directory, service);
      this.service = service;
    });
    this.#changing = changed.catch(() => {});
    return changed;
  }

  /** Runs one change of this run at a time, in order. */
  exclusively<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#working.then(work);
    this.#working = done.catch(() => {});
    return done;
  }

  #take(event: RunEvent): void {
    const tail = this.#tail;
    this.#tail = { ...tail, seq: event.seq, end: event.kind === "end" ? event : null };
    if (event.kind === "metrics") {
      // The metrics of an update replace those of the update before and of its evaluation.
      const kept = event.update === tail.update ? tail.metrics : {};
      Object.assign(this.#tail, { metrics: { ...kept, ...event.values }, step: event.step });
    }
    if (event.kind === "update") Object.assign(this.#tail, { summary: event, update: event.update });
    if (event.kind !== "state") return;
    const { state, reason, detail, update, time } = event;
    Object.assign(this.#tail, { state: event, update });
    const error = state === "failed"
      ? { reason: reason ?? "internal", detail: detail ?? "", update } as const
      : null;
    const started_at = state === "running" ? this.record.started_at ?? time : this.record.started_at;
    const ended_at = this.#endOf(event);
    this.record = { ...this.record, state, state_reason: reason, error, started_at, ended_at };
  }

  #endOf({ state, time }: { state: RunRecord["state"]; time: string }): string | null {
    return ["completed", "cancelled", "failed", "interrupted"].includes(state) ? time : null;
  }
}
