/** Loads a configuration's base model for its judge, without a run. */

import type { BaseModel } from "../agent/judge/local_judge.ts";
import { templateVariables } from "../config/check/own_section.ts";
import type { LoadedConfig } from "../config/check/load.ts";
import { deviceClaim } from "../core/device_lock.ts";
import { prepareModel } from "../runs/plan/prepare.ts";
import { baseModel } from "../runs/session/base_model.ts";
import { loadModelParts } from "../runs/session/model_parts.ts";
import { enginePermissions, loadRequest } from "../runs/session/session.ts";
import { startEngine } from "../runs/session/workers.ts";

/** A loaded base model; disposing of it ends its engine. */
export interface JudgingModel extends AsyncDisposable {
  model: BaseModel;
}

/**
 * Loads the model in an engine with room for one sequence.
 *
 * @throws {ServiceError} Problems of the model's file or the machine.
 */
export async function openJudgeModel(loaded: LoadedConfig, entry_url: string): Promise<JudgingModel> {
  await using opening = new AsyncDisposableStack();
  const { config } = await prepareModel(loaded);
  const parts = await loadModelParts(config.model, templateVariables(config));
  const permissions = enginePermissions(config.model.webgpu, { read: [config.model.path] });
  const handle = startEngine({ entry_url, permissions });
  opening.defer(() => handle.close());
  const { client: engine } = handle, claim = deviceClaim("probe", null);
  await engine.call("load", { ...loadRequest(config, null), claim });
  const model = baseModel({ engine, parts, config, files: [] });
  const opened = opening.move();
  return { model, [Symbol.asyncDispose]: () => opened.disposeAsync() };
}
