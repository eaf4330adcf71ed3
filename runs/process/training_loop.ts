/** The training loop: evaluate, write checkpoints, handle commands, update, until the run is finished or stopped. */

import { rolloutName } from "../../agent/recording/tape.ts";
import type { ScenarioFailure } from "../../agent/rollout/lost.ts";
import { ServiceError } from "../../core/errors.ts";
import type { EngineClient } from "../../trainer/protocol/client.ts";
import { type Algorithm, type EvaluationResult, POLICY, type UpdateResult } from "../algorithms/algorithm.ts";
import type { Metrics } from "../algorithms/step_metrics.ts";
import { refuseForeignAdapter } from "../directory/foreign_files.ts";
import { evaluationRecord } from "../record/evaluation_record.ts";
import { gainOf, OBJECTIVE_NAMES, OBJECTIVES } from "../record/objective.ts";
import type { Controller } from "./control.ts";
import type { LiveRun } from "./live_run.ts";
import { learningRate } from "./schedule.ts";

export interface TrainingLoopOptions {
  run: LiveRun;
  engine: EngineClient;
  algorithm: Algorithm;
  controller: Controller | null;
  /** Aborts when the run is to end at the next boundary. */
  signal: AbortSignal;
  /** Aborts when the current update is to be discarded. */
  now: AbortSignal;
  /** Whether a run that is interrupted writes a checkpoint first. */
  keeps_when_left: boolean;
}

export type LoopEnd = "completed" | "paused" | "cancelled" | "interrupted";

export class TrainingLoop {
  readonly #options: TrainingLoopOptions;
  #started_ms: number;
  /** The message that was reported last, by kind of attempts and reason. */
  readonly #reported = new Map<string, string>();

  constructor(options: TrainingLoopOptions) {
    this.#options = options;
    this.#started_ms = options.run.clock.monotonic_ms();
  }

  async run(): Promise<LoopEnd> {
    while (true) {
      if (this.#evaluationIsDue()) await this.#evaluate();
      if (this.#checkpointIsDue()) await this.#checkpoint();
      const end = await this.#boundary();
      if (end) return end;
      await this.#update();
    }
  }

  /** Whether the run is complete: all updates are done, the time is up, or it stops early. */
  #isFinished(): boolean {
    const { run, algorithm } = this.#options;
    const { evaluation } = run.config;
    const { update, evaluations_since_gain } = run.state;
    if (update >= (algorithm.updates ?? Infinity) || this.#secondsLeft() <= 0) return true;
    return evaluation?.patience !== undefined && evaluations_since_gain >= evaluation.patience;
  }

  /** The seconds of training until `max_minutes`. */
  #secondsLeft(): number {
    const { run: { config: { training }, state } } = this.#options;
    return (training.max_minutes ?? Infinity) * 60 - state.elapsed_seconds;
  }

  /** An estimate of the seconds until the last update has ended. */
  #etaSeconds(): number {
    const { run: { state }, algorithm: { updates } } = this.#options;
    const by_updates = updates === null
      ? Infinity
      : state.elapsed_seconds / state.update * (updates - state.update);
    return Math.max(0, Math.min(by_updates, this.#secondsLeft()));
  }

  #evaluationIsDue(): boolean {
    const { run, algorithm, signal, now } = this.#options;
    const { update, evaluations, evaluated_update } = run.state;
    if (!algorithm.objective || evaluated_update === update || signal.aborted || now.aborted) return false;
    const every = run.config.evaluation!.every_updates;
    return evaluations === 0 || this.#isFinished() || (every !== undefined && update % every === 0);
  }

  #checkpointIsDue(): boolean {
    const { run } = this.#options;
    const { update, best } = run.state;
    const { checkpoint } = run.config;
    if (!checkpoint || update === 0 || run.saved_update === update) return false;
    return this.#isFinished() || update % checkpoint.every_updates === 0 ||
      (checkpoint.best && best?.update === update);
  }

  async #checkpoint(): Promise<void> {
    const { run, engine, algorithm } = this.#options;
    const { update } = run.state;
    if (run.saved_update === update) return;
    run.activity.show({ phase: "checkpoint", update, updates: algorithm.updates });
    await run.saveCheckpoint(async (directory) => {
      await engine.call("checkpoint_save", { adapter: POLICY, directory });
    });
  }

  /** Handles the commands since the last boundary. When the run is about to end, no more commands are accepted. */
  async #boundary(): Promise<LoopEnd | null> {
    const { run, controller, keeps_when_left } = this.#options;
    while (true) {
      let is_asked = false;
      for (const command of controller?.takeBoundary() ?? []) {
        if (command.command === "set_lr") run.setLearningRate(command.lr);
        is_asked ||= command.command === "checkpoint" || command.command === "cancel" && command.checkpoint;
      }
      const end = this.#end();
      if (is_asked || end === "paused" || end === "interrupted" && keeps_when_left) {
        await this.#checkpoint();
      }
      if (controller?.has_waiting) continue;
      if (this.#end() !== end) continue;
      if (end) controller?.end();
      return end;
    }
  }

  /** Pause and cancel change the state when they are accepted, so the state shows which one counts. */
  #end(): LoopEnd | null {
    const { run, signal } = this.#options;
    if (run.runState === "stopping") return "cancelled";
    if (run.runState === "pausing") return "paused";
    if (signal.aborted) return "interrupted";
    return this.#isFinished() ? "completed" : null;
  }

  async #update(): Promise<void> {
    const { run, algorithm, now } = this.#options;
    const { state } = run;
    const update = state.update + 1;
    this.#started_ms = run.clock.monotonic_ms();
    try {
      const result = await algorithm.runUpdate({
        update,
        examples_seen: state.examples_seen,
        learningRate: (step) => this.#learningRate((update - 1) * algorithm.steps_per_update + step),
        signal: now,
        activity: run.activity,
        warn: (warning) => run.emit({ kind: "warning", ...warning }),
      });
      this.#record(update, result);
    } catch (error) {
      if (!isCancelled(error, now)) throw error;
    }
  }

  #learningRate(step: number): number {
    const { run: { state, config: { training } }, algorithm: { updates, steps_per_update } } = this.#options;
    return learningRate({
      learning_rate: state.learning_rate ?? training.lr,
      lr_scheduler: training.lr_scheduler,
      warmup_steps: training.warmup_steps,
      total_steps: updates === null ? null : updates * steps_per_update,
      used_time: training.max_minutes === undefined ? 0 : state.elapsed_seconds / (training.max_minutes * 60),
    }, step);
  }

  #record(update: number, result: UpdateResult): void {
    const { run, algorithm } = this.#options;
    const { state } = run;
    const seconds = (run.clock.monotonic_ms() - this.#started_ms) / 1000;
    const step = result.steps.at(-1)?.step ?? state.step;
    Object.assign(state, { update, step, examples_seen: result.examples_seen });
    state.elapsed_seconds += seconds;
    if (this.#dependsOnTime()) state.deterministic = false;
    state.curve.push(result.reward_mean ?? result.loss);
    state.deterministic &&= result.deterministic;
    for (const [scenario, entry] of Object.entries(result.history)) {
      (state.history[scenario] ??= []).push(entry);
    }
    run.metrics = Object.assign({}, ...result.steps.map(({ values }) => values), result.values);
    for (const event of metricEvents(result, step)) run.emit({ kind: "metrics", update, ...event });
    run.emit({
      kind: "update",
      update,
      updates: algorithm.updates,
      step,
      reward_mean: result.reward_mean,
      loss: result.loss,
      tokens_per_second: seconds > 0 ? result.tokens / seconds : 0,
      eta_seconds: this.#etaSeconds(),
      attempts: result.attempts,
      lost: result.lost,
      failure: Object.values(result.failures)[0] ?? null,
      degenerate_groups: result.groups.filter(({ degenerate }) => degenerate).length,
      optimizer_steps: result.steps.length,
      groups: result.groups,
    });
    this.#reportFailures("attempts", `attempts of update ${update}`, result.failures);
  }

  /** Whether a faster or slower machine would have trained otherwise up to now. */
  #dependsOnTime(): boolean {
    const { run: { state, config: { training } }, algorithm: { updates } } = this.#options;
    const has_timed_rate = updates === null && training.lr_scheduler !== "constant";
    return has_timed_rate || this.#secondsLeft() <= 0 && state.update < (updates ?? Infinity);
  }

  /**
   * Logs a line for each reason why attempts failed, for readers who do not see the trajectories.
   *
   * @param kind A failure whose message equals the last one of its kind and reason is not logged again.
   */
  #reportFailures(kind: string, attempts: string, failures: Record<string, ScenarioFailure>): void {
    for (const [reason, { scenario, boundary, message }] of Object.entries(failures)) {
      const key = `${kind} ${reason}`;
      if (message === this.#reported.get(key)) continue;
      this.#reported.set(key, message);
      const first = `first at scenario ${JSON.stringify(scenario)}, of the ${boundary}: ${message}`;
      const line = `${attempts} failed (${reason}), ${first}`;
      this.#options.run.emit({ kind: "log", level: "warning", message: line });
    }
  }

  async #evaluate(): Promise<void> {
    const { run: { activity, state }, algorithm, signal, now } = this.#options;
    const tape = rolloutName("evaluation", state.update);
    const both = AbortSignal.any([signal, now]);
    try {
      const result = await algorithm.evaluate({ adapter: POLICY, tape, signal: both, activity });
      await this.#recordEvaluation(result);
    } catch (error) {
      if (isCancelled(error, both)) return;
      await this.#keepUpdates(error);
      throw error;
    }
  }

  /** Saves the updates since the last checkpoint before the run fails, because no held-out attempt could be made. */
  async #keepUpdates(error: unknown): Promise<void> {
    const { run } = this.#options;
    const is_broken = error instanceof ServiceError && error.code === "environment_failed";
    if (is_broken && run.config.checkpoint && run.state.update > 0) await this.#checkpoint();
  }

  async #recordEvaluation(result: EvaluationResult): Promise<void> {
    const { run, engine, algorithm } = this.#options;
    const { state } = run;
    const { update, step } = state;
    const { deterministic, by_example, failures, ...outcome } = result;
    const values = evaluationMetrics(result);
    const metric = algorithm.objective!, record = evaluationRecord(update, metric, result);
    const { best, patience_value } = state;
    const gainOver = (value: number) => gainOf(metric, { from: value, to: record.value });
    // Of two equal values the later one counts as the best.
    const is_best = !best || gainOver(best.value) >= 0;
    const is_gain = patience_value === null || gainOver(patience_value) > run.config.evaluation!.min_delta;
    // The file is on disk before an event names it.
    if (is_best) {
      await refuseForeignAdapter(run.config);
      const request = { adapter: POLICY, path: run.bestAdapterPath, peft_dir: null };
      const { bytes: size_bytes, sha256 } = await engine.call("adapter_save", request);
      run.best_file = { size_bytes, sha256 };
    }
    state.deterministic &&= deterministic;
    state.evaluations++;
    state.evaluated_update = update;
    if (state.evaluations === 1) state.before = record;
    state.latest = record;
    if (is_best) state.best = record;
    if (is_gain) state.patience_value = record.value;
    state.evaluations_since_gain = is_gain ? 0 : state.evaluations_since_gain + 1;
    Object.assign(run.metrics, values);
    const by_row = result.rows ? { by_row: by_example } : {};
    run.emit({ kind: "evaluation", n: state.evaluations, update, ...outcome, ...by_row });
    this.#reportFailures("held-out", "held-out attempts", failures);
    run.emit({ kind: "metrics", update, step, values });
  }
}

/** One event when the update is one step, else one for each step and one for the update. */
function metricEvents(result: UpdateResult, step: number): { step: number; values: Metrics }[] {
  const { steps, values } = result;
  if (steps.length === 1) return [{ step, values: { ...steps[0]!.values, ...values } }];
  return [...steps, { step, values }];
}

export function evaluationMetrics(result: EvaluationResult): Metrics {
  const metrics: Metrics = {};
  for (const metric of OBJECTIVE_NAMES) {
    const value = OBJECTIVES[metric].valueOf(result);
    if (value !== null) metrics[metric] = value;
  }
  if (result.pass_rate) metrics["eval/failed_fraction"] = failedAttempts(result) / result.pass_rate.attempts;
  if (result.reward_mean !== null) metrics["eval/reward_mean"] = result.reward_mean;
  if (result.perplexity !== null) metrics["eval/perplexity"] = result.perplexity;
  return { ...metrics, ...result.values };
}

function failedAttempts({ failed }: EvaluationResult): number {
  return Object.values(failed).reduce((sum, n) => sum + n, 0);
}

function isCancelled(error: unknown, signal: AbortSignal): boolean {
  return signal.aborted &&
    (error === signal.reason || error instanceof ServiceError && error.code === "cancelled");
}
