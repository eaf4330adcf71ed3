/** Evaluates without a run, for `svc eval`. */

import { resolve } from "node:path";
import { systemClock } from "../core/clock.ts";
import { realPathOf } from "../core/real_path.ts";
import type { EvaluationResult } from "../runs/algorithms/algorithm.ts";
import { prepareRun } from "../runs/plan/prepare.ts";
import { EVALUATION_WARNING_CODES } from "../runs/record/warning.ts";
import { openWorkerSession, type Session } from "../runs/session/session.ts";
import type { EvaluateOptions } from "./context.ts";
import { type ModelSession, openModel } from "./open_model.ts";

/**
 * Evaluates an adapter, or the model as training would start with it, on the held-out data.
 *
 * @throws {ServiceError} Problems of the data, the model, the adapter or the machine, or the signal's reason.
 */
async function evaluateAlone(
  { loaded, adapter, signal, activity, transcripts, warn, tell }: EvaluateOptions,
  openSession: (options: ModelSession) => Session,
): Promise<EvaluationResult> {
  const prepared = await prepareRun(loaded, { updates: false });
  const { config, definition } = prepared;
  for (const warning of prepared.warnings) if (EVALUATION_WARNING_CODES.includes(warning.code)) warn(warning);
  const path = adapter === null ? config.lora.init_adapter ?? null : await realPathOf(resolve(adapter));
  await using model = await openModel(prepared, path, { openSession, tell });
  const { session } = model;
  for (const other of definition.adapters(config, "evaluations")) {
    await session.engine.call("adapter_open", other);
  }
  const algorithm = prepared.createAlgorithm(session, systemClock);
  signal.throwIfAborted();
  return await algorithm.evaluate({ adapter: model.adapter, signal, activity, transcripts });
}

/** Runs {@link evaluateAlone} in workers. */
export function evaluateInWorkers(options: EvaluateOptions, entry_url: string): Promise<EvaluationResult> {
  return evaluateAlone(options, (session) => openWorkerSession({ ...session, files: [], entry_url }));
}
