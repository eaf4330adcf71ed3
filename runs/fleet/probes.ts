/** Processes that answer a request about a run without a process, and end. Each has the device while it lives. */

import type { Clock } from "../../core/clock.ts";
import { type ErrorCode, errorFromRecord, errorRecord, ServiceError } from "../../core/errors.ts";
import type { DeviceLease } from "./device_lease.ts";
import type { KeptRun } from "./kept_run.ts";
import { type Asked, RunChild } from "./run_child.ts";
import { PROCESS_CONFIG } from "./service_record.ts";

/** The time for a process that has answered to free the device. */
export const PROBE_LEAVE_MS = 5000;

export interface ProbesOptions {
  device: DeviceLease;
  clock: Clock;
  /** The program and arguments of a `svc` command. */
  svc: (args: readonly string[]) => readonly string[];
  log: (line: Record<string, unknown>) => void;
}

/** Failures of the run's own files: a change or a loss since it was created, not a fault of the request. */
const OF_THE_FILES: readonly ErrorCode[] = [
  "config_invalid",
  "conflict",
  "data_invalid",
  "format_invalid",
  "not_built",
  "path_not_found",
  "template_failed",
];

export class Probes {
  readonly #options: ProbesOptions;
  /** The run that is asked: at most one, because a probe has the device for itself. */
  #asked: { run: string; stop: AbortController; ended: Promise<void> } | null = null;

  constructor(options: ProbesOptions) {
    this.#options = options;
  }

  /**
   * Asks about a run that has no process: its newest checkpoint, or its result when it is completed.
   *
   * @throws {ServiceError} `device_unavailable` when the device is taken, `conflict` when the run's files are not what
   * they were, the refusal of the request, or the signal's reason.
   */
  async ask(run: KeptRun, question: Asked, signal: AbortSignal): Promise<unknown> {
    const checkpoint = question.checkpoint ??
      (run.record.state === "completed" ? undefined : (await run.checkpoints()).at(-1));
    const asked = checkpoint === undefined ? question : { ...question, checkpoint };
    using loan = this.#options.device.lend("probe");
    const stop = new AbortController(), ended = Promise.withResolvers<void>();
    const either = AbortSignal.any([signal, loan.wanted, stop.signal]);
    this.#asked = { run: run.id, stop, ended: ended.promise };
    try {
      return await this.#ask(run, asked, either);
    } finally {
      this.#asked = null;
      ended.resolve();
    }
  }

  /** Ends the process that is asked about a run, because the run is being deleted. */
  async stop(run: string): Promise<void> {
    if (this.#asked?.run !== run) return;
    this.#asked.stop.abort(new ServiceError("conflict", `Cannot ask ${run}: it is being deleted`));
    await this.#asked.ended;
  }

  async #ask(run: KeptRun, question: Asked, signal: AbortSignal): Promise<unknown> {
    const { svc } = this.#options;
    const child = await RunChild.start(svc(["probe", `${run.directory}/${PROCESS_CONFIG}`]));
    const kill = () => child.kill();
    signal.addEventListener("abort", kill, { once: true });
    try {
      return await child.ask(question, signal);
    } catch (error) {
      throw signal.aborted ? signal.reason : await this.#told(error, { run, question, child });
    } finally {
      await this.#leave(child);
      signal.removeEventListener("abort", kill);
    }
  }

  /** Resolves when a process is gone. */
  async #leave(child: RunChild): Promise<void> {
    child.leave();
    const timer = new AbortController();
    this.#options.clock.sleep(PROBE_LEAVE_MS, timer.signal).then(() => child.kill(), () => {});
    await child.ended;
    timer.abort();
  }

  /** What a failure means for whoever asked. Paths and reasons of the machine are for the log. */
  async #told(
    failure: unknown,
    { run, question, child }: { run: KeptRun; question: Asked; child: RunChild },
  ): Promise<unknown> {
    let error = errorRecord(failure), stderr = "";
    if (error.details.is_ending) {
      const end = await child.ended;
      stderr = end.stderr.trim();
      error = end.fatal ?? { code: "internal", message: error.message, details: {} };
    }
    const is_of_files = OF_THE_FILES.includes(error.code) && error.details.field === undefined;
    if (is_of_files || error.code === "internal") {
      this.#options.log({ level: "warning", run: run.id, message: `${error.message} ${stderr}`.trim() });
    }
    if (!is_of_files) return errorFromRecord(error);
    const { changed } = error.details;
    const what = Array.isArray(changed)
      ? `${changed.join(", ")} changed since it trained`
      : "it does not load any more";
    const message = `Cannot ${question.command} the run: ${what}; the server's log has the reason`;
    return new ServiceError("conflict", message);
  }
}
