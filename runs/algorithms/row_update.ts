/** An update of an algorithm that learns from rows: one optimiser step. */

import type { Clock } from "../../core/clock.ts";
import type { EngineClient } from "../../trainer/protocol/client.ts";
import type { EngineMethods, TrainStepResult } from "../../trainer/protocol/protocol.ts";
import type { UpdateRequest, UpdateResult } from "./algorithm.ts";
import { rate, refuseSkipped } from "./optimizer_step.ts";
import { type Metrics, stepMetrics } from "./step_metrics.ts";

type StepRequest = EngineMethods["train_step"]["request"];

/** An update on rows: the request of its step, and its own metrics. */
export interface RowUpdate extends Pick<UpdateRequest, "update" | "examples_seen" | "signal"> {
  /** Rows of the step. */
  rows: number;
  /** Its time counts as training. */
  prepare(): StepRequest | Promise<StepRequest>;
  /** The step's fields beside those that every step has; left out: none. */
  measure?(result: TrainStepResult): Metrics;
}

/** Takes the step. @throws {ServiceError} `loss_not_finite` when it was skipped. */
export async function learnRows(
  { engine, clock }: { engine: EngineClient; clock: Clock },
  { update, examples_seen, rows, signal, prepare, measure }: RowUpdate,
): Promise<UpdateResult> {
  const started = clock.monotonic_ms();
  const request = await prepare();
  signal.throwIfAborted();
  const result = await engine.call("train_step", request, signal);
  const train_seconds = (clock.monotonic_ms() - started) / 1000;
  refuseSkipped(result.skipped, update);
  const { peak_bytes } = await engine.call("counters", null);
  return {
    steps: [{ step: result.step, values: { ...stepMetrics({ result, ...request }), ...measure?.(result) } }],
    values: {
      "time/train_seconds": train_seconds,
      ...rate("tokens/trained_per_second", result.trained_tokens, train_seconds),
      "memory/device_bytes": Object.values(peak_bytes).reduce((sum, n) => sum + n, 0),
    },
    groups: [],
    attempts: 0,
    lost: {},
    failures: {},
    reward_mean: null,
    loss: result.loss,
    tokens: result.computed_tokens,
    examples_seen: examples_seen + rows,
    history: {},
    deterministic: true,
  };
}
