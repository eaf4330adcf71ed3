/** Evaluates without a run, for `svc eval`. */

import { resolve } from "node:path";
import type { ResolvedConfig } from "../config/check/derive.ts";
import { systemClock } from "../core/clock.ts";
import { deviceClaim } from "../core/device_lock.ts";
import { realPathOf } from "../core/real_path.ts";
import type { EvaluationResult } from "../runs/algorithms/algorithm.ts";
import { prepareRun } from "../runs/plan/prepare.ts";
import { EVALUATION_WARNING_CODES } from "../runs/record/warning.ts";
import { loadRequest, openWorkerSession, type Session } from "../runs/session/session.ts";
import type { EvaluateOptions } from "./context.ts";
import { openScratchFolder } from "./scratch_folder.ts";

/** The engine's name of the evaluated adapter. */
const EVALUATED = "evaluated";

/** The configuration of an evaluation's workers, and the files and folders that they may access. */
export interface EvaluationSession {
  config: ResolvedConfig;
  /** The folder for workspaces. */
  workspaces: string;
  /** Files that the engine reads besides those of the configuration. */
  readable: string[];
}

/**
 * Evaluates an adapter, or the model as training would start with it, on the held-out data.
 *
 * @throws {ServiceError} Problems of the data, the model, the adapter or the machine, or the signal's reason.
 */
async function evaluateAlone(
  { loaded, adapter, signal, activity, transcripts, warn }: EvaluateOptions,
  openSession: (options: EvaluationSession) => Session,
): Promise<EvaluationResult> {
  const prepared = await prepareRun(loaded);
  const { config, definition } = prepared;
  for (const warning of prepared.warnings) if (EVALUATION_WARNING_CODES.includes(warning.code)) warn(warning);
  const path = adapter === null ? config.lora.init_adapter ?? null : await realPathOf(resolve(adapter));
  const scratch = await openScratchFolder();
  try {
    // The folder of temporary files can be a link, and the workers may write only to its target.
    const workspaces = await Deno.realPath(scratch.path);
    const readable = path === null ? [] : [path];
    const session = openSession({ config, workspaces, readable });
    try {
      const { engine } = session;
      const claim = deviceClaim("probe", null);
      await engine.call("load", { ...loadRequest(config, definition.sequences(config)), claim });
      if (path !== null) {
        await engine.call("adapter_open", { adapter: EVALUATED, source: { type: "file", path } });
      }
      for (const other of definition.adapters(config, "evaluations")) {
        await engine.call("adapter_open", other);
      }
      const algorithm = prepared.createAlgorithm(session, systemClock);
      signal.throwIfAborted();
      return await algorithm.evaluate({
        adapter: path === null ? null : EVALUATED,
        signal,
        activity,
        transcripts,
      });
    } finally {
      await session.close();
    }
  } finally {
    await scratch.close();
  }
}

/** Runs {@link evaluateAlone} in workers. */
export function evaluateInWorkers(options: EvaluateOptions, entry_url: string): Promise<EvaluationResult> {
  return evaluateAlone(options, (session) => openWorkerSession({ ...session, files: [], entry_url }));
}
