/** All runs of a server: their folders, processes, slots and queue. */

import type { Clock } from "../../core/clock.ts";
import { timestamp } from "../../core/clock.ts";
import { AsyncQueue } from "../../core/async_queue.ts";
import { errorRecord, ServiceError } from "../../core/errors.ts";
import { makeFolder, syncDirectory } from "../../core/files.ts";
import { newId } from "../../core/ids.ts";
import type { Calibration } from "../process/calibrate.ts";
import { commandRefusal, isLive, type RunCommand } from "../record/run.ts";
import { commandEvent } from "./accepted_commands.ts";
import { refuseLostFiles } from "./changed_files.ts";
import { cancelRun, type FleetCommand, logIdle, setLearningRate, type TakesEffect } from "./commands.ts";
import { DeviceLease, type DeviceLeaseOptions, needsLock } from "./device_lease.ts";
import { ManagedRun } from "./managed_run.ts";
import { Probes } from "./probes.ts";
import { isEnding, type LiveRequestBody, type RunChild } from "./run_child.ts";
import { makeRunFolder, type NewRun, type PlannedProcess, RUN_FOLDER, UNFINISHED } from "./new_run.ts";
import { removeConversations } from "./recordings.ts";
import { kill, mustKill } from "./run_ends.ts";
import { type FleetChange, ORPHAN_WAIT_MS, RunLifecycle } from "./run_lifecycle.ts";
import type { ServiceRecord } from "./service_record.ts";
import { abortable, type WaitLimit, withTimeout } from "./wait_limit.ts";

export interface FleetOptions {
  /** The folder with a folder for each run. */
  folder: string;
  /** Runs that train at once. */
  slots: number;
  /** Runs that may wait for a slot. */
  max_queued: number;
  /** The folder with the recorded conversations of its runs; absent: there are none. */
  conversations?: string;
  /** The processes of other programs that have the device or wait for it; absent: none. */
  others?: DeviceLeaseOptions["others"];
  clock: Clock;
  /** The program and arguments of a `svc` command. */
  svc: (args: readonly string[]) => readonly string[];
  log: (line: Record<string, unknown>) => void;
  /** How long opening waits for processes that an earlier server left; absent: {@link ORPHAN_WAIT_MS}. */
  orphan_wait_ms?: number | undefined;
}

/** Whether a run that is created or resumed starts in a free slot, waits for one, or is refused. */
type Admission = "slot" | "queue" | "none";

/**
 * The runs of a server. Each has at most one process. The changes of a run are made one after the other.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 * import { systemClock } from "../../core/clock.ts";
 *
 * const folder = await Deno.makeTempDir();
 * const fleet = await Fleet.open({
 *   ...{ folder, slots: 1, max_queued: 4, clock: systemClock },
 *   svc: (args) => ["svc", ...args],
 *   log: (line) => console.error(line),
 * });
 * assert.deepEqual([fleet.list(), fleet.device.hasSlot()], [[], true]);
 * await fleet.close(1000);
 * assert.equal(fleet.device.hasSlot(), false);
 * await Deno.remove(folder, { recursive: true });
 * ```
 */
export class Fleet {
  /** All changes in order, for one reader; ends when the fleet is closed. */
  readonly changes = new AsyncQueue<FleetChange>();
  /** Who has the device. */
  readonly device: DeviceLease;
  readonly #options: FleetOptions;
  readonly #runs = new Map<string, ManagedRun>();
  /** Runs whose records are damaged. */
  readonly #unreadable = new Set<string>();
  /** The runs that are being made and will wait for a slot. */
  readonly #joining = new Set<string>();
  readonly #closing = new AbortController();
  readonly #lifecycle: RunLifecycle;
  readonly #probes: Probes;

  private constructor(options: FleetOptions) {
    this.#options = options;
    const { clock, svc, log, slots: runs, others } = options, closing = this.#closing.signal;
    const returned = () => this.startQueued();
    const device = this.device = new DeviceLease({ runs, clock, returned, others });
    const release = (run: string) => this.#release(run), ready = () => device.ready();
    const shared = { ready, release, hasPlace: () => this.#has_place, changes: this.changes, closing };
    this.#lifecycle = new RunLifecycle({ clock, svc, log, ...shared });
    this.#probes = new Probes({ device, clock, svc, log, folder: options.folder });
  }

  /**
   * Reads all runs. A live run whose process is gone becomes `interrupted`; for processes of an earlier server, opening
   * waits up to `orphan_wait_ms`, and their runs become it later. Queued runs wait for {@link startQueued}.
   *
   * @throws {ServiceError} When the folder cannot be read. A run whose records are damaged is left out and logged.
   */
  static async open(options: FleetOptions): Promise<Fleet> {
    const fleet = new Fleet(options), { folder, log } = options, orphans: Promise<void>[] = [];
    await makeFolder(folder);
    for await (const { name } of Deno.readDir(folder)) {
      try {
        if (UNFINISHED.test(name)) await Deno.remove(`${folder}/${name}`, { recursive: true });
        if (RUN_FOLDER.test(name)) {
          const orphan = await fleet.#take(await ManagedRun.read(`${folder}/${name}`));
          if (orphan) orphans.push(orphan.repaired);
        }
      } catch (error) {
        fleet.#unreadable.add(name);
        log({ level: "error", run: name, message: errorRecord(error).message });
      }
    }
    await removeConversations(options.conversations, (run) => !fleet.hasFolder(run));
    await fleet.#lifecycle.within(options.orphan_wait_ms ?? ORPHAN_WAIT_MS, orphans);
    return fleet;
  }

  /** The runs, newest first. */
  list(): ManagedRun[] {
    return [...this.#runs.values()].sort((a, b) => a.id < b.id ? 1 : -1);
  }

  get(id: string): ManagedRun | null {
    return this.#runs.get(id) ?? null;
  }

  /** Whether a run has a folder, also when it could not be read. */
  hasFolder(id: string): boolean {
    return this.#runs.has(id) || this.#unreadable.has(id);
  }

  #admissionOf(needs_lock: boolean): Admission {
    if (this.#closing.signal.aborted) return "none";
    if (this.device.hasSlot(needs_lock)) return "slot";
    return this.#has_place ? "queue" : "none";
  }

  get #has_place(): boolean {
    return this.#queued().length + this.#joining.size < this.#options.max_queued;
  }

  /**
   * Creates a run; its folder is complete and on disk when this returns. A run that then cannot start is `failed`.
   *
   * @throws {ServiceError} `device_unavailable` without a slot or a place in the queue; `path_not_found` when the parent
   * of a fork has lost its checkpoint.
   */
  async create(run: NewRun): Promise<ManagedRun> {
    const { folder, clock } = this.#options, id = newId("run", clock);
    const needs_lock = needsLock(run.plan.config.model), admission = this.#admissionOf(needs_lock);
    if (admission === "none") throw this.device.noSlotError(needs_lock);
    // The place is taken before anything is awaited, so that two requests cannot have the same.
    if (admission === "slot") this.device.take(id);
    else this.#joining.add(id);
    try {
      const directory = `${folder}/${id}`, made = `${folder}/.new_${id}`;
      await makeRunFolder(run, { id, directory, made, clock, waits: admission === "queue" });
      await syncDirectory(folder);
      const created = await ManagedRun.read(directory);
      this.#runs.set(id, created);
      this.changes.push({ kind: "created", run: id, state: "queued" });
      this.#joining.delete(id);
      if (admission === "slot") await created.exclusively(() => this.#lifecycle.start(created));
      else this.startQueued();
      return created;
    } catch (error) {
      this.#joining.delete(id);
      this.#release(id);
      throw error;
    }
  }

  /** @throws {ServiceError} `conflict` when the run's state does not accept it. */
  async command(id: string, command: FleetCommand): Promise<TakesEffect> {
    const run = await this.#settled(id);
    if (command.command === "cancel" && command.at === "now" && mustKill(run)) {
      return await kill(run, command);
    }
    try {
      return await this.#command(run, command);
    } catch (error) {
      if (!isEnding(error)) throw error;
      await this.idle(id);
      return await this.#command(run, command);
    }
  }

  #command(run: ManagedRun, command: FleetCommand): Promise<TakesEffect> {
    return run.exclusively(async () => {
      await this.#check(run, command.command);
      switch (command.command) {
        case "resume":
          return await this.#resume(run);
        case "cancel":
          return await cancelRun(run, command, this.#lifecycle);
        case "set_lr":
          return await setLearningRate(run, command.lr, this.#lifecycle);
        case "checkpoint":
          if (run.child) return await run.child.command("checkpoint");
          // The pause wrote a checkpoint of this state.
          await logIdle(run, commandEvent("checkpoint", "now"), this.#lifecycle);
          return "now";
        case "pause":
          return await this.#childOf(run).command("pause");
      }
    });
  }

  /** Changes what the server knows of a run. @throws {ServiceError} `conflict` when it has been deleted. */
  async change(id: string, changes: Partial<Pick<ServiceRecord, "name" | "notes" | "tags">>): Promise<void> {
    const run = await this.#settled(id);
    await run.exclusively(async () => {
      this.#checkPresent(run);
      await run.change(changes);
    });
  }

  /**
   * Evaluates or generates. A live run answers itself; for any other run a probe is started.
   *
   * @throws {ServiceError} `conflict` when its state does not accept it, `device_unavailable` when the device is taken,
   * `cancelled` with `details.is_late` when the time is up, the run's refusal, or the signal's reason.
   */
  async ask(id: string, live_request: LiveRequestBody, limit: WaitLimit): Promise<unknown> {
    const doing = `${live_request.command} the run`;
    return await withTimeout(doing, { ...limit, clock: this.#options.clock }, async (signal) => {
      while (true) {
        const run = await abortable(this.#settled(id), signal);
        // A process of the run may be ending or starting.
        if (!run.child) await abortable(run.exclusively(() => Promise.resolve()), signal);
        await this.#check(run, live_request.command);
        try {
          return await (run.child
            ? run.child.ask(live_request, signal)
            : this.#probes.ask(run, live_request, signal));
        } catch (error) {
          if (signal.aborted || !isEnding(error)) throw error;
          await abortable(this.idle(id), signal);
        }
      }
    });
  }

  /**
   * Measures what a run would need on the device. Nothing of it remains.
   *
   * @throws {ServiceError} `device_unavailable`, `out_of_memory`, `cancelled` with `details.is_late` when the time is up,
   * or the signal's reason.
   */
  calibrate(run: PlannedProcess, limit: WaitLimit): Promise<Calibration> {
    const { clock } = this.#options, doing = "calibrate the plan";
    return withTimeout(doing, { ...limit, clock }, (signal) => this.#probes.calibrate(run, signal));
  }

  /** Deletes a run that has ended or is interrupted. @throws {ServiceError} `conflict`. */
  async delete(id: string): Promise<void> {
    const run = await this.#settled(id);
    await run.exclusively(async () => {
      await this.#check(run, "delete");
      await this.#probes.stop(id);
      run.feed.close("now");
      const { folder } = this.#options, gone = `${folder}/.gone_${id}`;
      await Deno.rename(run.directory, gone);
      await syncDirectory(folder);
      this.#runs.delete(id);
      this.changes.push({ kind: "deleted", run: id, state: run.record.state });
      await Deno.remove(gone, { recursive: true });
      await removeConversations(this.#options.conversations, (run) => run === id);
    });
  }

  /**
   * Shuts all processes down. Each writes a checkpoint and its run becomes `interrupted`; those that take longer than
   * `grace_ms` are killed. Then the readers of events get the last ones, and end.
   */
  async close(grace_ms: number): Promise<void> {
    this.#closing.abort();
    this.device.close();
    const waiting = this.device.allFree();
    for (const run of this.#runs.values()) run.child?.shutDown();
    const timer = new AbortController();
    const late = this.#options.clock.sleep(grace_ms, timer.signal).then(() => {
      for (const run of this.#runs.values()) run.child?.kill();
      this.device.hurry();
    }, () => {});
    await waiting;
    timer.abort();
    await late;
    for (const run of this.#runs.values()) run.feed.close("at_last_event");
    this.changes.close();
  }

  /** Resolves when a run has no process and its slot is free. */
  async idle(id: string): Promise<void> {
    await this.device.freed(id);
  }

  /** Finds a run. When its process is ending, waits until that process is gone. */
  async #settled(id: string): Promise<ManagedRun> {
    const run = this.#runs.get(id);
    if (!run) throw new ServiceError("conflict", `Cannot use ${id}: it has been deleted`);
    if (run.child && !isLive(run.record.state)) await this.idle(id);
    return run;
  }

  async #check(run: ManagedRun, command: RunCommand): Promise<void> {
    this.#checkPresent(run);
    const reason = commandRefusal(command, run.record.state, await run.facts());
    const is_orphan = run.child === null && isLive(run.record.state);
    if (reason === null && !is_orphan) return;
    const why = reason ?? "what its process left is not repaired yet";
    const doing = command === "set_lr" ? "set the learning rate of" : command;
    throw new ServiceError("conflict", `Cannot ${doing} the run: ${why}`);
  }

  #checkPresent(run: ManagedRun): void {
    if (this.#runs.get(run.id) === run) return;
    throw new ServiceError("conflict", `Cannot use ${run.id}: it has been deleted`);
  }

  /** A run's process. @throws {ServiceError} `conflict` when it has none. */
  #childOf({ id, child }: ManagedRun): RunChild {
    if (!child) throw new ServiceError("conflict", `Cannot ask ${id}: it has no process`);
    return child;
  }

  /** Takes a slot for a run, now. @returns False when there is none. */
  #reserve(run: ManagedRun): boolean {
    if (this.#closing.signal.aborted || !this.device.hasSlot(run.needs_lock)) return false;
    this.device.take(run.id);
    return true;
  }

  /** Frees a run's slot for the next one in the queue. */
  #release(id: string): void {
    if (this.device.free(id)) this.startQueued();
  }

  /** Adds a run when the server starts. @returns Its repair while a process of an earlier server works in it, else null. */
  async #take(run: ManagedRun): Promise<{ repaired: Promise<void> } | null> {
    const is_orphan = run.needs_repair && !await this.#lifecycle.recover(run);
    this.#runs.set(run.id, run);
    if (!is_orphan) return null;
    // The run has a slot as long as that process works.
    this.device.take(run.id);
    return { repaired: this.#lifecycle.repairLater(run) };
  }

  #queued(): ManagedRun[] {
    const key = ({ id, service }: ManagedRun) => `${service.queued_at ?? ""} ${id}`;
    return [...this.#runs.values()].filter(({ record }) => record.state === "queued")
      .sort((a, b) => key(a) < key(b) ? -1 : 1);
  }

  /**
   * Starts queued runs in free slots, in the order in which they began to wait. While another program has the device,
   * only runs that need no lock of it start.
   */
  startQueued(): void {
    const { log } = this.#options;
    let is_blocked = false;
    for (const run of this.#queued()) {
      if (this.device.has(run.id) || is_blocked && run.needs_lock) continue;
      if (!this.#reserve(run)) {
        is_blocked = true;
        this.device.awaitOthers();
        continue;
      }
      run.exclusively(async () => {
        if (run.record.state === "queued") await this.#lifecycle.start(run);
        else this.#release(run.id);
      }).catch((error) => log({ level: "error", run: run.id, message: errorRecord(error).message }));
    }
  }

  async #resume(run: ManagedRun): Promise<TakesEffect> {
    await refuseLostFiles(run, this.#options.log);
    if (this.#reserve(run)) {
      await this.#lifecycle.start(run, commandEvent("resume", "now"));
      return "now";
    }
    if (this.#admissionOf(run.needs_lock) === "none") throw this.device.noSlotError(run.needs_lock);
    await run.change({ queued_at: timestamp(this.#options.clock) });
    await this.#lifecycle.changeIdle(run, (idle) => {
      idle.append(commandEvent("resume", "boundary"));
      return idle.transition("queued");
    });
    this.startQueued();
    return "boundary";
  }
}
