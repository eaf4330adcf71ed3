/** All runs of a server: their folders, processes, slots and queue. */

import type { Clock } from "../../core/clock.ts";
import { timestamp } from "../../core/clock.ts";
import { AsyncQueue } from "../../core/async_queue.ts";
import { assert, errorRecord, ServiceError } from "../../core/errors.ts";
import { makeFolder, syncDirectory } from "../../core/files.ts";
import { newId } from "../../core/ids.ts";
import { IdleRun } from "../directory/idle_run.ts";
import type { RunEvent } from "../record/event.ts";
import { failureReason, isLive, refusal, type RunCommand, type RunState } from "../record/run.ts";
import type { EvaluateCommand, GenerateCommand } from "../process/control.ts";
import { KeptRun } from "./kept_run.ts";
import { type ChildEnd, RunChild } from "./run_child.ts";
import { makeRunFolder, type NewRun, UNFINISHED } from "./new_run.ts";
import { parentCheckpoint } from "./parent_checkpoint.ts";
import { PROCESS_CONFIG } from "./service_record.ts";

/** Seconds after which a client that found no slot may ask again. */
export const RETRY_AFTER_SECONDS = 30;

/** How often a server looks whether a process that an earlier server left has ended. */
export const ORPHAN_POLL_MS = 500;

const RUN_FOLDER = /^run_[0-9A-HJKMNP-TV-Z]{26}$/;

export interface FleetOptions {
  /** The folder with a folder for each run. */
  folder: string;
  /** Runs that train at once. */
  slots: number;
  /** Runs that may wait for a slot. */
  max_queued: number;
  clock: Clock;
  /** The program and arguments of a `svc` command. */
  svc: (args: readonly string[]) => readonly string[];
  log: (line: Record<string, unknown>) => void;
}

/** A change that readers of all runs see. */
export type FleetChange =
  | { kind: "created" | "deleted"; run: string; state: RunState }
  | { kind: "events"; run: string; events: readonly RunEvent[] };

/** A command of a client. */
export type FleetCommand =
  | { command: "pause" | "resume" | "checkpoint" }
  | { command: "cancel"; at: "boundary" | "now"; checkpoint: boolean }
  | { command: "set_lr"; lr: number };

type Takes = "boundary" | "now";

/** The runs of a server. Each has at most one process; a change of a run waits for the one before. */
export class Fleet {
  /** All changes in order, for one reader; ends when the fleet is closed. */
  readonly changes = new AsyncQueue<FleetChange>();
  readonly #options: FleetOptions;
  readonly #runs = new Map<string, KeptRun>();
  /** The runs that have a process, or one that an earlier server left. */
  readonly #live = new Map<string, Promise<void>>();
  readonly #closing = new AbortController();

  private constructor(options: FleetOptions) {
    this.#options = options;
  }

  /**
   * Reads all runs. Those whose process is gone become `interrupted`; then queued runs start.
   *
   * @throws {ServiceError} When the folder cannot be read. A run whose records are damaged is left out and logged.
   */
  static async open(options: FleetOptions): Promise<Fleet> {
    const fleet = new Fleet(options), { folder, log } = options;
    await makeFolder(folder);
    for await (const { name } of Deno.readDir(folder)) {
      if (UNFINISHED.test(name)) await Deno.remove(`${folder}/${name}`, { recursive: true });
      if (!RUN_FOLDER.test(name)) continue;
      try {
        await fleet.#take(await KeptRun.read(`${folder}/${name}`));
      } catch (error) {
        log({ level: "error", run: name, message: errorRecord(error).message });
      }
    }
    await fleet.#startQueued();
    return fleet;
  }

  /** The runs, newest first. */
  list(): KeptRun[] {
    return [...this.#runs.values()].sort((a, b) => a.id < b.id ? 1 : -1);
  }

  get(id: string): KeptRun | null {
    return this.#runs.get(id) ?? null;
  }

  /** Whether a new run would start now, wait, or find no place. */
  get room(): "slot" | "queue" | "none" {
    if (this.#closing.signal.aborted) return "none";
    if (this.#live.size < this.#options.slots) return "slot";
    return this.#queued().length < this.#options.max_queued ? "queue" : "none";
  }

  /**
   * Creates a run; its folder is complete and on disk when this returns.
   *
   * @throws {ServiceError} `device_unavailable` without a slot or a place in the queue.
   */
  async create(run: NewRun): Promise<KeptRun> {
    const { folder, clock } = this.#options, room = this.room;
    if (room === "none") throw noRoom();
    const id = newId("run", clock), directory = `${folder}/${id}`, made = `${folder}/.new_${id}`;
    await makeRunFolder(run, { id, directory, made, clock, waits: room === "queue" });
    await syncDirectory(folder);
    const kept = await KeptRun.read(directory);
    this.#runs.set(id, kept);
    this.changes.push({ kind: "created", run: id, state: "queued" });
    if (room === "slot") await kept.exclusively(() => this.#start(kept));
    return kept;
  }

  /** @throws {ServiceError} `conflict` when the run's state does not accept it. */
  async command(id: string, command: FleetCommand): Promise<Takes> {
    const run = await this.#settled(id);
    return await run.exclusively(async () => {
      await this.#check(run, command.command);
      switch (command.command) {
        case "resume":
          return await this.#resume(run);
        case "cancel":
          return await this.#cancel(run, command);
        case "set_lr":
          return await this.#setLearningRate(run, command.lr);
        case "checkpoint":
          // The pause wrote a checkpoint of this state.
          return run.child ? await run.child.command("checkpoint") : "now";
        case "pause":
          return await run.child!.command("pause");
      }
    });
  }

  /**
   * Asks a live run to evaluate or to generate.
   *
   * @throws {ServiceError} `conflict` when its state does not accept it, or the run's refusal.
   */
  async ask(
    id: string,
    question: Omit<EvaluateCommand, "id"> | Omit<GenerateCommand, "id">,
  ): Promise<unknown> {
    const run = await this.#settled(id);
    await this.#check(run, question.command);
    if (!run.child) throw new ServiceError("conflict", `Cannot ${question.command}: the run has no process`);
    return await run.child.ask(question);
  }

  /** Deletes a run that has ended or is interrupted. @throws {ServiceError} `conflict`. */
  async delete(id: string): Promise<void> {
    const run = await this.#settled(id);
    await run.exclusively(async () => {
      await this.#check(run, "delete");
      const { folder } = this.#options, gone = `${folder}/.gone_${id}`;
      await Deno.rename(run.directory, gone);
      await syncDirectory(folder);
      this.#runs.delete(id);
      this.changes.push({ kind: "deleted", run: id, state: run.record.state });
      await Deno.remove(gone, { recursive: true });
    });
  }

  /** Ends all processes: each writes a checkpoint and is interrupted; after `grace_ms` it is killed. */
  async close(grace_ms: number): Promise<void> {
    this.#closing.abort();
    const waiting = Promise.all(this.#live.values());
    for (const run of this.#runs.values()) run.child?.leave();
    const timer = new AbortController();
    const late = this.#options.clock.sleep(grace_ms, timer.signal).then(() => {
      for (const run of this.#runs.values()) run.child?.kill();
    }, () => {});
    await waiting;
    timer.abort();
    await late;
    this.changes.close();
  }

  /** Resolves when a run has no process and its slot is free. */
  async idle(id: string): Promise<void> {
    await this.#live.get(id);
  }

  /** A run whose process, if it has one, still works: one that is leaving is waited for. */
  async #settled(id: string): Promise<KeptRun> {
    const run = this.#runs.get(id);
    if (!run) throw new ServiceError("conflict", `Cannot use ${id}: it has been deleted`);
    if (run.child && !isLive(run.record.state)) await this.idle(id);
    return run;
  }

  async #check(run: KeptRun, command: RunCommand): Promise<void> {
    assert(this.#runs.get(run.id) === run, `${run.id} belongs to this fleet`);
    const reason = refusal(command, run.record.state, await run.facts());
    const is_orphan = run.child === null && this.#live.has(run.id);
    if (reason === null && !is_orphan) return;
    const why = reason ?? "a process of an earlier server has not left it yet";
    throw new ServiceError("conflict", `Cannot ${command} the run: ${why}`);
  }

  /** Takes up a run at the start of the server. */
  async #take(run: KeptRun): Promise<void> {
    this.#runs.set(run.id, run);
    if (await this.#recover(run)) return;
    const { clock } = this.#options;
    const waiting = (async () => {
      while (!await this.#recover(run) && !this.#closing.signal.aborted) {
        await clock.sleep(ORPHAN_POLL_MS, this.#closing.signal).catch(() => {});
      }
      this.#live.delete(run.id);
      await this.#startQueued();
    })();
    this.#live.set(run.id, waiting);
  }

  /** Repairs what a process left unfinished. @returns False while another process works in the directory. */
  async #recover(run: KeptRun): Promise<boolean> {
    const { clock } = this.#options;
    let idle: IdleRun;
    try {
      idle = await IdleRun.open(run.directory, clock);
    } catch (error) {
      if (error instanceof ServiceError && error.code === "conflict") return false;
      throw error;
    }
    await idle.recover().finally(() => idle.close());
    const events = await run.advance(Infinity);
    run.record = { ...idle.record };
    if (events.length > 0) this.changes.push({ kind: "events", run: run.id, events });
    return true;
  }

  #queued(): KeptRun[] {
    return [...this.#runs.values()].filter(({ record }) => record.state === "queued")
      .sort((a, b) => (a.service.queued_at ?? "") < (b.service.queued_at ?? "") ? -1 : 1);
  }

  async #startQueued(): Promise<void> {
    for (const run of this.#queued()) {
      if (this.#closing.signal.aborted || this.#live.size >= this.#options.slots) return;
      await run.exclusively(async () => {
        if (run.record.state === "queued") await this.#start(run);
      });
    }
  }

  async #resume(run: KeptRun): Promise<Takes> {
    const { room } = this;
    if (room === "none") throw noRoom();
    if (room === "slot") {
      await this.#start(run);
      return "now";
    }
    await run.change({ queued_at: timestamp(this.#options.clock) });
    await this.#idly(run, (idle) => idle.transition("queued"));
    return "boundary";
  }

  async #cancel(
    run: KeptRun,
    { at, checkpoint }: Extract<FleetCommand, { command: "cancel" }>,
  ): Promise<Takes> {
    const { state } = run.record, command = { at, checkpoint };
    if (!run.child) {
      const event = { kind: "command", command: "cancel", arguments: command, takes_effect: "now" } as const;
      await this.#idly(run, (idle) => idle.transition("cancelled", { command: event }));
      return "now";
    }
    // A starting process does not read commands yet; a second cancel does not wait.
    if (state === "starting" || state === "stopping" && at === "now") {
      run.stop = "cancel";
      run.child.kill();
      return "now";
    }
    return await run.child.command("cancel", command);
  }

  /** A run that is not running gets the rate when it is. */
  async #setLearningRate(run: KeptRun, lr: number): Promise<Takes> {
    const { state } = run.record;
    if (run.child && state !== "starting") return await run.child.command("set_lr", { lr });
    await run.change({ learning_rate: lr });
    return "boundary";
  }

  /** Changes a run that has no process. */
  async #idly(run: KeptRun, change: (idle: IdleRun) => Promise<void>): Promise<void> {
    const idle = await IdleRun.open(run.directory, this.#options.clock);
    try {
      await change(idle);
    } finally {
      await idle.close();
      await this.#publish(run, Infinity);
      run.record = { ...run.record, ...idle.record };
    }
  }

  async #publish(run: KeptRun, seq: number): Promise<void> {
    const events = await run.advance(seq);
    if (events.length > 0) this.changes.push({ kind: "events", run: run.id, events });
    if (events.some((event) => event.kind === "state" && event.state === "running")) {
      await this.#setPendingRate(run);
    }
  }

  async #setPendingRate(run: KeptRun): Promise<void> {
    const { learning_rate: lr } = run.service;
    if (lr === null || !run.child) return;
    await run.child.command("set_lr", { lr }).then(
      () => run.change({ learning_rate: null }),
      () => {},
    );
  }

  /** Starts a run's process. It has the slot from now on. */
  async #start(run: KeptRun): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#live.set(run.id, promise);
    try {
      await this.#idly(run, (idle) => idle.transition("starting"));
      await run.change({ queued_at: null });
      const { has_checkpoint } = await run.facts();
      const parent = await parentCheckpoint(run.directory);
      const mode = has_checkpoint ? ["--resume"] : parent === null ? [] : ["--fork", parent];
      const config = `${run.directory}/${PROCESS_CONFIG}`;
      run.child = await RunChild.start(
        this.#options.svc(["train", config, "--control", "--adopt", run.id, ...mode]),
      );
    } catch (error) {
      this.#live.delete(run.id);
      resolve();
      await this.#fail(run, error);
      throw error;
    }
    this.#follow(run, run.child).catch((error) => {
      this.#options.log({ level: "error", run: run.id, message: errorRecord(error).message });
    }).finally(() => {
      run.child = null;
      this.#live.delete(run.id);
      resolve();
      return this.#startQueued();
    });
  }

  async #fail(run: KeptRun, error: unknown): Promise<void> {
    const { code, message } = errorRecord(error);
    await this.#idly(
      run,
      (idle) => idle.transition("failed", { reason: failureReason(code), detail: message }),
    );
  }

  /** Publishes a process's events until it has ended, then writes what it could not write itself. */
  async #follow(run: KeptRun, child: RunChild): Promise<void> {
    for await (const seq of child.durable) await this.#publish(run, seq);
    const end = await child.ended;
    await run.exclusively(async () => {
      run.child = null;
      await this.#idly(run, (idle) => this.#settle(run, { idle, end }));
    });
  }

  async #settle(run: KeptRun, { idle, end }: { idle: IdleRun; end: ChildEnd }): Promise<void> {
    const { state } = idle.record;
    if (run.stop === "cancel" && isLive(state)) {
      run.stop = null;
      if (state !== "stopping") await idle.transition("stopping");
      return await idle.transition("cancelled");
    }
    if (isLive(state) && end.fatal) {
      const { code, message } = end.fatal;
      return await idle.transition("failed", { reason: failureReason(code), detail: message });
    }
    if (isLive(state) && end.code !== null && end.code !== 0) {
      const said = end.stderr.trim().split("\n").slice(-3).join("\n");
      const detail = `the run's process ended with status ${end.code}${said === "" ? "" : `: ${said}`}`;
      return await idle.transition("failed", { reason: "internal", detail });
    }
    await idle.recover();
  }
}

function noRoom(): ServiceError {
  return new ServiceError(
    "device_unavailable",
    "Cannot start the run: every slot is taken; try again later",
    {
      retry_after_seconds: RETRY_AFTER_SECONDS,
    },
  );
}
