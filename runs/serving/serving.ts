/** Serves the models of a server's runs: a live run answers in its own process, other runs in one process for one base. */

import { join } from "node:path";
import type { Clock } from "../../core/clock.ts";
import { errorRecord, ServiceError } from "../../core/errors.ts";
import { withoutTrace } from "../../core/log.ts";
import type { ChatEvent, ChatRequest } from "../chat/chat_request.ts";
import { failureOfFiles } from "../fleet/changed_files.ts";
import { busy, type DeviceLoan, needsLock } from "../fleet/device_lease.ts";
import type { Fleet } from "../fleet/fleet.ts";
import { abortable, withinTime } from "../fleet/wait_limit.ts";
import { removeConversations } from "../fleet/recordings.ts";
import { isEnding, type RunChild } from "../fleet/run_child.ts";
import { untilStartedOrEnded } from "../fleet/run_ends.ts";
import { servedSizes, type ServingDemand, type ServingPlan } from "../plan/plan_serving.ts";
import { ModelProcess } from "./model_process.ts";
import type { LoadedBase, RecordingPlace } from "./protocol.ts";
import {
  adapterFileAt,
  baseKey,
  baseModel,
  canServe,
  findServedModel,
  namesOf,
  type ServedModel,
  servingDemand,
} from "./served_models.ts";
import { SERVING_COMMAND } from "./serving_command.ts";

/** Requests that are answered or wait at a time; more are refused. */
export const MAX_CHATS = 64;

/** How long a chat waits for a process of its run that is starting or ending before it is refused. */
export const SETTLE_MS = 20_000;

/** A name for a client's list. */
export interface ModelName {
  name: string;
  created_at: string;
}

export interface ServingOptions {
  fleet: Fleet;
  /** The folder with the adapters of its runs. */
  runs_folder: string;
  /** After this time without a request the model is unloaded. */
  idle_seconds: number;
  /** The folder for recorded conversations, that of the fleet; null: none are recorded. */
  recordings: string | null;
  clock: Clock;
  /** Plans the memory for a base. @throws {ServiceError} `out_of_memory` when the device cannot hold it. */
  plan: (demand: ServingDemand) => Promise<ServingPlan>;
  /** The program and arguments of a `svc` command. */
  svc: (args: readonly string[]) => readonly string[];
  log: (line: Record<string, unknown>) => void;
}

/** A process with its loaded base and the state of its chats. */
interface Base {
  key: string;
  process: ModelProcess;
  loan: DeviceLoan;
  max_context: number;
  /** The largest rank of its adapters. */
  rank: number;
  /** The number of chats that are answered or wait. */
  chats: number;
  /** Aborts the wait for idleness. */
  idle: AbortController;
  /** Whether it accepts no more chats, because the process is to end. */
  is_draining: boolean;
  /** Resolves when the process is gone and the device is free. */
  gone: Promise<void>;
}

/** A base that is about to be loaded. */
interface NewBase extends Pick<Base, "key">, Pick<LoadedBase, "load"> {
  demand: ServingDemand;
}

/**
 * Answers chats; at most one process serves a base at a time.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 * import { systemClock as clock } from "../../core/clock.ts";
 * import { Fleet } from "../fleet/fleet.ts";
 *
 * const folder = await Deno.makeTempDir(), svc = (args) => ["svc", ...args], log = () => {};
 * const fleet = await Fleet.open({ folder, slots: 1, max_queued: 0, clock, svc, log });
 * const options = { runs_folder: folder, idle_seconds: 600, recordings: null, plan: () => Promise.reject() };
 * const serving = new Serving({ ...options, fleet, clock, svc, log });
 * assert.deepEqual(await Array.fromAsync(serving.models()), []); // It has no runs.
 * await fleet.close(1000);
 * await Deno.remove(folder, { recursive: true });
 * ```
 */
export class Serving {
  readonly #options: ServingOptions;
  #base: Base | null = null;
  /** The starts and ends of processes, which are done one after the other. */
  #changing: Promise<unknown> = Promise.resolve();
  #chats = 0;

  constructor(options: ServingOptions) {
    this.#options = options;
  }

  /** The models of all runs, newest first. */
  async *models(): AsyncGenerator<ModelName[]> {
    for (const run of this.#options.fleet.list()) {
      const { created_at } = run.record;
      yield (await namesOf(run)).map((name) => ({ name, created_at }));
    }
  }

  /** Finds a model by its name; null when there is none. */
  find(name: string): Promise<ServedModel | null> {
    return findServedModel(this.#options.fleet, name);
  }

  /**
   * Answers a request. The first event comes when sampling has begun. Ending the iteration early cancels the request.
   *
   * @throws {ServiceError} `device_unavailable` with `details.retry_after_seconds`: another base is in use, a run or a
   * probe has the device, or too many requests wait. `path_not_found`: the model has no adapter, or its file is gone.
   * The refusals of the request: those of `answerChat`. A run that is ending answers when its process has left.
   */
  async *chat(
    model: ServedModel,
    request: ChatRequest,
    signal: AbortSignal,
  ): AsyncGenerator<ChatEvent, void> {
    if (this.#chats >= MAX_CHATS) {
      throw busy(`Cannot answer: ${MAX_CHATS} requests are answered or wait; try again later`);
    }
    this.#chats++;
    try {
      yield* this.#served(model, request, signal);
    } finally {
      this.#chats--;
      await this.#forgetDeleted(model);
    }
  }

  /** Removes the recorded conversations of a run that was deleted while a chat about it was answered. */
  async #forgetDeleted({ run }: ServedModel): Promise<void> {
    const { recordings, fleet } = this.#options;
    if (recordings !== null && !fleet.hasFolder(run.id)) {
      await removeConversations(recordings, (id) => id === run.id);
    }
  }

  async *#served(
    model: ServedModel,
    request: ChatRequest,
    signal: AbortSignal,
  ): AsyncGenerator<ChatEvent, void> {
    const { run, name } = model, { fleet, log } = this.#options;
    while (true) {
      await this.#settled(model, signal);
      if (fleet.get(run.id) !== run) throw notServed(name, "its run has been deleted");
      const { child } = run;
      let has_begun = false;
      try {
        const events = child
          ? liveChat(model, request, { child, signal })
          : this.#answered(model, request, signal);
        for await (const event of events) {
          has_begun = true;
          yield event;
        }
        return;
      } catch (failure) {
        if (has_begun) throw failure;
        if (!child) throw failureOfFiles(failure, { run: run.id, doing: "chat with", log });
        if (!isEnding(failure)) throw failure;
        await this.#patiently((either) => abortable(fleet.idle(run.id), either), signal);
      }
    }
  }

  /** Waits while a run's process is being started or is ending. */
  async #settled({ run }: ServedModel, signal: AbortSignal): Promise<void> {
    const { device } = this.#options.fleet;
    await this.#patiently((either) => abortable(untilStartedOrEnded(run, device), either), signal);
  }

  /** Waits for a process of a run. @throws {ServiceError} `device_unavailable` after {@link SETTLE_MS}. */
  async #patiently(wait: (signal: AbortSignal) => Promise<void>, signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    const late = () => busy("Cannot answer: the run's process is still starting or ending; try again later");
    const patience = { timeout_ms: SETTLE_MS, signal, clock, late };
    await withinTime(patience, wait);
  }

  async *#answered(
    model: ServedModel,
    request: ChatRequest,
    signal: AbortSignal,
  ): AsyncGenerator<ChatEvent, void> {
    const base = await this.#taken(model, signal);
    try {
      signal.throwIfAborted();
      const { directory } = model.run, adapter = await adapterOf(model);
      const chat = { request, run: { directory }, adapter, recording: this.#place(model) };
      // When the device is wanted, requests that wait are refused with a time to ask again. Those in progress may
      // continue until the loan is overdue.
      const either = AbortSignal.any([signal, base.loan.overdue]);
      yield* base.process.chat(chat, either);
    } catch (error) {
      // The process was killed because the loan is overdue: that is the reason for the client.
      if (base.loan.overdue.aborted && !signal.aborted) throw base.loan.overdue.reason;
      throw error;
    } finally {
      this.#release(base);
    }
  }

  /** The process with a model's base, with one more chat counted. @throws The signal's reason when the client disconnects. */
  async #taken(model: ServedModel, signal: AbortSignal): Promise<Base> {
    const taking = this.#exclusively(() => this.#baseOf(model));
    try {
      return await abortable(taking, signal);
    } catch (error) {
      if (signal.aborted) taking.then((base) => this.#release(base), () => {});
      throw error;
    }
  }

  #release(base: Base): void {
    base.chats--;
    if (base.chats === 0) this.#afterLastChat(base);
  }

  #place({ name, run }: ServedModel): RecordingPlace | null {
    const { recordings } = this.#options;
    return recordings === null ? null : { directory: join(recordings, name), name: run.service.name };
  }

  #exclusively<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#changing.then(work);
    this.#changing = done.catch(() => {});
    return done;
  }

  /** Like {@link #taken}. Ends an idle process with another base, and starts one with this base where there is none. */
  async #baseOf({ run }: ServedModel): Promise<Base> {
    const model = await baseModel(run), key = baseKey(model), known = this.#base;
    if (known && known.key === key && canServe(known, run) && !known.is_draining) {
      known.idle.abort();
      known.chats++;
      return known;
    }
    if (known && known.chats > 0) {
      throw busy(
        known.is_draining
          ? "Cannot answer: the device is wanted for a run; try again later"
          : "Cannot answer: another model is being served; try again later",
      );
    }
    const demand = servingDemand(run, { model, others: this.#options.fleet.list() });
    const plan = await this.#options.plan(demand);
    if (known) await this.#unload(known);
    const { device, webgpu } = model;
    const load = { device: { device, webgpu }, ...servedSizes(demand, plan) };
    // The process outlives the request that starts it.
    return await withoutTrace(() => this.#start(run, { key, load, demand }));
  }

  async #start(
    run: ServedModel["run"],
    { key, load, demand: { rank, path } }: NewBase,
  ): Promise<Base> {
    const { fleet, runs_folder, svc, log, clock } = this.#options;
    const loan = fleet.device.lend("serving", needsLock(load.device));
    let process: ModelProcess;
    try {
      process = await ModelProcess.start(svc([SERVING_COMMAND]), clock);
    } catch (error) {
      loan.release();
      throw error;
    }
    const gone = process.ended.then(({ code, reason }) => {
      if (this.#base === base) this.#base = null;
      base.is_draining = true;
      base.idle.abort();
      if (code !== 0) log({ level: "warning", message: `The process that serves models ended: ${reason}` });
      loan.release();
    });
    const idle = new AbortController(), { max_context } = load;
    const base: Base = { key, process, loan, max_context, rank, chats: 1, idle, is_draining: false, gone };
    this.#base = base;
    whenAborted(loan.wanted, () => this.#drain(base));
    whenAborted(loan.overdue, () => process.kill());
    try {
      await process.load({ run: { directory: run.directory }, load, adapters: runs_folder });
    } catch (error) {
      base.chats = 0;
      await this.#unload(base);
      if (loan.wanted.aborted) throw loan.wanted.reason;
      throw error;
    }
    log({ level: "info", message: `A model is loaded for serving: ${path}` });
    return base;
  }

  /** Accepts no more chats, and ends the process after the last one, because the device is wanted. */
  #drain(base: Base): void {
    base.is_draining = true;
    base.idle.abort();
    if (base.chats === 0) base.process.shutDown();
  }

  /** Ends the process after its last chat: at once when the device is wanted, else after the idle time. */
  #afterLastChat(base: Base): void {
    if (base.is_draining) return base.process.shutDown();
    base.idle = new AbortController();
    const { clock, idle_seconds } = this.#options;
    clock.sleep(idle_seconds * 1000, base.idle.signal).then(() =>
      this.#exclusively(() => this.#unloadIdle(base))
    )
      .catch((error) => {
        if (!base.idle.signal.aborted) {
          this.#options.log({ level: "error", message: errorRecord(error).message });
        }
      });
  }

  async #unloadIdle(base: Base): Promise<void> {
    if (base.chats === 0 && !base.idle.signal.aborted) await this.#unload(base);
  }

  async #unload(base: Base): Promise<void> {
    base.is_draining = true;
    base.idle.abort();
    base.process.shutDown();
    await base.gone;
  }
}

/** Calls a function when a signal aborts, or at once if it has aborted already. */
function whenAborted(signal: AbortSignal, callback: () => void): void {
  if (signal.aborted) callback();
  else signal.addEventListener("abort", callback, { once: true });
}

/** A chat that a live run answers in its own process, without the device lease. */
async function* liveChat(
  { name, run, part }: ServedModel,
  request: ChatRequest,
  { child, signal }: { child: RunChild; signal: AbortSignal },
): AsyncGenerator<ChatEvent, void> {
  const { state } = run.record;
  if (state !== "running") {
    throw new ServiceError("conflict", `Cannot chat with ${name}: its run is ${state}`);
  }
  const checkpoint = typeof part === "object" ? part : {};
  yield* child.chat({ request, adapter: part !== "base", ...checkpoint }, signal);
}

async function adapterOf({ name, part, adapter }: ServedModel) {
  if (part === "base") return null;
  const file = adapter === null ? null : await adapterFileAt(adapter);
  if (file) return file;
  throw notServed(name, "it has no adapter yet");
}

function notServed(name: string, why: string): ServiceError {
  return new ServiceError("path_not_found", `Cannot serve ${name}: ${why}`, { field: "/model" });
}
