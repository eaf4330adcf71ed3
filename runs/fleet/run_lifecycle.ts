/** Starts the processes of runs, publishes their events, and completes the files of a process that has ended. */

import type { AsyncQueue } from "../../core/async_queue.ts";
import type { Clock } from "../../core/clock.ts";
import { errorRecord, ServiceError } from "../../core/errors.ts";
import { withoutTrace } from "../../core/log.ts";
import { IdleRun } from "../directory/idle_run.ts";
import type { CommandEvent, RunEvent } from "../record/event.ts";
import { failureReason, isLive, type RunState } from "../record/run.ts";
import { clearMissingCommands } from "./accepted_commands.ts";
import { busy } from "./device_lease.ts";
import type { ManagedRun } from "./managed_run.ts";
import { RunChild } from "./run_child.ts";
import { completeLog, startArguments } from "./run_ends.ts";

/** How often a server checks whether a process of an earlier server has ended. */
const ORPHAN_POLL_MS = 100;

/** How long a server that starts waits for such processes: most are killed with their server, and end soon. */
export const ORPHAN_WAIT_MS = 5000;

/** A change that readers of all runs see. */
export type FleetChange =
  | { kind: "created"; run: string; state: RunState }
  | { kind: "deleted"; run: string; state: RunState }
  | { kind: "events"; run: string; events: readonly RunEvent[] };

interface RunLifecycleOptions {
  clock: Clock;
  /** The program and arguments of a `svc` command. */
  svc: (args: readonly string[]) => readonly string[];
  log: (line: Record<string, unknown>) => void;
  changes: AsyncQueue<FleetChange>;
  /** Aborts when the server ends. */
  closing: AbortSignal;
  /** Resolves when the process of a run with a slot may use the device. */
  ready: () => Promise<void>;
  /** Whether one more run may wait for a slot. */
  hasPlace: () => boolean;
  /** Frees the slot of a run that has no process any more. */
  release: (run: string) => void;
}

export class RunLifecycle {
  readonly #options: RunLifecycleOptions;

  constructor(options: RunLifecycleOptions) {
    this.#options = options;
  }

  /** Changes a run that has no process. */
  async changeIdle(run: ManagedRun, change: (idle: IdleRun) => Promise<void>): Promise<void> {
    const idle = await IdleRun.open(run.directory, this.#options.clock, run.checked);
    try {
      await change(idle);
    } finally {
      await idle.close();
      run.checked = idle.place;
      await this.#publish(run, Infinity);
      run.record = idle.record;
    }
  }

  async #publish(run: ManagedRun, seq: number): Promise<void> {
    const events = await run.advance(seq);
    if (events.length > 0) this.#options.changes.push({ kind: "events", run: run.id, events });
  }

  /**
   * Starts a run's process in the slot that the run has. A run that cannot start fails, and its slot is free.
   *
   * @param command The client's command that starts it; null without one. When the server is ending, a run without a
   * command stays queued.
   * @throws {ServiceError} `device_unavailable` when the server ends before the command is written. When not even the
   * command could be written, the reason.
   */
  async start(run: ManagedRun, command: CommandEvent | null = null): Promise<void> {
    const { closing } = this.#options;
    await this.#options.ready();
    if (closing.aborted) {
      this.#options.release(run.id);
      if (command === null) return;
      throw busy(`Cannot ${command.command} the run: the server ends; try again later`);
    }
    let is_accepted = command === null;
    run.was_queued = run.record.state === "queued";
    run.waited_since = run.was_queued ? run.service.queued_at : null;
    try {
      await this.changeIdle(run, (idle) => {
        if (command) idle.append(command);
        return idle.transition("starting");
      });
      is_accepted = true;
      run.killed_for = null;
      // The log of a run without a process has all commands. A server that died may have left them here.
      await run.change({ queued_at: null, unlogged: null, killed_for: null });
      run.child = await RunChild.start(this.#options.svc(await startArguments(run)));
      // The server began to shut down while the process started: its list of processes lacked this one.
      if (closing.aborted) run.child.shutDown();
    } catch (error) {
      this.#log(run.id, error);
      await this.#fail(run, error).catch((unwritten) => this.#log(run.id, unwritten));
      this.#options.release(run.id);
      if (!is_accepted) throw error;
      return;
    }
    run.is_cancelling = false;
    const { child } = run;
    // What the process does later is not part of the request that started it.
    withoutTrace(() => this.#follow(run, child));
  }

  async #fail(run: ManagedRun, error: unknown): Promise<void> {
    if (!isLive(run.record.state)) return;
    const { code, message } = errorRecord(error);
    await this.changeIdle(
      run,
      (idle) => idle.transition("failed", { reason: failureReason(code), detail: message }),
    );
  }

  /** Publishes a process's events until it has ended, then completes its files and frees its slot. */
  async #follow(run: ManagedRun, child: RunChild): Promise<void> {
    try {
      for await (const seq of child.durable) await this.#publish(run, seq);
    } catch (error) {
      // Nobody can follow its events any more, so the process must not go on training.
      this.#log(run.id, error);
      child.kill();
    }
    try {
      const end = await child.ended;
      if (end.code !== 0 && end.stderr !== "") {
        this.#options.log({ level: "warning", run: run.id, message: end.stderr.trim() });
      }
      await run.exclusively(async () => {
        run.child = null;
        await this.changeIdle(
          run,
          (idle) => completeLog(run, { idle, end, has_place: this.#options.hasPlace() }),
        );
        await clearMissingCommands(run);
      });
    } catch (error) {
      this.#log(run.id, error);
      run.child = null;
      return await this.repairLater(run);
    }
    this.#options.release(run.id);
  }

  /** Repairs a run as soon as that is possible, then frees its slot. */
  async repairLater(run: ManagedRun): Promise<void> {
    const { clock, closing: signal } = this.#options;
    let logged = "";
    while (!signal.aborted) {
      try {
        if (await run.exclusively(() => this.recover(run))) break;
      } catch (error) {
        const { message } = errorRecord(error);
        if (message !== logged) this.#log(run.id, error);
        logged = message;
      }
      await clock.sleep(ORPHAN_POLL_MS, signal).catch(() => {});
    }
    this.#options.release(run.id);
  }

  /** Waits until runs are repaired, at most `wait_ms`. */
  async within(wait_ms: number, repaired: readonly Promise<void>[]): Promise<void> {
    if (repaired.length === 0) return;
    const timer = new AbortController();
    const late = this.#options.clock.sleep(wait_ms, timer.signal).catch(() => {});
    await Promise.race([Promise.all(repaired), late]);
    timer.abort();
  }

  /** Completes the files of a run whose process is gone. @returns False while another process works in the directory. */
  async recover(run: ManagedRun): Promise<boolean> {
    const { clock } = this.#options;
    let idle: IdleRun;
    try {
      idle = await IdleRun.open(run.directory, clock, run.checked);
    } catch (error) {
      if (error instanceof ServiceError && error.code === "conflict") return false;
      throw error;
    }
    await completeLog(run, { idle, end: null, has_place: false }).finally(() => idle.close());
    run.checked = idle.place;
    await this.#publish(run, Infinity);
    run.record = idle.record;
    await clearMissingCommands(run);
    return true;
  }

  #log(run: string, error: unknown): void {
    this.#options.log({ level: "error", run, message: errorRecord(error).message });
  }
}
