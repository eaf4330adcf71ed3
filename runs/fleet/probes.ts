/**
 * Processes that answer one request each: about a run that has no process, or about a plan. A probe holds the device
 * until it ends.
 */

import type { Clock } from "../../core/clock.ts";
import { errorFromRecord, ServiceError } from "../../core/errors.ts";
import { writeFileAtomic } from "../../core/files.ts";
import { newId } from "../../core/ids.ts";
import type { Calibration } from "../process/calibrate.ts";
import { failureOfFiles } from "./changed_files.ts";
import { type DeviceLease, needsLock } from "./device_lease.ts";
import type { ManagedRun } from "./managed_run.ts";
import type { PlannedProcess } from "./new_run.ts";
import { isEnding, type LiveRequestBody, RunChild } from "./run_child.ts";
import { PROCESS_CONFIG } from "./service_record.ts";

/** The time for a process that has answered to free the device. */
const PROBE_SHUTDOWN_MS = 5000;

export interface ProbesOptions {
  device: DeviceLease;
  /** The folder with a folder for each run. */
  folder: string;
  clock: Clock;
  /** The program and arguments of a `svc` command. */
  svc: (args: readonly string[]) => readonly string[];
  log: (line: Record<string, unknown>) => void;
}

/** A process to start: the arguments of `svc`, and its request. */
interface Probe {
  args: readonly string[];
  live_request: LiveRequestBody | { command: "calibrate" };
  /** The run that it is about; null for a plan. */
  run: string | null;
  needs_lock: boolean;
  /** Maps a failure of the process to the error for the client. */
  mapFailure: (failure: unknown) => unknown;
}

export class Probes {
  readonly #options: ProbesOptions;
  /** The request in progress: at most one, because a probe needs the device for itself. */
  #asked: { run: string | null; stop: AbortController; ended: Promise<void> } | null = null;

  constructor(options: ProbesOptions) {
    this.#options = options;
  }

  /**
   * Answers a request about a run that has no process, with its newest checkpoint, or its result when it is completed.
   *
   * @throws {ServiceError} `device_unavailable` when the device is taken, `conflict` when the run's files have changed,
   * the refusal of the request, or the signal's reason.
   */
  async ask(run: ManagedRun, live_request: LiveRequestBody, signal: AbortSignal): Promise<unknown> {
    const checkpoint = live_request.checkpoint ??
      (run.record.state === "completed" ? undefined : (await run.checkpoints()).at(-1));
    const asked = checkpoint === undefined ? live_request : { ...live_request, checkpoint };
    const args = ["probe", `${run.directory}/${PROCESS_CONFIG}`];
    const { log } = this.#options, asked_run = { run: run.id, doing: live_request.command, log };
    const mapFailure = (failure: unknown) => failureOfFiles(failure, asked_run);
    const { id, needs_lock } = run;
    return await this.#lent({ args, live_request: asked, run: id, needs_lock, mapFailure }, signal);
  }

  /**
   * Measures a configuration on the device, in a folder that is then removed.
   *
   * @throws {ServiceError} `device_unavailable` when the device is taken, the process's own error, or the signal's reason.
   */
  async calibrate(
    { plan, processConfig }: PlannedProcess,
    signal: AbortSignal,
  ): Promise<Calibration> {
    const { folder, clock } = this.#options, directory = `${folder}/.new_${newId("run", clock)}`;
    const path = `${directory}/${PROCESS_CONFIG}`, mapFailure = (failure: unknown) => failure;
    try {
      // Only the operator may read the folder: it has the complete configuration.
      await Deno.mkdir(directory, { mode: 0o700 });
      await writeFileAtomic(path, processConfig(directory));
      const live_request = { command: "calibrate" } as const, needs_lock = needsLock(plan.config.model);
      const probe: Probe = { args: ["calibrate", path], live_request, run: null, needs_lock, mapFailure };
      return await this.#lent(probe, signal) as Calibration;
    } finally {
      await Deno.remove(directory, { recursive: true });
    }
  }

  /** Ends the process that answers a request about a run, because the run is being deleted. */
  async stop(run: string): Promise<void> {
    if (this.#asked?.run !== run) return;
    this.#asked.stop.abort(
      new ServiceError("conflict", `Cannot ask ${run}: it is being deleted`),
    );
    await this.#asked.ended;
  }

  /** Answers with a process that holds the device until it is gone. */
  async #lent(probe: Probe, signal: AbortSignal): Promise<unknown> {
    using loan = this.#options.device.lend("probe", probe.needs_lock);
    const stop = new AbortController(), ended = Promise.withResolvers<void>();
    const either = AbortSignal.any([signal, loan.wanted, stop.signal]);
    this.#asked = { run: probe.run, stop, ended: ended.promise };
    try {
      return await this.#answer(probe, either);
    } finally {
      this.#asked = null;
      ended.resolve();
    }
  }

  async #answer({ args, live_request, mapFailure }: Probe, signal: AbortSignal): Promise<unknown> {
    const child = await RunChild.start(this.#options.svc(args));
    const kill = () => child.kill();
    signal.addEventListener("abort", kill, { once: true });
    try {
      return await child.ask(live_request, signal);
    } catch (error) {
      throw signal.aborted ? signal.reason : mapFailure(await this.#failure(error, child));
    } finally {
      await this.#shutDown(child);
      signal.removeEventListener("abort", kill);
    }
  }

  /** Shuts a process down, and kills it after {@link PROBE_SHUTDOWN_MS}. Resolves when it is gone. */
  async #shutDown(child: RunChild): Promise<void> {
    child.shutDown();
    const timer = new AbortController();
    this.#options.clock.sleep(PROBE_SHUTDOWN_MS, timer.signal).then(() => child.kill(), () => {});
    await child.ended;
    timer.abort();
  }

  /** Why a process did not answer: its own error, or that it died. */
  async #failure(failure: unknown, child: RunChild): Promise<unknown> {
    if (!isEnding(failure)) return failure;
    const { fatal, stderr } = await child.ended;
    if (fatal) return errorFromRecord(fatal);
    const message = `Cannot answer: the process has ended without an answer`;
    this.#options.log({ level: "error", message: `${message}: ${stderr.trim()}` });
    return new ServiceError("internal", message);
  }
}
