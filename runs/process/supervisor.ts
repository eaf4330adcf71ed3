/** Owns a run's session, handles its commands, replaces a lost engine, and ends the run. */

import { type Clock } from "../../core/clock.ts";
import { deviceClaim, isDeviceTaken } from "../../core/device_lock.ts";
import { errorRecord, ServiceError } from "../../core/errors.ts";
import { Semaphore } from "../../core/semaphore.ts";
import { type Algorithm, type EvaluationRequest, POLICY } from "../algorithms/algorithm.ts";
import { type Checkpoint, newestCheckpoint } from "../directory/checkpoint.ts";
import { refuseForeignCsv } from "../directory/foreign_files.ts";
import type { PreparedRun } from "../plan/prepare.ts";
import type { CommandEvent, EventData } from "../record/event.ts";
import { writeMetricsCsv } from "../record/metrics_csv.ts";
import { failureReason, hasEnded, type RunState } from "../record/run.ts";
import {
  loadRequest,
  policySource,
  providerMessage,
  requestLimit,
  type Session,
  softwareWarning,
} from "../session/session.ts";
import { Controller, type ControlPort, type LiveRequest } from "./control.ts";
import { endEvent, fallWarning } from "./end_event.ts";
import { answerRequest } from "./requests.ts";
import type { LiveRun } from "./live_run.ts";
import { saveAdapters } from "./save_adapters.ts";
import { type LoopEnd, TrainingLoop } from "./training_loop.ts";

/** The most engines that a run replaces after a lost device, in all of its processes together. */
const MAX_DEVICE_LOSSES = 3;

export interface SupervisorOptions {
  prepared: PreparedRun;
  run: LiveRun;
  /** The checkpoint from which the run continues. */
  from: Checkpoint | null;
  clock: Clock;
  control?: ControlPort;
  /** The id of a server's run, which exists before this process and after its end; absent: the run is this process's. */
  adopt?: string;
  openSession: () => Promise<Session>;
}

export class Supervisor {
  readonly #options: SupervisorOptions;
  readonly #run: LiveRun;
  readonly #controller: Controller | null;
  /** Aborts when the run is to be interrupted at the next boundary. */
  readonly #interrupted = new AbortController();
  /** Aborts when the current update is to be discarded. */
  readonly #now = new AbortController();
  #session: Session | null = null;
  #algorithm: Algorithm | null = null;
  #has_ended = false;
  #requests = 0;
  /** See {@link requestLimit}. */
  readonly #request_limit: number;
  /** State changes by commands, one after the other. */
  #transitions: Promise<void> = Promise.resolve();

  constructor(options: SupervisorOptions) {
    const { run, control, prepared: { definition, config } } = options;
    this.#options = options;
    this.#run = run;
    const limit = this.#request_limit = requestLimit(definition.sequences(config));
    const permits = new Semaphore(limit);
    this.#controller = control
      ? new Controller({
        port: control,
        state: () => run.runState,
        facts: () => run.facts(),
        record: (event) => this.#accept(event),
        ask: (command, signal, emit) =>
          permits.use(
            command.command === "evaluate" ? limit : 1,
            signal,
            () => this.#answer(command, signal, emit),
          ),
        cancelNow: () =>
          this.#now.abort(new ServiceError("cancelled", "Cannot finish the update: cancelled")),
      })
      : null;
  }

  #answer(command: LiveRequest, signal: AbortSignal, emit: (item: unknown) => void): Promise<unknown> {
    const algorithm = this.#algorithm!;
    const context = {
      session: this.#session!,
      evaluate: (request: EvaluationRequest) => algorithm.evaluate(request),
      policy: { type: "copy", adapter: POLICY } as const,
      checkpoints: this.#run.checkpointRoot,
      number: ++this.#requests,
      concurrent_rollouts: this.#request_limit,
      emit,
    };
    return answerRequest(command, context, signal);
  }

  /** Finishes the update and ends the run. */
  stop(): void {
    this.#interrupted.abort(new ServiceError("cancelled", "Cannot go on: interrupted"));
  }

  /** Starts the engine and loads everything. @throws {ServiceError} Problems of the machine or the model. */
  async begin(): Promise<void> {
    const { prepared, from, adopt } = this.#options;
    // The server has written that its run starts. It does not know the checkpoint, so that is written here.
    if (adopt === undefined || from) {
      await this.#run.transition("starting", { checkpoint: from?.name ?? null });
    }
    for (const warning of prepared.warnings) this.#run.warn(warning);
    if (adopt !== undefined) this.#listen();
    await this.#openSession(from);
    // Commands that the server accepted while the run started take effect before the first update.
    if (adopt !== undefined) await this.#controller?.ready();
    await this.#run.transition("running", { checkpoint: from?.name ?? null });
    if (adopt === undefined) this.#listen();
  }

  #listen(): void {
    this.#controller?.listen().then(
      () => this.#stopUncontrolled("it was closed"),
      (error) => this.#stopUncontrolled(errorRecord(error).message),
    );
  }

  /**
   * Stops the run when its control pipe has ended, because nobody can pause or cancel it any more. A server's run also
   * discards its update, because the next server waits for its directory.
   */
  #stopUncontrolled(reason: string): void {
    if (this.#has_ended) return;
    this.#run.emit({
      kind: "log",
      level: "warning",
      message: `the control pipe ended: ${reason}; the run stops`,
    });
    this.stop();
    if (this.#options.adopt === undefined) return;
    this.#now.abort(new ServiceError("cancelled", "Cannot finish the update: the server is gone"));
  }

  /** Closes the session without training. */
  async close(): Promise<void> {
    this.#has_ended = true;
    await this.#controller?.close();
    await this.#session?.close();
  }

  /** Trains to the end. Every ending, including a failure, is a state of the run. */
  async train(): Promise<RunState> {
    let end: LoopEnd | null = null, failure: unknown = null;
    try {
      end = await this.#trainThroughLosses();
    } catch (error) {
      const { code, message, details } = errorRecord(error);
      // Another program took the device between the lost engine and the next one. That is no failure of the run.
      if (isDeviceTaken({ code, details })) {
        end = "interrupted";
        this.#run.emit({ kind: "log", level: "warning", message });
      } else failure = error;
    }
    this.#has_ended = true;
    await this.#controller?.close();
    await this.#transitions.catch((error) => failure ??= error);
    await this.#session?.close();
    return await this.#finish(failure === null ? end! : null, failure);
  }

  async #trainThroughLosses(): Promise<LoopEnd> {
    while (true) {
      try {
        const end = await this.#loop();
        if (end === "completed") {
          // The adapter that is saved takes the memory of one for requests.
          await this.#controller?.close();
          await saveAdapters(this.#run, this.#session!.engine);
        }
        return end;
      } catch (error) {
        const { device_losses = 0 } = this.#run.directory.record, { code, message } = errorRecord(error);
        if (code !== "device_lost" || device_losses >= MAX_DEVICE_LOSSES) throw error;
        await this.#run.directory.update({ device_losses: device_losses + 1 });
        await this.#replaceEngine(message);
      }
    }
  }

  async #loop(): Promise<LoopEnd> {
    const { engine } = this.#session!;
    return await new TrainingLoop({
      run: this.#run,
      engine,
      algorithm: this.#algorithm!,
      controller: this.#controller,
      signal: this.#interrupted.signal,
      now: this.#now.signal,
      keeps_when_left: this.#options.adopt !== undefined || this.#run.config.checkpoint !== undefined,
    }).run();
  }

  /** The adapter and the optimiser's state are lost with the device: the run continues from its newest checkpoint. */
  async #replaceEngine(reason: string): Promise<void> {
    const run = this.#run;
    const { update, learning_rate } = run.state, { device_losses } = run.directory.record;
    await this.#session!.close();
    const own = await newestCheckpoint(
      run.checkpointRoot,
      (message) => run.warn({ code: "checkpoint_damaged", message }),
    );
    const from = own ?? this.#options.from;
    run.restore(from);
    await run.restoreBestAdapter(from);
    // A command may have set it after the checkpoint; keep it across the lost device.
    run.setLearningRate(learning_rate);
    run.warn({
      code: "device_lost",
      message:
        `the device was lost after update ${update} (${reason}); engine ${device_losses} of ${MAX_DEVICE_LOSSES} ` +
        `replaces it and continues after update ${run.state.update}`,
    });
    await this.#openSession(from);
    run.emit({
      kind: "state",
      state: run.runState,
      reason: null,
      detail: null,
      update: run.state.update,
      checkpoint: from?.name ?? null,
    });
  }

  async #openSession(from: Checkpoint | null): Promise<void> {
    const { prepared, openSession, clock } = this.#options;
    const { config, definition, files } = prepared;
    const session = this.#session = await openSession();
    // A log that cannot be written fails the run at its next event.
    this.#passMessages(session).catch(() => {});
    try {
      const request = loadRequest(config, definition.sequences(config), definition.training(config));
      const claim = deviceClaim("run", this.#run.id);
      const facts = await session.engine.call("load", { ...request, files, claim });
      const message = providerMessage(facts);
      if (message !== null) this.#run.emit({ kind: "log", level: "info", message });
      const slow = softwareWarning(config, facts);
      if (slow !== null) this.#run.warn({ code: "software_device", field: "model.device", message: slow });
      if (from) await session.engine.call("checkpoint_load", { adapter: POLICY, directory: from.directory });
      else await session.engine.call("adapter_open", { adapter: POLICY, source: policySource(config) });
      for (const adapter of definition.adapters(config, "updates")) {
        await session.engine.call("adapter_open", adapter);
      }
      this.#algorithm = prepared.createAlgorithm(session, clock);
    } catch (error) {
      await session.close();
      throw error;
    }
  }

  /** Writes the messages of graders into the log until the run ends. */
  async #passMessages({ messages }: Session): Promise<void> {
    for await (const message of messages) {
      if (this.#has_ended) return;
      this.#run.emit({ kind: "log", level: "info", message });
    }
  }

  /** Writes an accepted command into the log, and changes the state if the command does. Resolves when it is on disk. */
  #accept(event: CommandEvent): Promise<void> {
    this.#run.emit(event);
    const state =
      ({ pause: "pausing", cancel: "stopping" } as Partial<Record<string, RunState>>)[event.command];
    if (state && this.#run.runState !== state) {
      this.#transitions = Promise.all([this.#transitions, this.#run.transition(state)]).then(() => {});
      this.#transitions.catch(() => {});
    }
    return this.#run.flush();
  }

  async #finish(end: LoopEnd | null, failure: unknown): Promise<RunState> {
    const run = this.#run;
    const { csv } = run.config.metrics;
    const error = end === null ? errorRecord(failure) : null;
    const reason = error && failureReason(error.code);
    const detail = error?.message ?? null;
    const ended: RunState = end ?? "failed";
    try {
      const last = endEvent(run, ended, { reason, detail }), fall = fallWarning(last, run.config);
      const last_events: EventData[] = fall ? [{ kind: "warning", ...fall }, last] : [last];
      // The log of a server's run has more events when the run is resumed.
      const events = this.#options.adopt === undefined || hasEnded(ended) ? last_events : [];
      await run.transition(ended, { reason, detail }, events);
    } catch (unwritten) {
      // A full disk also breaks the log: report the first failure.
      throw failure instanceof ServiceError ? failure : unwritten;
    }
    if (csv !== undefined) {
      await refuseForeignCsv(run.config);
      await writeMetricsCsv(run.directory.eventsPath, csv);
    }
    return ended;
  }
}
